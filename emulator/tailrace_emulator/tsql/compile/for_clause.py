"""FOR JSON and FOR XML: a query's rows made one text by an aggregate around it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.values import Value, literal_sql, ruled
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.rules import Rule
from tailrace_emulator.tsql.functions import for_json, for_xml
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import (
    ForClause,
    Join,
    Query,
    Select,
    Source,
    TableName,
    VariableTable,
)
from tailrace_emulator.values.types import CLR_TYPES, MAX, SqlType, nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

_COLUMNS_MAX: Final = 120
"""SQLite takes 127 arguments at most."""

_ISO_STYLE: Final = 126
_FOUR_DIGITS_STYLE: Final = 2
_FLOAT_DIGITS: Final = 15
_REAL_DIGITS: Final = 7

RESULT_NAMES: Final = {
    "JSON": "JSON_F52E2B61-18A1-11d1-B105-00805F49916B",
    "XML": "XML_F52E2B61-18A1-11d1-B105-00805F49916B",
}
"""What SQL Server calls the one column."""


def compile_for(
    compiler: Expressions, query: Query, clause: ForClause, text: str, columns: list[Value]
) -> tuple[str, Value]:
    """The text around a query's own, and its one column.

    Raises:
        SqlError: 13605 or 6809 for a column without a name, 13601 for names that collide, 50900.
    """
    if len(columns) > _COLUMNS_MAX:
        raise not_supported(f"FOR {clause.format} of more than {_COLUMNS_MAX} columns")
    if any(column.type.name in CLR_TYPES for column in columns):
        raise not_supported(f"CLR types in FOR {clause.format} (use CAST)")
    inner = [replace(column, sql=f"v{n}", constant=None) for n, column in enumerate(columns)]
    if clause.format == "JSON":
        spec = _json_spec(query, clause, columns).text()
        texts = [_json_value(compiler, value) for value in inner]
        result = Value("v0", nvarchar(MAX), form="json")
    else:
        spec = _xml_spec(query, clause, columns).text()
        texts = [_plain(compiler, value) for value in inner]
        result = Value("v0", SqlType("xml") if clause.typed else nvarchar(MAX))
    function = f"t_for_{clause.format.lower()}"
    arguments = ", ".join([literal_sql(spec), *texts])
    return f"SELECT {function}({arguments}) AS v0 FROM ({text})", result


def streamed(clause: ForClause, text: str, result: Value) -> tuple[str, Value]:
    """The result of a whole statement: pieces of 2,033 characters, and no row for nothing."""
    named = replace(result, name=RESULT_NAMES[clause.format])
    if clause.typed:
        return f"SELECT v0 FROM ({text}) WHERE v0 IS NOT NULL", replace(named, name="")
    if clause.format == "XML":
        named = replace(named, type=SqlType("ntext", collation=result.type.collation))
    pieces = f"SELECT value AS v0 FROM json_each((SELECT t_pieces(v0) FROM ({text})))"
    return pieces, named


_PIECE: Final = 2033


@sqlite_function("t_pieces", 1)
def _pieces(text: str) -> str:
    return json.dumps([text[n : n + _PIECE] for n in range(0, len(text), _PIECE)])


def _single_source(source: Source | None, clause: ForClause) -> str:
    """The name of AUTO's only table.

    Raises:
        SqlError: 50900 for a join: its nesting is not made here; 6810 without a table.
    """
    if source is None:
        raise messages.error(13600 if clause.format == "JSON" else 6810)
    if isinstance(source, Join):
        raise not_supported(f"FOR {clause.format} AUTO over a join (use PATH)")
    if isinstance(source, TableName):
        return source.alias or ".".join(source.name)
    if isinstance(source, VariableTable):
        return source.alias or source.name
    return str(getattr(source, "alias", "row"))


def _source_of(query: Query) -> Source | None:
    return query.body.source if isinstance(query.body, Select) else None


def _json_spec(query: Query, clause: ForClause, columns: list[Value]) -> for_json.JsonSpec:
    """Names and quoting of the columns."""
    if clause.mode == "AUTO":
        _single_source(_source_of(query), clause)
    if clause.root is not None and not clause.wrapped:
        raise messages.error(13620)
    paths = []
    for column in columns:
        if not column.name:
            raise messages.error(13605)
        paths.append(tuple(column.name.split(".")) if clause.mode == "PATH" else (column.name,))
    for_json.check_paths(paths)
    quoted = tuple(_is_quoted(column) for column in columns)
    return for_json.JsonSpec(clause.root, clause.nulls, clause.wrapped, tuple(paths), quoted)


def _is_quoted(column: Value) -> bool:
    """Whether a column's text is a JSON string."""
    numbers = {Family.INTEGER, Family.DECIMAL, Family.FLOAT}
    return column.form != "json" and (column.is_null or family(column.type) not in numbers)


