"""Grammar of READTEXT, WRITETEXT and UPDATETEXT.

https://learn.microsoft.com/sql/t-sql/queries/updatetext-transact-sql
"""

from __future__ import annotations

from typing import Final

from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.nodes import Expression
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Statement
from tailrace_emulator.tsql.syntax.text_statements import (
    PointedColumn,
    ReadText,
    UpdateText,
    WriteText,
)
from tailrace_emulator.tsql.syntax.tokens import Kind

_LITERALS: Final = {Kind.VARIABLE, Kind.STRING, Kind.NATIONAL, Kind.NUMBER, Kind.BINARY}


@statement("READTEXT")
def read_text(cursor: TokenCursor) -> Statement:
    """``READTEXT table.column pointer offset size [HOLDLOCK]``."""
    line = cursor.advance().line
    place = _pointed(cursor)
    offset, size = _operand(cursor), _operand(cursor)
    return ReadText(place, offset, size, cursor.accept("HOLDLOCK"), line=line)


@statement("WRITETEXT")
def write_text(cursor: TokenCursor) -> Statement:
    """``WRITETEXT [BULK] table.column pointer [WITH LOG] data``."""
    line = cursor.advance().line
    cursor.accept("BULK")
    place = _pointed(cursor)
    cursor.accept("WITH", "LOG")
    return WriteText(place, _operand(cursor), line=line)


@statement("UPDATETEXT")
def update_text(cursor: TokenCursor) -> Statement:
    """``UPDATETEXT table.column pointer offset length [WITH LOG] [data | source pointer]``."""
    line = cursor.advance().line
    cursor.accept("BULK")
    place = _pointed(cursor)
    offset, length = _operand(cursor), _operand(cursor)
    cursor.accept("WITH", "LOG")
    if cursor.at_name() and cursor.ahead().text == ".":
        return UpdateText(place, offset, length, source=_pointed(cursor), line=line)
    return UpdateText(place, offset, length, _data(cursor), line=line)


def _pointed(cursor: TokenCursor) -> PointedColumn:
    name = cursor.dotted_name()
    if len(name) < 2:
        cursor.fail()
    return PointedColumn(name[:-1], name[-1], _operand(cursor))


def _data(cursor: TokenCursor) -> Expression | None:
    """What stands before the statement's end."""
    token = cursor.token
    literal = token.kind in _LITERALS
    return _operand(cursor) if literal or token.upper == "NULL" else None


def _operand(cursor: TokenCursor) -> Expression:
    """A constant or a variable."""
    return expressions.unary(cursor)
