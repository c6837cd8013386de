"""Converting the values of a change table's column to the type its source column was given.

Only storage values are handled here (emulator/types.py); the pairs are those that ALTER COLUMN
commonly makes: within integers, decimals, floats, strings, binaries, date and time types, and
between numbers and strings. Any other pair is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.errors import SqlError, not_supported
from emulator.storage.values import round_datetime
from emulator.types import (
    CHARACTER_TYPES,
    INTEGER_TYPES,
    MAX,
    TICK_TYPES,
    TICKS_PER_DAY,
    SqlType,
    StorageValue,
    pack_decimal,
    pack_offset,
    unpack_decimal,
    unpack_offset,
)

Conversion = Callable[[StorageValue], StorageValue]

_INTEGER_RANGES: Final = {
    "bit": (0, 1),
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_BINARIES: Final = ("binary", "varbinary", "image")
_TICKED: Final = (*TICK_TYPES, "date", "time", "datetimeoffset")


def conversion(old: SqlType, new: SqlType) -> Conversion:
    """What turns a value of type ``old`` into one of type ``new``; NULL stays NULL.

    Raises:
        SqlError: 50900 for a pair of types that is not converted here. The conversion itself
            raises 220 or 8115 for a number that does not fit, 2628 for a string or binary that
            is too long, 245 for a string that is not a number.
    """
    convert = _conversion(old, new)

    def null_safe(value: StorageValue) -> StorageValue:
        return None if value is None else convert(value)

    return null_safe


def _conversion(old: SqlType, new: SqlType) -> Conversion:
    if old.is_character and new.is_character:
        return lambda value: _fit_text(str(value), new)
    if old.name in _BINARIES and new.name in _BINARIES:
        return lambda value: _fit_binary(value if isinstance(value, bytes) else b"", new)
    if old.name in _TICKED and new.name in _TICKED:
        return lambda value: _from_ticks(_to_ticks(value, old), new)
    if _is_number(old) and _is_number(new):
        return lambda value: _from_number(_to_number(value, old), new)
    if _is_number(old) and new.name in CHARACTER_TYPES:
        return lambda value: _fit_text(_number_text(value, old), new)
    if old.name in CHARACTER_TYPES and _is_number(new):
        return lambda value: _from_number(_parse_number(str(value), new), new)
    raise not_supported(f"following a change of a captured column's type from {old} to {new}")


def _is_number(sql_type: SqlType) -> bool:
    return (
        sql_type.name in INTEGER_TYPES or sql_type.is_decimal or sql_type.name in {"float", "real"}
    )


Number = tuple[int, int] | float
"""(scaled integer, scale), or a float."""


def _to_number(value: StorageValue, sql_type: SqlType) -> Number:
    if isinstance(value, float):
        return value
    if isinstance(value, bytes) or (sql_type.is_decimal and isinstance(value, int)):
        return unpack_decimal(value), sql_type.scale
    return int(value or 0), 0


def _from_number(number: Number, new: SqlType) -> StorageValue:
    if new.name in {"float", "real"}:
        return number if isinstance(number, float) else number[0] / 10 ** number[1]
    if isinstance(number, float):
        scale = new.scale if new.is_decimal else 0
        scaled = int(number) if not new.is_decimal else round(number * 10**scale)
        number = (scaled, scale)
    scaled, scale = number
    if new.is_decimal:
        scaled = _rescale(scaled, scale, new.scale)
        if abs(scaled) >= 10**new.precision:
            raise SqlError(8115, f"Arithmetic overflow error converting numeric to {new}.")
        return pack_decimal(scaled, new)
    # Towards zero, as T-SQL converts a decimal to an integer.
    whole: int = abs(scaled) // 10**scale * (1 if scaled >= 0 else -1)
    low, high = _INTEGER_RANGES[new.name]
    if new.name == "bit":
        return int(whole != 0)
    if not low <= whole <= high:
        raise SqlError(220, f"Arithmetic overflow error for data type {new.name}, value = {whole}.")
    return whole


def _rescale(scaled: int, scale: int, wanted: int) -> int:
    if wanted >= scale:
        return int(scaled * 10 ** (wanted - scale))
    unit = 10 ** (scale - wanted)
    rounded = (abs(scaled) + unit // 2) // unit
    return int(rounded if scaled >= 0 else -rounded)


def _number_text(value: StorageValue, old: SqlType) -> str:
    number = _to_number(value, old)
    if isinstance(number, float):
        return format(number, ".6g")
    scaled, scale = number
    digits = f"{abs(scaled):0{scale + 1}d}"
    sign = "-" if scaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _parse_number(text: str, new: SqlType) -> Number:
    stripped = text.strip()
    try:
        if new.name in {"float", "real"}:
            return float(stripped)
        whole, _, fraction = stripped.partition(".")
        return int(whole + fraction), len(fraction)
    except ValueError:
        raise SqlError(
            245,
            f"Conversion failed when converting the character value '{text}' to data type"
            f" {new.name}.",
        ) from None


def _fit_text(text: str, new: SqlType) -> str:
    if new.length in {0, MAX}:
        return text
    if len(text) > new.length:
        if text[new.length :].strip(" "):
            raise SqlError(8152, "String or binary data would be truncated.")
        text = text[: new.length]
    return text.ljust(new.length) if new.name in {"char", "nchar"} else text


def _fit_binary(value: bytes, new: SqlType) -> bytes:
    if new.length in {0, MAX}:
        return value
    if len(value) > new.length:
        raise SqlError(8152, "String or binary data would be truncated.")
    return value.ljust(new.length, b"\x00") if new.name == "binary" else value


def _to_ticks(value: StorageValue, old: SqlType) -> int:
    if old.name == "datetimeoffset" and isinstance(value, bytes):
        ticks, offset = unpack_offset(value)
        return ticks + offset * 600_000_000
    ticks = value if isinstance(value, int) else 0
    return ticks * TICKS_PER_DAY if old.name == "date" else ticks


def _from_ticks(ticks: int, new: SqlType) -> StorageValue:
    if new.name == "date":
        return ticks // TICKS_PER_DAY
    if new.name == "datetime":
        return round_datetime(ticks)
    unit = 600_000_000 if new.name == "smalldatetime" else 10 ** (7 - new.scale)
    rounded = (ticks + unit // 2) // unit * unit
    if new.name == "time":
        return min(rounded % TICKS_PER_DAY if rounded >= TICKS_PER_DAY else rounded, TICKS_PER_DAY)
    if new.name == "datetimeoffset":
        return pack_offset(rounded, 0)
    return rounded
