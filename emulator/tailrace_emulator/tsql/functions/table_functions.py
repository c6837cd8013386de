"""Built-in table-valued functions: STRING_SPLIT, GENERATE_SERIES, OPENJSON.

Each compiles to a SQLite function that yields a JSON array of rows, which SQLite's json_each reads
row by row. So its arguments may come from the tables to its left (APPLY).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.values import Value, converted, literal_sql
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.tsql.functions.json_paths import find, missing, parse_path
from tailrace_emulator.tsql.functions.json_text import JsonKind, parse, scalar_text
from tailrace_emulator.tsql.functions.operators import decimal_of, pack, scaled_of
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import FunctionTable
from tailrace_emulator.values.types import BIGINT, INT, MAX, SqlType, nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

_BINARY_COLLATION: Final = "Latin1_General_BIN2"
_ROWS_MAX: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table function; ``convert`` turns what the function yields into its type."""

    name: str
    type: SqlType
    nullable: bool = True
    source: SqlType | None = None


@dataclass(frozen=True, slots=True)
class CompiledTable:
    """SQLite text of a JSON array of rows, and its columns."""

    text: str
    columns: tuple[TableColumn, ...]


Builder = Callable[["Expressions", FunctionTable, list[Value]], CompiledTable]


def _wrong_type(position: int, value: Value, function: str) -> SqlError:
    """8116."""
    return messages.error(8116, value.type.name, position, function)


def _string_split(
    compiler: Expressions, _node: FunctionTable, values: list[Value]
) -> CompiledTable:
    """STRING_SPLIT(text, separator [, enable_ordinal])."""
    if not 2 <= len(values) <= 3:
        raise messages.argument_count("string_split", 2)
    for position, value in enumerate(values[:2], 1):
        if not value.is_null and family(value.type) is not Family.TEXT:
            raise _wrong_type(position, value, "string_split")
    ordinal = 0
    if len(values) == 3:
        known = values[2].constant.value if values[2].constant else None
        if known not in {0, 1} and not values[2].is_null:
            raise messages.error(4199, 1, 3, "string_split", aborts=Aborts.SCOPE)
        ordinal = int(bool(known))
    text, separator = (compiler.as_text(value) for value in values[:2])
    kept = text.type if text.type.length != 0 else nvarchar(4000)
    base = nvarchar(kept.length) if is_national(kept) else varchar(kept.length)
    columns = [TableColumn("value", replace(base, collation=kept.collation or base.collation))]
    if ordinal:
        columns.append(TableColumn("ordinal", BIGINT, nullable=False))
    return CompiledTable(f"t_string_split({text.sql}, {separator.sql})", tuple(columns))


@sqlite_function("t_string_split", 2, takes_null=True)
def _split(text: str | None, separator: str | None) -> str:
    if separator is None or len(separator) != 1:
        raise messages.error(214, "separator", "nchar(1)/nvarchar(1)", state=11)
    parts = [] if text is None else text.split(separator)
    return json.dumps([[f"s{part}", n] for n, part in enumerate(parts, 1)])


def _generate_series(
    _compiler: Expressions, _node: FunctionTable, values: list[Value]
) -> CompiledTable:
    """GENERATE_SERIES(start, stop [, step])."""
    if not 2 <= len(values) <= 3:
        raise messages.argument_count("generate_series", 2)
    typed = [value for value in values if not value.is_null]
    target = typed[0].type if typed else INT
    for value in typed:
        if family(value.type) not in {Family.INTEGER, Family.DECIMAL}:
            raise _wrong_type(values.index(value) + 1, value, "generate_series")
        same = value.type.name == target.name and value.type.scale == target.scale
        if not same and {value.type.name, target.name} != {"decimal", "numeric"}:
            raise messages.error(5373)
    if family(target) is Family.DECIMAL:
        target = types_of.unite(value.type for value in typed)
    texts = [converted(value, target, explicit=True).sql for value in values]
    texts += ["NULL"] * (2 - len(texts))
    step = texts[2] if len(texts) > 2 else "'default'"
    scale = target.scale if family(target) is Family.DECIMAL else 0
    text = f"t_generate_series({texts[0]}, {texts[1]}, {step}, {scale}, {target.precision})"
    return CompiledTable(text, (TableColumn("value", target),))


