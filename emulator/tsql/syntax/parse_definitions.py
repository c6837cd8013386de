"""Grammar of CREATE."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from emulator.errors import not_supported
from emulator.tsql.certain import known
from emulator.tsql.syntax.definition_statements import (
    CreateDatabase,
    CreateIndex,
    CreateSchema,
    CreateSynonym,
    CreateTable,
)
from emulator.tsql.syntax.nodes import Name
from emulator.tsql.syntax.parse_partitions import PartitionParser
from emulator.tsql.syntax.parse_text import TextParser
from emulator.tsql.syntax.statements import ColumnDefinition, ConstraintDefinition, Statement
from emulator.tsql.syntax.tokens import Kind, Token
from emulator.tsql.syntax.type_statements import CreateType

MODULES: Final = ("PROCEDURE", "PROC", "VIEW", "FUNCTION", "TRIGGER")


class DefinitionParser(TextParser, PartitionParser):
    """Statements that define objects."""

    def module(self, start: Token, mode: str, kind: str) -> Statement:
        """A procedure, view, function or trigger; the control grammar provides it."""
        raise NotImplementedError

    def switch_trigger(self) -> Statement:
        """ENABLE and DISABLE TRIGGER; the module grammar provides it."""
        raise NotImplementedError

    def sequence(self, start: Token, *, alter: bool) -> Statement:
        """CREATE and ALTER SEQUENCE; the grammar of objects provides it."""
        raise NotImplementedError

    def create_statistics(self, line: int) -> Statement:
        """CREATE STATISTICS; the grammar of maintenance provides it."""
        raise NotImplementedError

    def create(self) -> Statement:
        """CREATE."""
        start = self.token
        self.expect("CREATE")
        if self.accept("OR", "ALTER"):
            return self.module(start, "CREATE OR ALTER", self._module_kind())
        if self.at_any(*MODULES):
            return self.module(start, "CREATE", self._module_kind())
        if self.accept("TABLE"):
            return self._create_table(start.line)
        if self.accept("DATABASE"):
            return self._create_database(start.line)
        if self.accept("SCHEMA"):
            return self._create_schema(start.line)
        if self.accept("PARTITION"):
            return self.create_partitioning(start.line)
        if self.at_any("USER", "ROLE", "LOGIN"):
            return self.create_principal(start.line)
        if self.at_any("UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX"):
            return self._create_index(start.line)
        if self.accept("SYNONYM"):
            name = self.dotted_name()
            self.expect("FOR")
            return CreateSynonym(name, self.dotted_name(), line=start.line)
        return self._create_other(start)

    def _create_other(self, start: Token) -> Statement:
        """CREATE of something that is not made of rows."""
        if self.accept("TYPE"):
            return self._create_type(start)
        if self.accept("SEQUENCE"):
            return self.sequence(start, alter=False)
        if self.accept("STATISTICS"):
            return self.create_statistics(start.line)
        if self.token.kind in {Kind.WORD, Kind.QUOTED}:
            raise not_supported(f"CREATE {self.token.text.upper()}")
        self.fail()

    def _create_type(self, start: Token) -> Statement:
        """CREATE TYPE name FROM type [NULL | NOT NULL], or AS TABLE (..)."""
        name = self.dotted_name()
        if self.accept("FROM"):
            sql_type = self.declared_type()
            nullable = not self.accept("NOT", "NULL")
            self.accept("NULL")
            return CreateType(name, sql_type, nullable, line=start.line)
        if self.accept("EXTERNAL"):
            raise not_supported("CLR types (CREATE TYPE ... EXTERNAL NAME)")
        self.expect("AS", "TABLE")
        columns, constraints, _ = self.table_elements(name)
        if self.at("WITH", "(", "MEMORY_OPTIMIZED"):
            raise not_supported("memory-optimised table types")
        text = self.expression_between(start)
        return CreateType(name, None, True, columns, constraints, text, line=start.line)

    def _module_kind(self) -> str:
        """PROCEDURE, VIEW, FUNCTION or TRIGGER."""
        kind = self.accept_any(*MODULES)
        if kind is None:
            self.fail()
        return "PROCEDURE" if kind == "PROC" else kind

    def _create_database(self, line: int) -> Statement:
        """CREATE DATABASE name [options]."""
        name = self.identifier()
        filegroups = self.database_files()
        collation = self.identifier() if self.accept("COLLATE") else ""
        if self.at("AS") or self.at("FOR"):
            raise not_supported("snapshots and attached files (CREATE DATABASE ... AS, FOR)")
        return CreateDatabase(name, collation, filegroups, line=line)

    def _create_schema(self, line: int) -> Statement:
        """CREATE SCHEMA [name] [AUTHORIZATION owner]."""
        owner = None
        if self.accept("AUTHORIZATION"):
            name = owner = self.identifier()
        else:
            name = self.identifier()
            if self.accept("AUTHORIZATION"):
                owner = self.identifier()
        return CreateSchema(name, owner, line=line)

    # Tables -------------------------------------------------------------------------------------

    def _create_table(self, line: int) -> Statement:
        """CREATE TABLE name ( .. )."""
        name = self.dotted_name()
        columns, constraints, indexes = self.table_elements(name)
        placement = self.storage_options()
        return CreateTable(name, columns, constraints, indexes, placement, line=line)

    def table_elements(
        self, name: Name
    ) -> tuple[
        tuple[ColumnDefinition, ...], tuple[ConstraintDefinition, ...], tuple[CreateIndex, ...]
    ]:
        """What stands in the parentheses of a table."""
        self.expect("(")
        columns: list[ColumnDefinition] = []
        constraints: list[ConstraintDefinition] = []
        indexes: list[CreateIndex] = []
        while not self.at(")"):
            if self.at_any("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"):
                constraints.append(self.table_constraint())
            elif self.accept("INDEX"):
                indexes.append(self._inline_index(name))
            elif self.at("PERIOD", "FOR"):
                raise not_supported("temporal tables (PERIOD FOR SYSTEM_TIME)")
            else:
                columns.append(self.column_definition())
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(columns), tuple(constraints), tuple(indexes)

    def _inline_index(self, table: Name) -> CreateIndex:
        """``INDEX name [UNIQUE] [CLUSTERED] (columns)`` inside CREATE TABLE."""
        name = self.identifier()
        unique = self.accept("UNIQUE")
        clustered = self.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
        columns, descending = self._key_columns()
        included = self.name_list() if self.accept("INCLUDE") else ()
        where = self.condition() if self.accept("WHERE") else None
        return CreateIndex(name, table, columns, descending, unique, clustered, included, where)

    def column_definition(self) -> ColumnDefinition:
        """A column with its constraints."""
        name = self.identifier()
        if self.accept("AS"):
            return self._computed_column(name)
        definition = ColumnDefinition(name, self.declared_type())
        constraints: list[ConstraintDefinition] = []
        while True:
            constraint_name = self.identifier() if self.accept("CONSTRAINT") else None
            if self.accept("DEFAULT"):
                definition = replace(
                    definition,
                    default=self._expression_text(),
                    default_name=constraint_name,
                    with_values=self.accept("WITH", "VALUES"),
                )
            elif self.at_any("PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "FOREIGN"):
                constraints.append(self._constraint(constraint_name, (name,)))
            elif (changed := self._column_option(definition)) is not None:
                definition = changed
            else:
                return replace(definition, constraints=tuple(constraints))

    def _computed_column(self, name: str) -> ColumnDefinition:
        """``name AS expression [PERSISTED [NOT NULL]]``."""
        text = self._expression_text()
        persisted = self.accept("PERSISTED")
        nullable = False if self.accept("NOT", "NULL") else None
        constraints = []
        while self.at_any("PRIMARY", "UNIQUE", "CONSTRAINT"):
            constraint_name = self.identifier() if self.accept("CONSTRAINT") else None
            constraints.append(self._constraint(constraint_name, (name,)))
        return ColumnDefinition(
            name,
            None,
            nullable=nullable,
            computed=text,
            persisted=persisted,
            constraints=tuple(constraints),
        )

    def _column_option(self, definition: ColumnDefinition) -> ColumnDefinition | None:
        """NULL, NOT NULL, IDENTITY, COLLATE and options without effect; None at anything else."""
        if self.accept("NOT", "NULL"):
            return replace(definition, nullable=False)
        if self.accept("NULL"):
            return replace(definition, nullable=True)
        if self.accept("IDENTITY"):
            seed = increment = 1
            if self.accept("("):
                seed = self.integer()
                self.expect(",")
                increment = self.integer()
                self.expect(")")
            return replace(definition, identity=(seed, increment))
        if self.accept("COLLATE"):
            collation = self.identifier()
            declared = known(definition.type, "type of a column with COLLATE")
            return replace(definition, type=replace(declared, collation=collation))
        if self.accept("NOT", "FOR", "REPLICATION") or self.accept_any("ROWGUIDCOL", "SPARSE"):
            return definition
        if self.at("GENERATED") or self.at("MASKED") or self.at("ENCRYPTED"):
            raise not_supported(f"column option {self.token.text.upper()}")
        return None

    def _expression_text(self) -> str:
        """Source of a scalar expression."""
        start = self.token
        self.condition()
        return self.expression_between(start)

    def table_constraint(self) -> ConstraintDefinition:
        """A constraint that stands by itself."""
        name = self.identifier() if self.accept("CONSTRAINT") else None
        return self._constraint(name, ())

    def _constraint(self, name: str | None, columns: tuple[str, ...]) -> ConstraintDefinition:
        """A constraint after its name; ``columns`` are those of the column it belongs to."""
        if self.accept("PRIMARY", "KEY"):
            return self._key_constraint("PRIMARY KEY", name, columns)
        if self.accept("UNIQUE"):
            return self._key_constraint("UNIQUE", name, columns)
        if self.accept("CHECK"):
            self.accept("NOT", "FOR", "REPLICATION")
            start = self.token
            self.expect("(")
            self.condition()
            self.expect(")")
            text = self.expression_between(start)
            return ConstraintDefinition("CHECK", name, columns, expression=text)
        if self.accept("DEFAULT"):
            text = self._expression_text()
            self.expect("FOR")
            column = self.identifier()
            return ConstraintDefinition("DEFAULT", name, (column,), expression=text)
        if self.accept("FOREIGN", "KEY") and self.at("("):
            columns = self.name_list()
        return self._foreign_key(name, columns)

    def _key_constraint(
        self, kind: str, name: str | None, columns: tuple[str, ...]
    ) -> ConstraintDefinition:
        """PRIMARY KEY and UNIQUE."""
        word = self.accept_any("CLUSTERED", "NONCLUSTERED")
        clustered = None if word is None else word == "CLUSTERED"
        descending = (False,) * len(columns)
        if self.at("("):
            columns, descending = self._key_columns()
        placement = self.storage_options()
        return ConstraintDefinition(kind, name, columns, descending, clustered, placement=placement)

    def _key_columns(self) -> tuple[tuple[str, ...], tuple[bool, ...]]:
        """``(a, b DESC)``."""
        self.expect("(")
        columns, descending = [], []
        while True:
            columns.append(self.identifier())
            descending.append(self.accept_any("ASC", "DESC") == "DESC")
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(columns), tuple(descending)

    def _foreign_key(self, name: str | None, columns: tuple[str, ...]) -> ConstraintDefinition:
        """``REFERENCES table (columns) [ON DELETE ..] [ON UPDATE ..]``."""
        self.expect("REFERENCES")
        referenced = self.dotted_name()
        referenced_columns = self.name_list() if self.at("(") else ()
        actions = {"DELETE": "NO_ACTION", "UPDATE": "NO_ACTION"}
        while self.at("ON") and self.ahead().upper in actions:
            self.advance()
            event = self.advance().upper
            if self.accept("NO", "ACTION"):
                actions[event] = "NO_ACTION"
            elif self.accept("CASCADE"):
                actions[event] = "CASCADE"
            else:
                self.expect("SET")
                word = self.accept_any("NULL", "DEFAULT")
                if word is None:
                    self.fail()
                actions[event] = f"SET_{word}"
        self.accept("NOT", "FOR", "REPLICATION")
        return ConstraintDefinition(
            "FOREIGN KEY",
            name,
            columns,
            referenced=referenced,
            referenced_columns=referenced_columns,
            on_delete=actions["DELETE"],
            on_update=actions["UPDATE"],
        )

    def _create_index(self, line: int) -> Statement:
        """CREATE [UNIQUE] [CLUSTERED] INDEX name ON table (columns) [INCLUDE (..)]."""
        unique = self.accept("UNIQUE")
        clustered = self.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
        self.expect("INDEX")
        name = self.identifier()
        self.expect("ON")
        table = self.dotted_name()
        columns, descending = self._key_columns()
        included = self.name_list() if self.accept("INCLUDE") else ()
        where = self.condition() if self.accept("WHERE") else None
        placement = self.storage_options()
        return CreateIndex(
            name,
            table,
            columns,
            descending,
            unique,
            clustered,
            included,
            where,
            placement,
            line=line,
        )
