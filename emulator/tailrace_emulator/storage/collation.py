"""Collations: SQL Server's comparison of strings, as SQLite collating functions.

Every comparison ignores trailing spaces (SQL Server pads the shorter string). Symbols come before
digits and digits before letters. Letters are ordered by their base letter first, then by their
accents, then, where case counts, by case (the lower-case letter first). What the documents do not
give is inferred. Symbols of SQL collations are in the order of their codes, those of Windows
collations in Windows' order. There, hyphen and apostrophe count only between strings that are
otherwise equal. Letters are ordered alike in every language but for the two i of Turkish. A SQL
collation has an order of its own for non-Unicode text alone: nchar and nvarchar are in Windows'.

Which texts are equal is the same in both orders of a SQL collation.

A comparison is that of two keys: strings that are equal, and ordered, as the texts are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final

import apsw

from tailrace_emulator.values.collations import find_collation
from tailrace_emulator.values.types import OFFSET_KEY_LENGTH, UNICODE_TYPES, SqlType
from tailrace_emulator.values.variants import variant_key

ORDER_VERSION: Final = 3
"""To be raised when a key changes: indexes of older files are then built again."""

CASE_INSENSITIVE: Final = "MSSQL_CI"
NATIONAL: Final = "MSSQL_CI_W"
"""Of nvarchar and of varchar under the default collation, and under most."""
BINARY: Final = "MSSQL_BIN"
VARIANT: Final = "MSSQL_VARIANT"
OFFSET: Final = "MSSQL_OFFSET"

_TURKISH: Final = frozenset({0x41F, 0x42C})
_CONTROLS: Final = "".join(map(chr, range(32)))
_CODE_ORDER: Final = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\x7f"
_WINDOWS_ORDER: Final = "'- \x7f!\"#$%&()*,./:;?@[\\]^_`{|}~+<=>"
_DIGITS: Final = "0123456789"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_IGNORED_FIRST: Final = str.maketrans("", "", "'-")
_WORD_MARKS: Final = b"'-"
_HALF_WIDTH: Final = range(0xFF61, 0xFFA0)


def _weights(symbols: str) -> bytes:
    """The key of each ASCII character, upper case as lower."""
    order = _CONTROLS + symbols + _DIGITS + _LETTERS
    table = bytearray(128)
    for weight, character in enumerate(order, 1):
        table[ord(character)] = table[ord(character.upper())] = weight
    return bytes(table) + bytes(range(128, 256))


_CODE_WEIGHTS: Final = _weights(_CODE_ORDER)
_WINDOWS_WEIGHTS: Final = _weights(_WINDOWS_ORDER)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a collation compares; ``words`` is Windows' treatment of hyphen and apostrophe."""

    case: bool = False
    accents: bool = True
    kana: bool = False
    width: bool = False
    turkish: bool = False
    words: bool = False

    @property
    def name(self) -> str:
        """Its name in SQLite."""
        name = f"MSSQL_{'CS' if self.case else 'CI'}"
        marks = {"AI": not self.accents, "KS": self.kana, "WS": self.width, "TR": self.turkish,
                 "W": self.words}  # fmt: skip
        return "_".join([name, *(mark for mark, is_set in marks.items() if is_set)])


_RULES: Final = {
    rule.name: rule for rule in (_Rule(*flags) for flags in product((False, True), repeat=6))
}


@lru_cache(maxsize=1024)
def sqlite_collation(collation: str | None, *, national: bool) -> str:
    """The SQLite collation that stands for a SQL Server collation name (None: the default).

    Args:
        national: whether it is Unicode text.
    """
    found = find_collation(collation) if collation is not None else None
    if found is None:
        return NATIONAL if national else CASE_INSENSITIVE
    if found.binary:
        return BINARY
    return _Rule(
        case=not found.ignores_case,
        accents=not found.ignores_accents,
        kana=not found.ignores_kana,
        width=not found.ignores_width,
        turkish=found.lcid in _TURKISH,
        words=national or not found.sort_id,
    ).name


def ordering_of(sql_type: SqlType) -> str | None:
    """The SQLite collation of a type's values; None where SQLite's own order is right."""
    if sql_type.is_character:
        return sqlite_collation(sql_type.collation, national=sql_type.name in UNICODE_TYPES)
    if sql_type.name == "datetimeoffset":
        return OFFSET
    return VARIANT if sql_type.name == "sql_variant" else None


def value_key(value: str, ordering: str) -> Hashable:
    """Something that is equal for values that are equal under a collation of here."""
    if ordering == OFFSET:
        return value[:OFFSET_KEY_LENGTH]
    return _variant_key(value) if ordering == VARIANT else collation_key(value, ordering)


@lru_cache(maxsize=4096)
def _variant_key(value: str) -> tuple[Any, ...]:
    return variant_key(
        value, lambda text, name: collation_key(text, sqlite_collation(name, national=True))
    )


