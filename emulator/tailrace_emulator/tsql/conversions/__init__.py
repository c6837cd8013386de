"""Conversions between types, as functions from storage value to storage value.

:func:`converter` is what CAST does; :func:`assigner` is what storing into a column does. Text that
does not fit is an error there, error 2628, and silently cut everywhere else. None means that the
value needs no change. Functions never see NULL: callers pass it through.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.conversions.binary import to_binary
from tailrace_emulator.tsql.conversions.clr import clr_text, to_clr
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.numbers import to_decimal, to_float, to_integer
from tailrace_emulator.tsql.conversions.texts import fitted, to_guid, to_text, truncation_check
from tailrace_emulator.tsql.conversions.times import to_temporal
from tailrace_emulator.tsql.conversions.xml import to_xml
from tailrace_emulator.values.types import MAX, SqlType, nvarchar, varbinary
from tailrace_emulator.values.variants import NOT_HELD, can_hold, packer, unpacked

Conversion = Callable[[Any], Any]

_CACHED: Final = 2048

_IMPLICIT: Final[dict[Family, frozenset[Family]]] = {
    Family.INTEGER: frozenset(
        {Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.TEXT, Family.BINARY, Family.MOMENT}
    ),
    Family.DECIMAL: frozenset(
        {Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.TEXT, Family.BINARY, Family.MOMENT}
    ),
    Family.FLOAT: frozenset(
        {Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.TEXT, Family.MOMENT}
    ),
    Family.TEXT: frozenset(Family) - {Family.BINARY, Family.VARIANT},
    Family.BINARY: frozenset(
        {
            *(Family.INTEGER, Family.DECIMAL, Family.TEXT, Family.BINARY, Family.MOMENT),
            *(Family.GUID, Family.CLR),
        }
    ),
    Family.DATE: frozenset({Family.TEXT, Family.DATE, Family.MOMENT, Family.OFFSET}),
    Family.TIME: frozenset({Family.TEXT, Family.TIME, Family.MOMENT, Family.OFFSET}),
    Family.MOMENT: frozenset({Family.TEXT, Family.DATE, Family.TIME, Family.MOMENT, Family.OFFSET}),
    Family.OFFSET: frozenset({Family.TEXT, Family.DATE, Family.TIME, Family.MOMENT, Family.OFFSET}),
    Family.GUID: frozenset({Family.TEXT, Family.BINARY, Family.GUID}),
    Family.VARIANT: frozenset({Family.VARIANT}),
    Family.CLR: frozenset({Family.CLR}),
}
_EXPLICIT_TOO: Final[dict[Family, frozenset[Family]]] = {
    Family.TEXT: frozenset({Family.BINARY}),
    Family.FLOAT: frozenset({Family.BINARY}),
    Family.MOMENT: frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.BINARY}),
    Family.DATE: frozenset({Family.BINARY}),
    Family.TIME: frozenset({Family.BINARY}),
    Family.OFFSET: frozenset({Family.BINARY}),
    Family.BINARY: frozenset({Family.DATE, Family.TIME, Family.OFFSET}),
    Family.VARIANT: frozenset(Family) - {Family.VARIANT},
    Family.CLR: frozenset({Family.TEXT, Family.BINARY}),
}


def check_allowed(source: SqlType, target: SqlType, *, explicit: bool) -> None:
    """Whether SQL Server's conversion chart has this conversion.

    Raises:
        SqlError: 206, 257 or 529 when it has not.
    """
    from_family, to_family = family(source), family(target)
    if Family.VARIANT in {from_family, to_family}:
        _check_variant(source, target, explicit=explicit)
        return
    newer = {"datetime2"} & {source.name, target.name}
    allowed = to_family in _IMPLICIT[from_family] or (
        target.name == "image" and source.name in {"char", "varchar"}
    )
    also = to_family in _EXPLICIT_TOO.get(from_family, frozenset())
    numbers = {Family.INTEGER, Family.DECIMAL, Family.FLOAT}
    if newer and ({from_family, to_family} & numbers):
        allowed = also = False
    if Family.CLR in {from_family, to_family} and _are_strangers(source, target):
        raise messages.operand_clash(source.name, target.name)
    if allowed or (explicit and also):
        return
    if explicit:
        raise messages.explicit_conversion(source.name, target.name)
    if also:
        raise messages.implicit_conversion(source.name, target.name)
    raise messages.operand_clash(source.name, target.name)


def _are_strangers(source: SqlType, target: SqlType) -> bool:
    """Whether a CLR type meets another one, or xml."""
    if family(source) is family(target):
        return source.name != target.name
    return "xml" in {source.name, target.name}


def _check_variant(source: SqlType, target: SqlType, *, explicit: bool) -> None:
    """What goes into a sql_variant implicitly, and out of it only explicitly."""
    if target == source:
        return
    if target.name == "sql_variant":
        if can_hold(source):
            return
        if explicit:
            raise messages.explicit_conversion(_shown(source), target.name)
        raise messages.operand_clash(_shown(source), target.name)
    if not can_hold(target) and target.name in NOT_HELD:
        if explicit:
            raise messages.explicit_conversion(source.name, target.name)
        raise messages.operand_clash(source.name, target.name)
    if not explicit:
        raise messages.implicit_conversion(source.name, target.name)


def _shown(sql_type: SqlType) -> str:
    """A type as messages name it."""
    return f"{sql_type.name}(max)" if sql_type.length == MAX else sql_type.name


@lru_cache(maxsize=_CACHED)
def converter(source: SqlType, target: SqlType, style: int | None = None) -> Conversion | None:
    """CAST/CONVERT from ``source`` to ``target``; None when the value stays as it is.

    Args:
        source: type of the value.

    Raises:
        SqlError: 281 unknown style, 529 no such conversion.
    """
    check_allowed(source, target, explicit=True)
    return _convert(source, target, style)


@lru_cache(maxsize=_CACHED)
def assigner(
    source: SqlType, target: SqlType, table: str, column: str, *, truncates: bool = False
) -> Conversion | None:
    """Conversion of a value that goes into a column.

    Args:
        source: type of the value.
        table: ``database.schema.table``, for error 2628.
        truncates: cut text and bytes that do not fit (ANSI_WARNINGS OFF).

    Raises:
        SqlError: 206 or 257 when there is no implicit conversion.
    """
    check_allowed(source, target, explicit=False)
    sized = {Family.TEXT, Family.BINARY}
    if truncates and family(source) in sized:
        return _convert(source, target, None)
    if family(target) in sized and target.length > 0:
        wide = _widened(target)
        convert = _convert(source, wide, None)
        finish = truncation_check(target, table, column)
        if convert is None:
            return finish
        first = convert
        return lambda value: finish(first(value))
    return _convert(source, target, None)


def _widened(target: SqlType) -> SqlType:
    """The (max) type of the same kind."""
    name = {"char": "varchar", "nchar": "nvarchar", "binary": "varbinary"}.get(
        target.name, target.name
    )
    return SqlType(name, length=MAX, collation=target.collation)


def _convert(source: SqlType, target: SqlType, style: int | None) -> Conversion | None:
    """Without the check of the chart."""
    to_family = family(target)
    if Family.CLR in {family(source), to_family}:
        return _convert_clr(source, target, style)
    if to_family is Family.VARIANT:
        return None if source.name == "sql_variant" else packer(source)
    if source.name == "sql_variant":
        return lambda value: _from_variant(value, target, style)
    if target.name == "xml" and family(source) in {Family.TEXT, Family.BINARY}:
        return to_xml(source, style)
    if to_family is Family.TEXT:
        text = to_text(source, target, style)
        finish = fitted(source, target)
        if text is None or finish is None:
            return text or finish
        first, then = text, finish
        return lambda value: then(first(value))
    if to_family is Family.INTEGER:
        return to_integer(source, target)
    if to_family is Family.DECIMAL:
        return to_decimal(source, target)
    if to_family is Family.FLOAT:
        return to_float(source, target)
    if to_family is Family.BINARY:
        return to_binary(source, target, style)
    if to_family is Family.GUID:
        return to_guid(source)
    return to_temporal(source, target, style)


def _convert_clr(source: SqlType, target: SqlType, style: int | None) -> Conversion | None:
    """To and from CLR types."""
    if family(target) is Family.CLR:
        return to_clr(source, target)
    if family(target) is Family.BINARY:
        return to_binary(varbinary(source.length), target, style)
    shown, fit = clr_text(source), fitted(nvarchar(4000), target)
    return shown if fit is None else lambda value: fit(shown(value))


def _from_variant(value: str, target: SqlType, style: int | None) -> Any:
    """The base value of a sql_variant, converted as a value of its own type."""
    base_type, base = unpacked(value)
    return convert(base, base_type, target, style)


def convert(
    value: Any, source: SqlType, target: SqlType, style: int | None = None
) -> Any:  # storage values: their Python type follows the SqlType
    """One value converted; NULL stays NULL."""
    if value is None:
        return None
    conversion = converter(source, target, style)
    return value if conversion is None else conversion(value)


def try_convert(value: Any, source: SqlType, target: SqlType, style: int | None) -> Any:
    """TRY_CAST: NULL instead of a failed conversion."""
    try:
        return convert(value, source, target, style)
    except SqlError as error:
        if error.number in {529, 206, 281}:
            raise
        return None


@lru_cache(maxsize=_CACHED)
def quiet_converter(source: SqlType, target: SqlType, style: int | None) -> Conversion:
    """TRY_CAST as a conversion."""
    return lambda value: try_convert(value, source, target, style)


__all__ = [
    "Conversion",
    "assigner",
    "check_allowed",
    "convert",
    "converter",
    "quiet_converter",
    "try_convert",
]