@sqlite_function("t_generate_series", 5, takes_null=True)
def _series(start: Any, stop: Any, step: Any, scale: int, precision: int) -> str:
    if start is None or stop is None or step is None:
        return "[]"
    low, high = scaled_of(start), scaled_of(stop)
    unit = 10**scale
    jump = (unit if low <= high else -unit) if step == "default" else scaled_of(step)
    if jump == 0:
        raise messages.error(4199, 0, 3, "generate_series")
    if (high - low) * jump < 0:
        return "[]"
    if abs(high - low) // abs(jump) >= _ROWS_MAX:
        raise not_supported(f"GENERATE_SERIES of more than {_ROWS_MAX} rows")
    numbers = range(low, high + (1 if jump > 0 else -1), jump)
    if precision > 18:
        return json.dumps([[pack(decimal_of(number, precision))] for number in numbers])
    return json.dumps([[number] for number in numbers])


def _openjson(compiler: Expressions, node: FunctionTable, values: list[Value]) -> CompiledTable:
    """OPENJSON(text [, path]) [WITH (column type [path] [AS JSON], ...)]."""
    if not 1 <= len(values) <= 2:
        raise messages.argument_count("openjson", 1)
    text = compiler.as_text(values[0]).sql
    path = compiler.as_text(values[1]).sql if len(values) > 1 else "'$'"
    if not node.schema:
        key = replace(nvarchar(4000), collation=_BINARY_COLLATION)
        return CompiledTable(
            f"t_openjson({text}, {path})",
            (
                TableColumn("key", key, nullable=False),
                TableColumn("value", nvarchar(MAX)),
                TableColumn("type", SqlType("tinyint"), nullable=False),
            ),
        )
    columns, paths = [], []
    for column in node.schema:
        if column.as_json and (column.type.name != "nvarchar" or column.type.length != MAX):
            raise messages.error(13618)
        columns.append(TableColumn(column.name, column.type, source=nvarchar(MAX)))
        quoted = column.name.replace("\\", "\\\\").replace('"', '\\"')
        paths.append([column.path or f'$."{quoted}"', column.as_json])
    spec = literal_sql(json.dumps(paths))
    return CompiledTable(f"t_openjson_with({text}, {path}, {spec})", tuple(columns))


@sqlite_function("t_openjson", 2)
def _open(text: str, path_text: str) -> str:
    path = parse_path(path_text)
    node = find(parse(text), path)
    if node is None or not node.is_container:
        if path.strict:
            raise missing()
        return "[]"
    if node.kind is JsonKind.ARRAY:
        pairs = [(str(n), item) for n, item in enumerate(node.items)]
    else:
        pairs = [(name, member) for name, _, member in node.members]
    return json.dumps(
        [
            [
                pack(name),
                pack(text[n.start : n.end] if n.is_container else scalar_text(text, n)),
                int(n.kind),
            ]
            for name, n in pairs
        ]
    )


@sqlite_function("t_openjson_with", 3)
def _open_with(text: str, path_text: str, spec: str) -> str:
    path = parse_path(path_text)
    node = find(parse(text), path)
    if node is None or not node.is_container:
        if path.strict:
            raise missing()
        return "[]"
    items = node.items if node.kind is JsonKind.ARRAY else [node]
    wanted = [(parse_path(column), as_json) for column, as_json in json.loads(spec)]
    rows = []
    for item in items:
        row: list[Any] = []
        for column_path, as_json in wanted:
            found = find(item, column_path)
            if found is None and column_path.strict:
                raise missing()
            value = None
            if found is not None and found.is_container == as_json:
                raw = text[found.start : found.end]
                value = raw if as_json else scalar_text(text, found)
            row.append(pack(value))
        rows.append(row)
    return json.dumps(rows)


TABLE_FUNCTIONS: Final[dict[str, Builder]] = {
    "STRING_SPLIT": _string_split,
    "GENERATE_SERIES": _generate_series,
    "OPENJSON": _openjson,
}
"""By upper-case name; found without schema only."""

__all__ = ["TABLE_FUNCTIONS", "CompiledTable", "TableColumn"]
