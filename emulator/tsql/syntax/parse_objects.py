"""Grammar of sequences and identity checks."""

from __future__ import annotations

from dataclasses import replace

from emulator.tsql.syntax.nodes import Expression, Literal
from emulator.tsql.syntax.parse_alter import AlterParser
from emulator.tsql.syntax.sequence_statements import CheckIdentity, DefineSequence
from emulator.tsql.syntax.statements import Statement
from emulator.tsql.syntax.switches import UserOptions
from emulator.tsql.syntax.tokens import Kind, Token
from emulator.types import nvarchar


class ObjectParser(AlterParser):
    """Statements about where numbers come from."""

    def sequence(self, start: Token, *, alter: bool) -> Statement:
        """``name [AS type] [START WITH n] [INCREMENT BY n] [MINVALUE n] ..``."""
        made = DefineSequence(self.dotted_name(), alter, line=start.line)
        if not alter and self.accept("AS"):
            made = replace(made, type=self.data_type())
        while (changed := self._sequence_option(made)) is not None:
            made = changed
        return made

    def console_command(self) -> Statement:
        """DBCC CHECKIDENT, USEROPTIONS, or a command without an effect."""
        if self.at("DBCC", "CHECKIDENT"):
            return self._check_identity()
        if self.at("DBCC", "USEROPTIONS"):
            return self._user_options()
        return super().console_command()

    def _check_identity(self) -> Statement:
        """``DBCC CHECKIDENT (table [, RESEED [, n] | NORESEED]) [WITH NO_INFOMSGS]``."""
        line = self.advance().line
        self.expect("CHECKIDENT", "(")
        table = self._table_text()
        reseed, value = True, None
        if self.accept(","):
            reseed = not self.accept("NORESEED")
            if reseed:
                self.expect("RESEED")
                value = self.scalar() if self.accept(",") else None
        self.expect(")")
        silent = self.accept("WITH", "NO_INFOMSGS")
        return CheckIdentity(table, reseed, value, silent, line=line)

    def _user_options(self) -> Statement:
        """``DBCC USEROPTIONS [WITH NO_INFOMSGS]``."""
        line = self.advance().line
        self.expect("USEROPTIONS")
        return UserOptions(self.accept("WITH", "NO_INFOMSGS"), line=line)

    def _table_text(self) -> Expression:
        """A table's name, as text or as it is."""
        if not self.at_name():
            return self.scalar()
        name = ".".join(f"[{part}]" for part in self.dotted_name())
        return Literal(nvarchar(len(name)), name)

    def _sequence_option(self, made: DefineSequence) -> DefineSequence | None:
        """One option; None at anything else."""
        if self.accept("START", "WITH"):
            return replace(made, start=self.integer())
        if self.accept("INCREMENT", "BY"):
            return replace(made, increment=self.integer())
        if made.alter and self.accept("RESTART"):
            start = self.integer() if self.accept("WITH") else made.start
            return replace(made, restart=True, start=start)
        if self.accept("MINVALUE"):
            return replace(made, minimum=self.integer())
        if self.accept("MAXVALUE"):
            return replace(made, maximum=self.integer())
        if self.accept("CYCLE"):
            return replace(made, cycle=True)
        if self.accept("CACHE"):
            return replace(made, cache=self.integer() if self.token.kind is Kind.NUMBER else "")
        if self.accept("NO", "MINVALUE"):
            return replace(made, minimum="")
        if self.accept("NO", "MAXVALUE"):
            return replace(made, maximum="")
        if self.accept("NO", "CYCLE"):
            return replace(made, cycle=False)
        if self.accept("NO", "CACHE"):
            return replace(made, cache=0)
        return None
