"""Collations: SQL Server's comparison of strings, as SQLite collating functions.

Every comparison ignores trailing spaces (SQL Server pads the shorter string). The default,
case-insensitive and accent-sensitive, orders letters by their base letter first, then by accents.
The order of punctuation among itself is Unicode's, not SQL Server's (inferred rules would be
wrong in other places).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

import apsw

CASE_INSENSITIVE: Final = "MSSQL_CI"
CASE_SENSITIVE: Final = "MSSQL_CS"
ACCENT_INSENSITIVE: Final = "MSSQL_CI_AI"
BINARY: Final = "MSSQL_BIN"


def sqlite_collation(collation: str | None) -> str:
    """The SQLite collation that stands for a SQL Server collation name (None: the default)."""
    if collation is None:
        return CASE_INSENSITIVE
    parts = collation.upper().split("_")
    if "BIN" in parts or "BIN2" in parts:
        return BINARY
    if "CS" in parts:
        return CASE_SENSITIVE
    if "AI" in parts:
        return ACCENT_INSENSITIVE
    return CASE_INSENSITIVE


def collation_key(text: str, collation: str = CASE_INSENSITIVE) -> str:
    """A string that is equal, and ordered, exactly as ``text`` is under a collation of here."""
    text = text.rstrip(" ")
    if collation == CASE_INSENSITIVE:
        return text.lower() if text.isascii() else _accented_key(text.lower())
    if collation == BINARY:
        return text
    if collation == ACCENT_INSENSITIVE:
        return _base_letters(text.lower())
    # Case decides last: a lower-case letter sorts before its upper-case one.
    folded = text.lower()
    return f"{folded if text.isascii() else _accented_key(folded)}\x00{text.swapcase()}"


@lru_cache(maxsize=4096)
def _accented_key(text: str) -> str:
    """Base letters first; the full decomposition decides between equal ones."""
    decomposed = unicodedata.normalize("NFD", text)
    base = "".join(c for c in decomposed if not unicodedata.combining(c))
    return f"{base}\x00{decomposed}" if base != decomposed else text


@lru_cache(maxsize=4096)
def _base_letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def _compare_ci(left: str, right: str) -> int:
    if left == right:
        return 0
    a = collation_key(left)
    b = collation_key(right)
    return (a > b) - (a < b)


def _compare_cs(left: str, right: str) -> int:
    a = collation_key(left, CASE_SENSITIVE)
    b = collation_key(right, CASE_SENSITIVE)
    return (a > b) - (a < b)


def _compare_ci_ai(left: str, right: str) -> int:
    a = collation_key(left, ACCENT_INSENSITIVE)
    b = collation_key(right, ACCENT_INSENSITIVE)
    return (a > b) - (a < b)


def _compare_bin(left: str, right: str) -> int:
    a = left.rstrip(" ")
    b = right.rstrip(" ")
    return (a > b) - (a < b)


def register_collations(connection: apsw.Connection) -> None:
    """Make the collations known to a connection; tables cannot be read without them."""
    connection.create_collation(CASE_INSENSITIVE, _compare_ci)
    connection.create_collation(CASE_SENSITIVE, _compare_cs)
    connection.create_collation(ACCENT_INSENSITIVE, _compare_ci_ai)
    connection.create_collation(BINARY, _compare_bin)