def _json_value(compiler: Expressions, value: Value) -> str:
    """SQLite text of a column's text."""
    if value.type.name == "bit":
        return f"(CASE {value.sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)"
    return _plain(compiler, value)


def _plain(compiler: Expressions, value: Value) -> str:
    """SQLite text of a value's text: ISO dates, scientific floats, base64."""
    kind = family(value.type)
    if kind is Family.TEXT:
        return value.sql
    if kind is Family.BINARY:
        return f"t_base64({value.sql})"
    if kind is Family.FLOAT:
        digits = _REAL_DIGITS if value.type.name == "real" else _FLOAT_DIGITS
        return f"t_scientific({value.sql}, {digits})"
    style = {"money": _FOUR_DIGITS_STYLE, "smallmoney": _FOUR_DIGITS_STYLE}.get(value.type.name)
    if kind in {Family.MOMENT, Family.OFFSET, Family.DATE, Family.TIME}:
        style = _ISO_STYLE
    if style is not None:
        rule = Rule(value.type, varchar(40), style)
        if rule.conversion() is not None:
            return ruled(value.sql, rule)
    return compiler.as_text(value).sql


@sqlite_function("t_base64", 1)
def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


@sqlite_function("t_scientific", 2)
def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{exponent[0]}{abs(int(exponent)):03d}"


def _xml_spec(query: Query, clause: ForClause, columns: list[Value]) -> for_xml.XmlSpec:
    """The row's element and the place of each column."""
    row = clause.element
    if clause.mode == "AUTO":
        if row is not None:
            raise messages.error(6860)
        row = _single_source(_source_of(query), clause)
    elif row is None:
        row = "row"
    placed = [_xml_column(clause, column) for column in columns]
    _check_attributes(placed)
    if (
        clause.mode == "PATH"
        and not row
        and any(c.last.startswith("@") and not c.parents for c in placed)
    ):
        raise messages.error(6864)
    element = for_xml.encoded_name(row) if row else ""
    return for_xml.XmlSpec(clause.root, clause.nulls, element, tuple(placed))


def _xml_column(clause: ForClause, column: Value) -> for_xml.XmlColumn:
    """Where a column goes."""
    is_xml = column.type.name == "xml"
    if clause.mode == "PATH":
        if not column.name:
            return for_xml.XmlColumn((), "", is_xml)
        *parents, last = column.name.split("/")
        if "(" not in last and last != "*":
            prefix = "@" if last.startswith("@") else ""
            last = prefix + for_xml.encoded_name(last.removeprefix("@"))
        names = tuple(for_xml.encoded_name(parent) for parent in parents)
        return for_xml.XmlColumn(names, last, is_xml)
    if not column.name:
        raise messages.error(6809)
    name = for_xml.encoded_name(column.name)
    plain = clause.elements or is_xml
    return for_xml.XmlColumn((), name if plain else f"@{name}", is_xml)


def _check_attributes(columns: list[for_xml.XmlColumn]) -> None:
    """Attributes come before what is inside of their element.

    Raises:
        SqlError: 6852 for one that comes later.
    """
    for position, column in enumerate(columns):
        if not column.last.startswith("@"):
            continue
        for before in columns[:position]:
            inside = before.parents[: len(column.parents)] == column.parents
            if inside and not (before.last.startswith("@") and before.parents == column.parents):
                raise messages.error(6852, column.last)
