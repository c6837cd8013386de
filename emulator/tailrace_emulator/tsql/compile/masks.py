"""Dynamic data masking: what a session without UNMASK is shown of a masked column.

A query computes with the values themselves, in WHERE, JOIN, GROUP BY and ORDER BY. What it yields
is masked last. A column that is selected as it is gets its own function. Any other expression over
a masked column gets default(). So a copy (SELECT INTO, INSERT ... SELECT) holds masks.

https://learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking

Inferred: columns of derived tables, views and common table expressions keep their functions; of set
operations, if all of its queries have the same one. Tables inserted and deleted of triggers show
values. What would take masked values elsewhere (OUTPUT, SET of UPDATE and MERGE, VALUES, arguments
of table functions) is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.select_core import CompiledQuery
from tailrace_emulator.tsql.compile.values import Value, constant, converted, literal_sql
from tailrace_emulator.tsql.functions.masking import (
    BINARIES,
    DEFAULT,
    EMAIL,
    NUMBERS,
    PARTIAL,
    RANDOM,
    TEXTS,
    TIMES,
    known_mask,
)
from tailrace_emulator.values.types import BIGINT, INT, MAX, SqlType, varbinary

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation

_FULL: Final = "xxxx"
_ZERO: Final = b"0"
_FIRST_DAY: Final = "1900-01-01"


def masked_query(compiled: CompiledQuery) -> CompiledQuery:
    """A query whose columns are shown as the session may see them."""
    columns = compiled.columns
    if not any(column.mask for column in columns):
        return compiled
    texts = []
    for n, column in enumerate(columns):
        shown = replace(column, sql=f"v{n}")
        texts.append(f"{masked_value(shown).sql if column.mask else shown.sql} AS v{n}")
    text = f"SELECT {', '.join(texts)} FROM ({compiled.text})"
    plain = [replace(column, mask="", stored=False) for column in columns]
    return CompiledQuery(text, plain, compiled.limited)


def masked_value(value: Value) -> Value:
    """A value as its mask shows it; NULL stays NULL."""
    shown = _shown(value)
    text = f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE {shown.sql} END"
    return replace(value, sql=text, mask="", constant=None, stored=False)


def mask_of(value: Value, *, is_column: bool, uses_masked: bool) -> str:
    """The mask of what a select list yields.

    Args:
        is_column: whether it is a column as it is, and no expression.
        uses_masked: whether a masked column was named in it.
    """
    if is_column and value.mask:
        return value.mask
    return DEFAULT if uses_masked else ""


@contextmanager
def refusing_masked(compilation: Compilation, where: str) -> Iterator[None]:
    """Compile what may not name masked columns, because nothing says what becomes of them.

    Raises:
        SqlError: 50900 when one was named.
    """
    outer, compilation.uses_masked = compilation.uses_masked, False
    try:
        yield
        if compilation.uses_masked:
            raise not_supported(f"masked columns in {where} without UNMASK")
    finally:
        compilation.uses_masked = outer


def _shown(value: Value) -> Value:
    mask, sql_type = known_mask(value.mask), value.type
    if mask.name == EMAIL:
        return _text(f"t_mask_email({value.sql})", sql_type)
    first, second = mask.numbers
    if mask.name == PARTIAL:
        padding = literal_sql(mask.padding)
        return _text(f"t_mask_partial({value.sql}, {first}, {padding}, {second})", sql_type)
    if mask.name == RANDOM:
        number = Value(f"t_mask_random({value.sql}, {first}, {second})", BIGINT)
        return converted(number, sql_type, explicit=True)
    return _default(sql_type)


def _text(sql: str, sql_type: SqlType) -> Value:
    source = replace(sql_type, name=f"{'n' * sql_type.name.startswith('n')}varchar", length=MAX)
    return converted(Value(sql, source), sql_type, explicit=True)


def _default(sql_type: SqlType) -> Value:
    """What default() shows: ``xxxx`` or fewer, 0, 1900-01-01, one byte 0x30."""
    if sql_type.name in TEXTS:
        count = len(_FULL) if sql_type.length in {MAX, 0} else min(len(_FULL), sql_type.length)
        return _text(literal_sql(_FULL[:count]), sql_type)
    if sql_type.name in NUMBERS:
        return converted(constant(0, INT), sql_type, explicit=True)
    if sql_type.name in TIMES:
        text = "00:00:00" if sql_type.name == "time" else _FIRST_DAY
        return converted(
            constant(text, SqlType("varchar", length=len(text))), sql_type, explicit=True
        )
    if sql_type.name in BINARIES:
        return converted(constant(_ZERO, varbinary(1)), sql_type, explicit=True)
    raise not_supported(f"a mask on a value of type {sql_type.name}")
