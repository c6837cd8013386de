"""Statements of features that the server does not have: refused by name.

Those that begin with CREATE, ALTER or DROP are refused where these are read. Words of full-text
search and of other data sources are refused where a syntax error would be raised (parse_base.py).
"""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Statement

_STATEMENTS: Final = (
    "ADD SIGNATURE", "ADD COUNTER", "ADD SENSITIVITY", "BEGIN CONVERSATION", "BEGIN DIALOG",
    "CLOSE ALL", "CLOSE MASTER", "CLOSE SYMMETRIC", "COPY INTO", "CREATE DATABASE AUDIT",
    "CREATE DATABASE ENCRYPTION", "CREATE DATABASE SCOPED", "CREATE CLUSTERED COLUMNSTORE",
    "CREATE NONCLUSTERED COLUMNSTORE", "CREATE COLUMNSTORE",
    "DUMP", "END CONVERSATION", "GET CONVERSATION", "LINENO", "LOAD", "MOVE CONVERSATION",
    "OPEN MASTER", "OPEN SYMMETRIC", "RECEIVE TOP", "RECEIVE *", "SEND ON", "SETUSER",
)  # fmt: skip


def _refuse(cursor: TokenCursor, words: str) -> Statement:
    del cursor
    raise not_supported(words)


for _words in _STATEMENTS:
    statement(*_words.split())(lambda cursor, words=_words: _refuse(cursor, words))
