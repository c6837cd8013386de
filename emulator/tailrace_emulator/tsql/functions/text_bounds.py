"""How many bytes values have: DATALENGTH, and text that is cut or refused beyond 8000 bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.collations import page_of
from tailrace_emulator.values.types import BIGINT, INT, MAX, SqlType
from tailrace_emulator.values.variants import data_bytes
from tailrace_emulator.wire.code_pages import code_page
from tailrace_emulator.wire.half_pairs import units

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

BYTES_MAX: Final = 8000
"""Of a value that is not of a (max) type."""


def cut_text(text: str, sql_type: SqlType, longest: int, *, nullable: bool) -> Value:
    """Text of a type, cut at the type's length.

    Args:
        longest: how long it may be, in units of the type's length; MAX where that is not known.
        nullable: whether it may be NULL.
    """
    if sql_type.length == MAX or MAX < longest <= sql_type.length:
        return Value(text, sql_type, nullable)
    whole = Value(text, replace(sql_type, length=MAX), nullable)
    return converted(whole, sql_type, explicit=True)


def page_number(sql_type: SqlType) -> int:
    """The code page of a text's bytes; 0 of nchar and nvarchar."""
    return 0 if is_national(sql_type) else page_of(sql_type.collation).number


def fitting_text(text: str, sql_type: SqlType, error: int) -> Value:
    """Text of a type, or an error where it has more than 8000 bytes."""
    if sql_type.length != MAX:
        text = f"t_fitting({text}, {page_number(sql_type)}, {error})"
    return Value(text, sql_type)


@sqlite_function("t_fitting", 3)
def _fitting(text: str, page: int, error: int) -> str:
    """Text of at most 8000 bytes; an error otherwise."""
    if _datalength(text, page) > BYTES_MAX:
        raise messages.error(error)
    return text


@builtin("DATALENGTH", 1)
def data_length(_: Expressions, arguments: list[Value]) -> Value:
    """Bytes."""
    value = arguments[0]
    result = BIGINT if value.type.length == MAX else INT
    kind = family(value.type)
    if kind is Family.TEXT:
        return Value(f"t_datalength({value.sql}, {page_number(value.type)})", result)
    if kind in {Family.BINARY, Family.CLR}:
        return Value(f"length({value.sql})", result)
    if kind is Family.VARIANT:
        return Value(f"t_variant_bytes({value.sql})", result)
    size = storage_size(value.type)
    return Value(f"(CASE WHEN {value.sql} IS NULL THEN NULL ELSE {size} END)", result)


@sqlite_function("t_variant_bytes", 1)
def _variant_bytes(value: str) -> int:
    return data_bytes(value)


@sqlite_function("t_datalength", 2)
def _datalength(text: str, page: int) -> int:
    return code_page(page).size(text) if page else units(text) * 2


def storage_size(sql_type: SqlType) -> int:
    """Bytes of a value of a type of fixed size."""
    sizes = {
        "bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 8, "real": 4,
        "money": 8, "smallmoney": 4, "date": 3, "datetime": 8, "smalldatetime": 4,
        "uniqueidentifier": 16,
    }  # fmt: skip
    if sql_type.name in sizes:
        return sizes[sql_type.name]
    if sql_type.name in {"decimal", "numeric"}:
        return next(n for p, n in ((9, 5), (19, 9), (28, 13), (38, 17)) if sql_type.precision <= p)
    fraction = 3 if sql_type.scale <= 2 else 4 if sql_type.scale <= 4 else 5
    return fraction + {"time": 0, "datetime2": 3, "datetimeoffset": 5}[sql_type.name]