def _compare_offsets(left: str, right: str) -> int:
    """Values of datetimeoffset: the same moment is equal at whatever offset."""
    a, b = left[:OFFSET_KEY_LENGTH], right[:OFFSET_KEY_LENGTH]
    return (a > b) - (a < b)


def _compare_variants(left: str, right: str) -> int:
    if left == right:
        return 0
    a = _variant_key(left)
    b = _variant_key(right)
    return (a > b) - (a < b)


def collation_key(text: str, collation: str = CASE_INSENSITIVE) -> str:
    """A string that is equal, and ordered, exactly as ``text`` is under a collation of here."""
    text = text.rstrip(" ")
    if collation == CASE_INSENSITIVE and text.isascii():
        return text.encode().translate(_CODE_WEIGHTS).decode()
    if collation == NATIONAL and text.isascii() and "-" not in text and "'" not in text:
        return text.encode().translate(_WINDOWS_WEIGHTS).decode()
    if collation == BINARY:
        return text
    rule = _RULES[collation]
    weights = _WINDOWS_WEIGHTS if rule.words else _CODE_WEIGHTS
    if text.isascii() and not rule.turkish:
        key = text.encode().translate(weights).decode()
        plain = text
    else:
        key, plain = _wide_key(text, rule)
    if rule.words and ("-" in text or "'" in text):
        key = f"{_without_words(text, rule)}\x00{key}"
    # Case decides last: a lower-case letter sorts before its upper-case one.
    return f"{key}\x00{plain.swapcase()}" if rule.case else key


def _without_words(text: str, rule: _Rule) -> str:
    """The key of a text without what counts only between equal texts."""
    return _wide_key(text.translate(_IGNORED_FIRST), rule)[0]


@lru_cache(maxsize=4096)
def _wide_key(text: str, rule: _Rule) -> tuple[str, str]:
    """The key of any text without its case, and what its case is compared by."""
    if not rule.width:
        text = "".join(map(_narrow, text))
    if not rule.kana:
        text = "".join(map(_katakana, text))
    plain = unicodedata.normalize("NFD", text)
    if rule.turkish:
        text = text.replace("I", "\u0131").replace("\u0130", "i")
    decomposed = unicodedata.normalize("NFD", text.lower())
    base = "".join(c for c in decomposed if not unicodedata.combining(c))
    weights = _WINDOWS_WEIGHTS if rule.words else _CODE_WEIGHTS
    key = "".join(chr(weights[ord(c)]) if c < "\x80" else c for c in base)
    if not rule.accents:
        return key, "".join(c for c in plain if not unicodedata.combining(c))
    return (key if base == decomposed else f"{key}\x00{decomposed}"), plain


def _narrow(character: str) -> str:
    """Full-width Latin as ASCII, half-width katakana as full-width."""
    code = ord(character)
    if 0xFF01 <= code <= 0xFF5E:
        return chr(code - 0xFEE0)
    return unicodedata.normalize("NFKC", character) if code in _HALF_WIDTH else character


def _katakana(character: str) -> str:
    """Hiragana as katakana."""
    return chr(ord(character) + 0x60) if "\u3041" <= character <= "\u3096" else character


def _comparison(name: str) -> Callable[[str, str], int]:
    """What SQLite calls for a collation."""

    def compare(left: str, right: str) -> int:
        if left == right:
            return 0
        a = collation_key(left, name)
        b = collation_key(right, name)
        return (a > b) - (a < b)

    return compare


def _compare_ci(left: str, right: str) -> int:
    if left == right:
        return 0
    if left.isascii() and right.isascii():  # all but always: no key is made into a text again
        x = left.rstrip(" ").encode().translate(_CODE_WEIGHTS)
        y = right.rstrip(" ").encode().translate(_CODE_WEIGHTS)
        return (x > y) - (x < y)
    a = collation_key(left)
    b = collation_key(right)
    return (a > b) - (a < b)


def _compare_national(left: str, right: str) -> int:
    if left == right:
        return 0
    if left.isascii() and right.isascii():
        x = left.rstrip(" ").encode().translate(_WINDOWS_WEIGHTS, _WORD_MARKS)
        y = right.rstrip(" ").encode().translate(_WINDOWS_WEIGHTS, _WORD_MARKS)
        if x != y:
            return 1 if x > y else -1
    a = collation_key(left, NATIONAL)
    b = collation_key(right, NATIONAL)
    return (a > b) - (a < b)


_COMPARISONS: Final = {
    **{name: _comparison(name) for name in (*_RULES, BINARY)},
    CASE_INSENSITIVE: _compare_ci,
    NATIONAL: _compare_national,
    VARIANT: _compare_variants,
    OFFSET: _compare_offsets,
}


def register_collations(connection: apsw.Connection) -> None:
    """Make the collations known to a connection; tables cannot be read without them."""
    for name, compare in _COMPARISONS.items():
        connection.create_collation(name, compare)
