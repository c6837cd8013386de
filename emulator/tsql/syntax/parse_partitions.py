"""Grammar of partition functions and schemes, of SWITCH, and of filegroups."""

from __future__ import annotations

from emulator.errors import not_supported
from emulator.tsql.syntax.nodes import Expression, Name
from emulator.tsql.syntax.parse_data import DataParser
from emulator.tsql.syntax.partition_statements import (
    AlterFiles,
    AlterPartitionFunction,
    AlterSwitch,
    CreatePartitionFunction,
    CreatePartitionScheme,
    DropPartitioning,
)
from emulator.tsql.syntax.statements import Placement, Statement
from emulator.tsql.syntax.tokens import Kind


class PartitionParser(DataParser):
    """What has to do with where rows lie."""

    def placement(self) -> Placement | None:
        """``ON filegroup`` or ``ON scheme(column)``, if it comes next."""
        if not (self.at("ON") and self.ahead().kind in {Kind.WORD, Kind.QUOTED}):
            return None
        self.advance()
        name = self.advance().text
        column = None
        if self.accept("("):
            column = self.identifier()
            self.expect(")")
        return Placement(name, column)

    def storage_options(self) -> Placement | None:
        """``ON x``, ``TEXTIMAGE_ON x`` and ``WITH (..)``, in any order; returns the first."""
        placement: Placement | None = None
        while True:
            if self.at("WITH", "("):
                if any(
                    token.upper in {"SYSTEM_VERSIONING", "MEMORY_OPTIMIZED", "LEDGER"}
                    for token in self.tokens[self.position : self.position + 4]
                ):
                    raise not_supported(f"{self.ahead(2).text.upper()} tables")
                self.accept("WITH")
                self.skip_parenthesised()
            elif self.at("TEXTIMAGE_ON"):
                self.position += 2
            elif (found := self.placement()) is not None:
                placement = found
            else:
                return placement

    def create_partitioning(self, line: int) -> Statement:
        """CREATE PARTITION FUNCTION or SCHEME, after CREATE PARTITION."""
        if self.accept("FUNCTION"):
            return self._create_function(line)
        self.expect("SCHEME")
        name = self.identifier()
        self.expect("AS", "PARTITION")
        function = self.identifier()
        to_all = self.accept("ALL")
        self.expect("TO", "(")
        groups = [self.advance().text]
        while self.accept(","):
            groups.append(self.advance().text)
        self.expect(")")
        return CreatePartitionScheme(name, function, to_all, tuple(groups), line=line)

    def _create_function(self, line: int) -> Statement:
        name = self.identifier()
        self.expect("(")
        sql_type = self.data_type()
        self.expect(")")
        self.expect("AS", "RANGE")
        right = self.accept_any("LEFT", "RIGHT") == "RIGHT"
        self.expect("FOR", "VALUES", "(")
        values: list[Expression] = []
        while not self.at(")"):
            values.append(self.scalar())
            if not self.accept(","):
                break
        self.expect(")")
        return CreatePartitionFunction(name, sql_type, right, tuple(values), line=line)

    def alter_partitioning(self, line: int) -> Statement:
        """ALTER PARTITION FUNCTION or SCHEME, after ALTER PARTITION."""
        if self.accept("SCHEME"):
            name = self.identifier()
            self.expect("NEXT", "USED")
            if self.at_name() or self.at("PRIMARY"):
                self.advance()
            return AlterFiles(name, "ignored", line=line)
        self.expect("FUNCTION")
        name = self.identifier()
        self.expect("(", ")")
        word = self.accept_any("SPLIT", "MERGE")
        if word is None:
            self.fail()
        self.expect("RANGE", "(")
        value = self.scalar()
        self.expect(")")
        return AlterPartitionFunction(name, word == "SPLIT", value, line=line)

    def drop_partitioning(self, line: int) -> Statement:
        """DROP PARTITION FUNCTION or SCHEME, after DROP PARTITION."""
        kind = self.accept_any("FUNCTION", "SCHEME")
        if kind is None:
            self.fail()
        return DropPartitioning(kind, self.identifier(), line=line)

    def alter_switch(self, table: Name, line: int) -> Statement:
        """``[PARTITION n] TO target [PARTITION n]``, after ALTER TABLE .. SWITCH."""
        source = self.scalar() if self.accept("PARTITION") else None
        self.expect("TO")
        target = self.dotted_name()
        destination = self.scalar() if self.accept("PARTITION") else None
        if self.accept("WITH"):
            if any(t.upper == "TRUNCATE_TARGET" for t in self.tokens[self.position :]):
                raise not_supported("ALTER TABLE ... SWITCH WITH (TRUNCATE_TARGET = ON)")
            self.skip_parenthesised()
        return AlterSwitch(table, source, target, destination, line=line)

    def alter_files(self, database: str, line: int) -> Statement | None:
        """ADD, REMOVE and MODIFY of files and filegroups, after ALTER DATABASE name."""
        if self.accept("ADD", "FILEGROUP"):
            group = self.identifier()
            if self.accept("CONTAINS"):
                raise not_supported(f"filegroups that contain {self.token.text.upper()}")
            return AlterFiles(database, "add_filegroup", group, line=line)
        if self.accept("REMOVE", "FILEGROUP"):
            return AlterFiles(database, "remove_filegroup", self.identifier(), line=line)
        if self.accept("MODIFY", "FILEGROUP"):
            group = self.advance().text
            if not self.accept("DEFAULT"):
                raise not_supported(f"ALTER DATABASE ... MODIFY FILEGROUP {self.token.text}")
            return AlterFiles(database, "default_filegroup", group, line=line)
        if self.accept("ADD", "FILE"):
            files = [self._file()]
            while self.accept(","):
                files.append(self._file())
            group = "PRIMARY"
            if self.accept("TO", "FILEGROUP"):
                group = self.advance().text
            return AlterFiles(database, "add_file", group, tuple(files), line=line)
        if self.accept("ADD", "LOG", "FILE") or self.accept("MODIFY", "FILE"):
            self._file()
            while self.accept(","):
                self._file()
            return AlterFiles(database, "ignored", line=line)
        return None

    def database_files(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """``CONTAINMENT = NONE ON PRIMARY (..), FILEGROUP x (..) LOG ON (..)``: the filegroups."""
        if self.accept("CONTAINMENT", "=") and not self.accept("NONE"):
            raise not_supported("contained databases")
        groups: dict[str, tuple[str, ...]] = {}
        if self.accept("ON"):
            group = "PRIMARY"
            self.accept("PRIMARY")
            while True:
                if self.accept("FILEGROUP"):
                    group = self.identifier()
                    self.accept("DEFAULT")
                groups[group] = (*groups.get(group, ()), self._file())
                if not self.accept(","):
                    break
        if self.accept("LOG", "ON"):
            self._file()
            while self.accept(","):
                self._file()
        return tuple((name, files) for name, files in groups.items() if name != "PRIMARY")

    def _file(self) -> str:
        """``( NAME = x, FILENAME = 'y', .. )``: its logical name."""
        self.expect("(", "NAME", "=")
        name = self.advance().text
        depth = 1
        while depth:
            token = self.advance()
            if token.kind is Kind.END:
                self.fail()
            depth += (token.upper == "(") - (token.upper == ")")
        return name
