"""Grammar of ALTER and DROP."""

from __future__ import annotations

from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax.definition_statements import (
    MODIFY_NAME,
    AlterAdd,
    AlterColumn,
    AlterDatabase,
    AlterDrop,
    DropObject,
)
from emulator.tsql.syntax.nodes import Name
from emulator.tsql.syntax.parse_definitions import MODULES
from emulator.tsql.syntax.parse_maintenance import MaintenanceParser
from emulator.tsql.syntax.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    Ignored,
    Statement,
)
from emulator.tsql.syntax.switches import SwitchConstraints, SwitchTrigger
from emulator.tsql.syntax.tokens import Kind, Token

_DROPPABLE: Final = (
    "TABLE", "DATABASE", "SCHEMA", "PROCEDURE", "PROC", "VIEW", "FUNCTION", "TRIGGER",
    "SYNONYM", "SEQUENCE", "TYPE",
)  # fmt: skip


class AlterParser(MaintenanceParser):
    """Statements that change and remove what was defined."""

    # ALTER and DROP -----------------------------------------------------------------------------

    def alter(self) -> Statement:
        """ALTER."""
        start = self.token
        self.expect("ALTER")
        if self.at_any(*MODULES):
            return self.module(start, "ALTER", self._module_kind())
        if self.accept("TABLE"):
            return self._alter_table(start)
        if self.accept("DATABASE"):
            return self._alter_database(start.line)
        if self.accept("PARTITION"):
            return self.alter_partitioning(start.line)
        if self.at_any("ROLE", "SERVER", "USER", "LOGIN", "AUTHORIZATION"):
            return self.alter_principal(start.line)
        if self.accept("SEQUENCE"):
            return self.sequence(start, alter=True)
        if self.accept("INDEX"):
            return self.alter_index(start.line)
        raise not_supported(f"ALTER {self.token.text.upper()}")

    def _alter_table(self, start: Token) -> Statement:
        """ALTER TABLE name action."""
        table = self.dotted_name()
        said = None
        if self.at("WITH") and self.ahead().upper in {"CHECK", "NOCHECK"}:
            said = self.ahead().upper
            self.position += 2
        if self.accept("ADD"):
            return self._alter_add(start, table, validate=said != "NOCHECK")
        if self.at("CHECK", "CONSTRAINT") or self.at("NOCHECK", "CONSTRAINT"):
            return self._switch_constraints(start, table, validate=said == "CHECK")
        if self.accept("DROP"):
            return self._alter_drop(start, table)
        if self.accept("ALTER", "COLUMN"):
            name = self.identifier()
            if self.at_any("ADD", "DROP"):
                raise not_supported(f"ALTER COLUMN {self.token.upper}")
            definition = ColumnDefinition(name, self.declared_type())
            while (changed := self._column_option(definition)) is not None:
                definition = changed
            return AlterColumn(table, definition, self.text_between(start), line=start.line)
        if self.at("ENABLE", "TRIGGER") or self.at("DISABLE", "TRIGGER"):
            return self._alter_triggers(start, table)
        if self.accept("SWITCH"):
            return self.alter_switch(table, start.line)
        if self.accept("REBUILD") or self.at("SET", "("):
            if self.accept("SET"):
                self.skip_parenthesised()
            return Ignored("ALTER TABLE", line=start.line)
        raise not_supported(f"ALTER TABLE ... {self.token.text.upper()}")

    def _switch_constraints(self, start: Token, table: Name, *, validate: bool) -> Statement:
        """CHECK|NOCHECK CONSTRAINT names|ALL."""
        disable = self.advance().upper == "NOCHECK"
        self.expect("CONSTRAINT")
        names: list[str] = []
        if not self.accept("ALL"):
            names.append(self.identifier())
            while self.accept(","):
                names.append(self.identifier())
        text = self.text_between(start)
        return SwitchConstraints(table, tuple(names), disable, validate, text, line=start.line)

    def _alter_triggers(self, start: Token, table: Name) -> Statement:
        """ALTER TABLE t ENABLE|DISABLE TRIGGER names|ALL."""
        disable = self.advance().upper == "DISABLE"
        self.expect("TRIGGER")
        names: list[Name] = []
        if not self.accept("ALL"):
            names.append((self.identifier(),))
            while self.accept(","):
                names.append((self.identifier(),))
        return SwitchTrigger(table, tuple(names), disable, line=start.line)

    def _alter_add(self, start: Token, table: Name, *, validate: bool) -> Statement:
        """ADD columns and constraints."""
        columns: list[ColumnDefinition] = []
        constraints: list[ConstraintDefinition] = []
        while True:
            if self.at_any("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "DEFAULT"):
                constraints.append(self.table_constraint())
            else:
                columns.append(self.column_definition())
            if not self.accept(","):
                break
        return AlterAdd(
            table,
            tuple(columns),
            tuple(constraints),
            self.text_between(start),
            validate,
            line=start.line,
        )

    def _alter_drop(self, start: Token, table: Name) -> Statement:
        """DROP [CONSTRAINT] a, COLUMN b, c."""
        items: list[tuple[str, str]] = []
        kind, if_exists = "CONSTRAINT", False
        while True:
            word = self.accept_any("COLUMN", "CONSTRAINT")
            if word:
                kind = word
            if_exists = self.accept("IF", "EXISTS") or if_exists
            items.append((kind, self.identifier()))
            if not self.accept(","):
                break
        return AlterDrop(table, tuple(items), if_exists, self.text_between(start), line=start.line)

    def _alter_database(self, line: int) -> Statement:
        """ALTER DATABASE name SET option [value], ... [WITH ..], or MODIFY NAME = name."""
        name = "" if self.accept("CURRENT") else self.identifier()
        if self.accept("MODIFY", "NAME"):
            self.expect("=")
            return AlterDatabase(name, ((MODIFY_NAME, self.identifier()),), line=line)
        if not self.accept("SET"):
            files = self.alter_files(name, line)
            if files is not None:
                return files
            raise not_supported(f"ALTER DATABASE ... {self.token.text.upper()}")
        settings = []
        while True:
            option = self.advance().text.upper()
            self.accept("=")
            value = ""
            if self.at("("):
                self.skip_parenthesised()
            elif self.token.kind in {Kind.WORD, Kind.NUMBER} and not self.at("WITH"):
                value = self.advance().text.upper()
            settings.append((option, value))
            if not self.accept(","):
                break
        if self.accept("WITH"):
            self.accept("ROLLBACK")
            self.advance()
        return AlterDatabase(name, tuple(settings), line=line)

    def drop(self) -> Statement:
        """DROP kind [IF EXISTS] names."""
        line = self.token.line
        self.expect("DROP")
        if self.accept("INDEX"):
            return self._drop_index(line)
        if self.accept("PARTITION"):
            return self.drop_partitioning(line)
        if self.accept("STATISTICS"):
            return self.drop_statistics(line)
        principal = self.accept_any("USER", "ROLE", "LOGIN")
        if principal is not None:
            return self.drop_principal(principal, line)
        kind = self.accept_any(*_DROPPABLE)
        if kind is None:
            raise not_supported(f"DROP {self.token.text.upper()}")
        if_exists = self.accept("IF", "EXISTS")
        names = [self.dotted_name()]
        while self.accept(","):
            names.append(self.dotted_name())
        kind = "PROCEDURE" if kind == "PROC" else kind
        if kind == "TRIGGER" and self.accept("ON"):
            raise not_supported("DDL and logon triggers (DROP TRIGGER ... ON DATABASE)")
        return DropObject(kind, tuple(names), if_exists, line=line)

    def _drop_index(self, line: int) -> Statement:
        """DROP INDEX [IF EXISTS] name ON table, or table.name."""
        if_exists = self.accept("IF", "EXISTS")
        name = self.dotted_name()
        if self.accept("ON"):
            return DropObject("INDEX", (name,), if_exists, self.dotted_name(), line=line)
        return DropObject("INDEX", (name[-1:],), if_exists, name[:-1], line=line)
