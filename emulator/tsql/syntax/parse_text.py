"""Grammar of READTEXT, WRITETEXT and UPDATETEXT.

https://learn.microsoft.com/sql/t-sql/queries/updatetext-transact-sql
"""

from __future__ import annotations

from typing import Final

from emulator.tsql.syntax.nodes import Expression
from emulator.tsql.syntax.parse_security import SecurityParser
from emulator.tsql.syntax.statements import Statement
from emulator.tsql.syntax.text_statements import PointedColumn, ReadText, UpdateText, WriteText
from emulator.tsql.syntax.tokens import Kind

_LITERALS: Final = {Kind.VARIABLE, Kind.STRING, Kind.NATIONAL, Kind.NUMBER, Kind.BINARY}


class TextParser(SecurityParser):
    """Statements that follow a text pointer."""

    def read_text(self) -> Statement:
        """``READTEXT table.column pointer offset size [HOLDLOCK]``."""
        line = self.advance().line
        place = self._pointed()
        offset, size = self._operand(), self._operand()
        return ReadText(place, offset, size, self.accept("HOLDLOCK"), line=line)

    def write_text(self) -> Statement:
        """``WRITETEXT [BULK] table.column pointer [WITH LOG] data``."""
        line = self.advance().line
        self.accept("BULK")
        place = self._pointed()
        self.accept("WITH", "LOG")
        return WriteText(place, self._operand(), line=line)

    def update_text(self) -> Statement:
        """``UPDATETEXT table.column pointer offset length [WITH LOG] [data | source pointer]``."""
        line = self.advance().line
        self.accept("BULK")
        place = self._pointed()
        offset, length = self._operand(), self._operand()
        self.accept("WITH", "LOG")
        if self.at_name() and self.ahead().text == ".":
            return UpdateText(place, offset, length, source=self._pointed(), line=line)
        return UpdateText(place, offset, length, self._data(), line=line)

    def _pointed(self) -> PointedColumn:
        name = self.dotted_name()
        if len(name) < 2:
            self.fail()
        return PointedColumn(name[:-1], name[-1], self._operand())

    def _data(self) -> Expression | None:
        """What stands before the statement's end."""
        token = self.token
        literal = token.kind in _LITERALS
        return self._operand() if literal or token.upper == "NULL" else None

    def _operand(self) -> Expression:
        """A constant or a variable."""
        return self._unary()
