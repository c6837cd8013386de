"""Characters and their codes, delimited names, digests; and what is SQL Server's own secret."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import name_parts
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import is_national
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.functions.strings import constant_int, variable_text
from tailrace_emulator.values.collations import counts_characters, page_of
from tailrace_emulator.values.types import (
    DEFAULT_COLLATION,
    FLOAT,
    INT,
    SqlType,
    nvarchar,
    varbinary,
    varchar,
)
from tailrace_emulator.wire.code_pages import code_page
from tailrace_emulator.wire.half_pairs import encode_units, kept_halves, spread

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions


@builtin("ASCII", 1)
def ascii_code(compiler: Expressions, arguments: list[Value]) -> Value:
    """Code of the first character in the code page."""
    value = compiler.as_text(arguments[0])
    page = page_of(value.type.collation).number
    return Value(f"t_ascii({value.sql}, {page})", INT)


@sqlite_function("t_ascii", 2)
def _ascii(text: str, page: int) -> int | None:
    return code_page(page).encode(text[0])[0] if text else None


@builtin("UNICODE", 1)
def unicode_code(compiler: Expressions, arguments: list[Value]) -> Value:
    """Code point of the first character, code unit where the collation counts those."""
    value = compiler.as_text(arguments[0])
    characters = int(counts_characters(value.type.collation))
    return Value(f"t_unicode({value.sql}, {characters})", INT)


@sqlite_function("t_unicode", 2)
def _unicode(text: str, characters: int) -> int | None:
    """Not SQLite's own, for which U+0000 is the end of a text."""
    if not text:
        return None
    return _code_of(text[0] if characters else spread(text[0])[0])


def _code_of(character: str) -> int:
    """The code of a character; of a half that is kept, its own."""
    raw = encode_units(character)
    return int.from_bytes(raw, "little") if len(raw) == 2 else ord(character)


@builtin("CHAR", 1)
def character(compiler: Expressions, arguments: list[Value]) -> Value:
    """The character of a code."""
    collation = compiler.compilation.database.collation
    text = f"t_char({compiler.as_int(arguments[0]).sql}, {page_of(collation).number})"
    return Value(text, SqlType("char", length=1, collation=collation))


@sqlite_function("t_char", 2)
def _char(code: int, page: int) -> str | None:
    return code_page(page).decode(bytes([code])) if 0 <= code <= 255 else None


@builtin("NCHAR", 1)
def national_character(compiler: Expressions, arguments: list[Value]) -> Value:
    """The character of a code point."""
    text = f"t_nchar({compiler.as_int(arguments[0]).sql})"
    return Value(text, SqlType("nchar", length=1, collation=DEFAULT_COLLATION))


@sqlite_function("t_nchar", 1)
def _nchar(code: int) -> str | None:
    return kept_halves(chr(code)) if 0 <= code <= 0xFFFF else None


@builtin("QUOTENAME", 1, 2)
def quotename(compiler: Expressions, arguments: list[Value]) -> Value:
    """A delimited identifier."""
    value = compiler.as_text(arguments[0])
    mark = compiler.as_text(arguments[1]).sql if len(arguments) > 1 else "'['"
    return Value(f"t_quotename({value.sql}, {mark})", nvarchar(258))


@sqlite_function("t_quotename", 2)
def _quotename(text: str, mark: str) -> str | None:
    pairs = {"[": "[]", "]": "[]", "'": "''", '"': '""', "(": "()", ")": "()", "<": "<>", ">": "<>",
             "{": "{}", "}": "{}", "`": "``"}  # fmt: skip
    pair = pairs.get(mark[:1])
    if pair is None or len(text) > 128:
        return None
    return f"{pair[0]}{text.replace(pair[1], pair[1] * 2)}{pair[1]}"


@builtin("PARSENAME", 2)
def parsename(compiler: Expressions, arguments: list[Value]) -> Value:
    """One part of a dotted name, counted from the right."""
    value, part = compiler.as_text(arguments[0]), compiler.as_int(arguments[1])
    return Value(f"t_parsename({value.sql}, {part.sql})", nvarchar(128))


@sqlite_function("t_parsename", 2)
def _parsename(text: str, part: int) -> str | None:
    parts = name_parts(text) or ()
    return (parts[-part] or None) if 1 <= part <= len(parts) else None


@builtin("STR", 1, 3)
def str_number(compiler: Expressions, arguments: list[Value]) -> Value:
    """A float right-aligned in a width."""
    value = converted(arguments[0], FLOAT)
    width = compiler.as_int(arguments[1]) if len(arguments) > 1 else None
    decimals = compiler.as_int(arguments[2]).sql if len(arguments) > 2 else "0"
    known = constant_int(width) if width else 10
    text = f"t_str({value.sql}, {width.sql if width else '10'}, {decimals})"
    return Value(text, varchar(known if known and known > 0 else 8000))


@sqlite_function("t_str", 3)
def _str(value: float, width: int, decimals: int) -> str:
    text = f"{value:.{min(max(decimals, 0), 16)}f}"
    whole = text.split(".", maxsplit=1)[0]
    if len(whole) > width:
        return "*" * width
    return text[:width].rstrip(".").rjust(width)


@builtin("TRANSLATE", 3)
def translate(compiler: Expressions, arguments: list[Value]) -> Value:
    """Replaces characters one by one."""
    values = [compiler.as_text(a) for a in arguments]
    texts = ", ".join(v.sql for v in values)
    return Value(f"t_translate({texts})", variable_text(values[0].type, values[0].type.length))


@sqlite_function("t_translate", 3)
def _translate(text: str, old: str, new: str) -> str:
    if len(old) != len(new):
        raise messages.error(9828)
    return text.translate(str.maketrans(old, new))


@builtin("HASHBYTES", 2)
def hashbytes(compiler: Expressions, arguments: list[Value]) -> Value:
    """A digest of text or binary."""
    algorithm, value = compiler.as_text(arguments[0]), arguments[1]
    national = not value.type.is_character or is_national(value.type)
    page = 0 if national else page_of(value.type.collation).number
    return Value(f"t_hashbytes({algorithm.sql}, {value.sql}, {page})", varbinary(8000))


_DIGESTS = {"MD5": "md5", "SHA": "sha1", "SHA1": "sha1", "SHA2_256": "sha256", "SHA2_512": "sha512"}


@sqlite_function("t_hashbytes", 3)
def _hashbytes(algorithm: str, value: str | bytes, page: int) -> bytes | None:
    name = _DIGESTS.get(algorithm.upper())
    if name is None:
        return None
    if isinstance(value, bytes):
        data = value
    else:
        data = code_page(page).encode(value) if page else encode_units(value)
    return hashlib.new(name, data, usedforsecurity=False).digest()


def _refused(name: str) -> None:
    """Registers a function whose algorithm is SQL Server's own."""

    @builtin(name, 0, 255)
    def build(_: Expressions, __: list[Value]) -> Value:
        raise not_supported(f"{name}()")


for _name in ("CHECKSUM", "BINARY_CHECKSUM"):
    _refused(_name)
