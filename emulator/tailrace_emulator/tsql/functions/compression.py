"""COMPRESS and DECOMPRESS, bits of integers, and how words sound."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.collations import page_of
from tailrace_emulator.values.types import BIGINT, BIT, INT, MAX, varbinary, varchar
from tailrace_emulator.wire.code_pages import code_page

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

_WIDTHS: Final = {"bit": 8, "tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


@builtin("COMPRESS", 1)
def compress(_: Expressions, arguments: list[Value]) -> Value:
    """The gzip of text or binary."""
    value = arguments[0]
    if family(value.type) not in {Family.TEXT, Family.BINARY}:
        raise _wrong_type(value, 1, "compress")
    text = family(value.type) is Family.TEXT
    page = page_of(value.type.collation).number if text and not is_national(value.type) else 0
    return Value(f"t_compress({value.sql}, {page})", varbinary(MAX))


@sqlite_function("t_compress", 2)
def _compress(value: str | bytes, page: int) -> bytes:
    if isinstance(value, str):
        value = code_page(page).encode(value) if page else value.encode("utf-16-le")
    return gzip.compress(value, mtime=0)


@builtin("DECOMPRESS", 1)
def decompress(_: Expressions, arguments: list[Value]) -> Value:
    """What a gzip holds."""
    value = arguments[0]
    if family(value.type) is not Family.BINARY:
        raise _wrong_type(value, 1, "decompress")
    return Value(f"t_decompress({value.sql})", varbinary(MAX))


@sqlite_function("t_decompress", 1)
def _decompress(value: bytes) -> bytes:
    try:
        return gzip.decompress(value)
    except (OSError, EOFError, zlib.error) as error:
        raise not_supported("DECOMPRESS of what is no gzip") from error


def _wrong_type(value: Value, position: int, function: str) -> SqlError:
    """8116."""
    return messages.error(8116, value.type.name, position, function)


# Bits -------------------------------------------------------------------------------------------


def _bits(value: Value, function: str) -> int:
    """How many bits an integer has."""
    width = _WIDTHS.get(value.type.name)
    if width is None:
        raise _wrong_type(value, 1, function)
    return width


def _shift(name: str, direction: int) -> None:
    """Registers LEFT_SHIFT and RIGHT_SHIFT."""

    @builtin(name, 2)
    def build(compiler: Expressions, arguments: list[Value]) -> Value:
        value = arguments[0]
        width = _bits(value, name.lower())
        count = compiler.as_int(arguments[1]).sql
        unsigned = int(value.type.name == "tinyint")
        text = f"t_shift({value.sql}, {count}, {width}, {direction}, {unsigned})"
        return Value(text, value.type, value.nullable or arguments[1].nullable)


_shift("LEFT_SHIFT", 1)
_shift("RIGHT_SHIFT", -1)


@sqlite_function("t_shift", 5)
def _shifted(value: int, count: int, width: int, direction: int, unsigned: int) -> int:
    mask = (1 << width) - 1
    places = count * direction
    raw = value & mask
    raw = (raw << places if places >= 0 else raw >> -places) & mask if abs(places) < width else 0
    return raw if unsigned or raw >> (width - 1) == 0 else raw - (1 << width)


@builtin("BIT_COUNT", 1)
def bit_count(_: Expressions, arguments: list[Value]) -> Value:
    """How many bits are 1."""
    value = arguments[0]
    if family(value.type) is Family.BINARY:
        return Value(f"t_bit_count_binary({value.sql})", BIGINT)
    return Value(f"t_bit_count({value.sql}, {_bits(value, 'bit_count')})", BIGINT)


@sqlite_function("t_bit_count", 2)
def _bit_count(value: int, width: int) -> int:
    return (value & ((1 << width) - 1)).bit_count()


@sqlite_function("t_bit_count_binary", 1)
def _bit_count_binary(value: bytes) -> int:
    return int.from_bytes(value, "big").bit_count()


@builtin("GET_BIT", 2)
def get_bit(compiler: Expressions, arguments: list[Value]) -> Value:
    """One bit of an integer, from the right."""
    width = _bits(arguments[0], "get_bit")
    return Value(
        f"t_get_bit({arguments[0].sql}, {compiler.as_int(arguments[1]).sql}, {width})", BIT
    )


@sqlite_function("t_get_bit", 3)
def _get_bit(value: int, offset: int, width: int) -> int:
    _check_offset(offset, width, "get_bit")
    return value >> offset & 1


@builtin("SET_BIT", 2, 3)
def set_bit(compiler: Expressions, arguments: list[Value]) -> Value:
    """An integer with one bit set, or cleared."""
    value = arguments[0]
    width = _bits(value, "set_bit")
    bit = compiler.as_int(arguments[2]).sql if len(arguments) > 2 else "1"
    unsigned = int(value.type.name == "tinyint")
    text = (
        f"t_set_bit({value.sql}, {compiler.as_int(arguments[1]).sql}, {bit}, {width}, {unsigned})"
    )
    return Value(text, value.type)


@sqlite_function("t_set_bit", 5)
def _set_bit(value: int, offset: int, bit: int, width: int, unsigned: int) -> int:
    _check_offset(offset, width, "set_bit")
    raw = value & ((1 << width) - 1)
    raw = raw | 1 << offset if bit else raw & ~(1 << offset)
    return raw if unsigned or raw >> (width - 1) == 0 else raw - (1 << width)


def _check_offset(offset: int, width: int, function: str) -> None:
    """5376 and its like: the place must be in the integer."""
    if not 0 <= offset < width:
        raise messages.error(4199, offset, 2, function)


# Sound ------------------------------------------------------------------------------------------

_CODES: Final = {
    letter: digit
    for letters, digit in (
        ("BFPV", "1"), ("CGJKQSXZ", "2"), ("DT", "3"), ("L", "4"), ("MN", "5"), ("R", "6"),
    )
    for letter in letters
}  # fmt: skip


@builtin("SOUNDEX", 1)
def soundex(compiler: Expressions, arguments: list[Value]) -> Value:
    """Four characters that similar names share."""
    return Value(f"t_soundex({compiler.as_text(arguments[0]).sql})", varchar(5))


@sqlite_function("t_soundex", 1)
def _soundex(text: str) -> str:
    word = text.lstrip(" ").upper()
    if not word or not ("A" <= word[0] <= "Z"):
        return "0000"
    code, previous = word[0], _CODES.get(word[0], "")
    for letter in word[1:]:
        if not ("A" <= letter <= "Z"):
            break
        digit = _CODES.get(letter, "")
        if digit and digit != previous:
            code += digit
        if letter not in "HW":
            previous = digit
    return code[:4].ljust(4, "0")


@builtin("DIFFERENCE", 2)
def difference(compiler: Expressions, arguments: list[Value]) -> Value:
    """How many characters of two SOUNDEX codes agree."""
    left, right = (compiler.as_text(a).sql for a in arguments)
    return Value(f"t_difference({left}, {right})", INT)


@sqlite_function("t_difference", 2)
def _difference(left: str, right: str) -> int:
    pairs = zip(_soundex(left), _soundex(right), strict=True)
    return sum(a == b for a, b in pairs)
