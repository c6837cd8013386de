"""Grammar of statistics, ALTER INDEX, KILL, and of DBCC commands without an effect here."""

from __future__ import annotations

from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax.maintenance_statements import (
    AlterIndex,
    ConsoleCommand,
    CreateStatistics,
    DropStatistics,
    Kill,
    UpdateStatistics,
)
from emulator.tsql.syntax.parse_definitions import DefinitionParser
from emulator.tsql.syntax.statements import Statement
from emulator.tsql.syntax.tokens import Kind

_WITHOUT_EFFECT: Final = (
    "FREEPROCCACHE", "DROPCLEANBUFFERS", "FREESYSTEMCACHE", "FREESESSIONCACHE", "UPDATEUSAGE",
)  # fmt: skip
"""They throw caches away or correct counts, of which there are none."""


class MaintenanceParser(DefinitionParser):
    """Statements that maintenance scripts are made of."""

    def create_statistics(self, line: int) -> Statement:
        """CREATE STATISTICS name ON table (columns) [WHERE ..] [WITH ..]."""
        name = self.identifier()
        self.expect("ON")
        table = self.dotted_name()
        columns = self.name_list()
        where = ""
        if self.accept("WHERE"):
            start = self.token
            self.condition()
            where = self.text_between(start)
        options = self._statistics_options()
        return CreateStatistics(name, table, columns, where, "NORECOMPUTE" in options, line=line)

    def update_statement(self) -> Statement:
        """UPDATE, of rows or of statistics."""
        if not self.at("UPDATE", "STATISTICS"):
            return self.update()
        line = self.token.line
        self.expect("UPDATE", "STATISTICS")
        table = self.dotted_name()
        names: tuple[str, ...] = ()
        if self.at("("):
            names = self.name_list()
        elif self.at_name():
            names = (self.identifier(),)
        self._statistics_options()
        return UpdateStatistics(table, names, line=line)

    def _statistics_options(self) -> set[str]:
        """``WITH FULLSCAN, NORECOMPUTE, ...``: the words."""
        words: set[str] = set()
        if not self.accept("WITH"):
            return words
        while True:
            words.add(self.advance().upper)
            if words & {"SAMPLE"} and self.token.kind is Kind.NUMBER:
                self.advance()
                self.accept_any("PERCENT", "ROWS")
            if self.accept("ON"):
                self.expect("PARTITIONS")
                self.skip_parenthesised()
            if self.accept("="):
                self.advance()
            if not self.accept(","):
                return words

    def drop_statistics(self, line: int) -> Statement:
        """DROP STATISTICS table.name, ..."""
        names = [self.dotted_name()]
        while self.accept(","):
            names.append(self.dotted_name())
        if any(len(name) < 2 for name in names):
            self.fail()
        return DropStatistics(tuple(names), line=line)

    def alter_index(self, line: int) -> Statement:
        """ALTER INDEX name|ALL ON table REBUILD|REORGANIZE|SET .."""
        index = None if self.accept("ALL") else self.identifier()
        self.expect("ON")
        table = self.dotted_name()
        if self.accept("SET"):
            self.skip_parenthesised()
            return AlterIndex(index, table, line=line)
        if not self.accept_any("REBUILD", "REORGANIZE"):
            raise not_supported(f"ALTER INDEX ... {self.token.text.upper()}")
        if self.accept("PARTITION"):
            self.expect("=")
            self.advance()
        if self.accept("WITH"):
            self.skip_parenthesised()
        return AlterIndex(index, table, line=line)

    def console_command(self) -> Statement:
        """DBCC name [(arguments)] [WITH options]."""
        line = self.token.line
        self.expect("DBCC")
        name = self.accept_any(*_WITHOUT_EFFECT)
        if name is None:
            raise not_supported(f"DBCC {self.token.text.upper()}")
        if self.at("("):
            self.skip_parenthesised()
        silent = False
        if self.accept("WITH"):
            while True:
                silent = self.advance().upper == "NO_INFOMSGS" or silent
                if not self.accept(","):
                    break
        return ConsoleCommand(name, silent, line=line)

    def kill(self) -> Statement:
        """KILL session_id [WITH STATUSONLY]."""
        line = self.advance().line
        if self.token.kind is Kind.STRING or self.at_any("QUERY", "STATS"):
            raise not_supported("KILL of anything but a session")
        negative = self.accept("-")
        if self.token.kind is not Kind.NUMBER or not self.token.text.isdecimal():
            self.fail()
        number = int(self.advance().text)
        status_only = False
        if self.accept("WITH"):
            self.expect("STATUSONLY")
            status_only = True
        return Kill(-number if negative else number, status_only, line=line)
