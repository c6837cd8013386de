"""Statements about partitions and filegroups."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.nodes import Expression, Name
from tailrace_emulator.tsql.syntax.statements import Statement
from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True, eq=False)
class CreatePartitionFunction(Statement):
    """CREATE PARTITION FUNCTION name (type) AS RANGE LEFT|RIGHT FOR VALUES (..)."""

    name: str
    type: SqlType
    right: bool
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AlterPartitionFunction(Statement):
    """ALTER PARTITION FUNCTION name() SPLIT|MERGE RANGE (value)."""

    name: str
    split: bool
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class CreatePartitionScheme(Statement):
    """CREATE PARTITION SCHEME name AS PARTITION function [ALL] TO (filegroups)."""

    name: str
    function: str
    to_all: bool
    filegroups: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DropPartitioning(Statement):
    """DROP PARTITION FUNCTION|SCHEME name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class AlterSwitch(Statement):
    """ALTER TABLE source SWITCH [PARTITION n] TO target [PARTITION n]."""

    source: Name
    source_partition: Expression | None
    target: Name
    target_partition: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class AlterFiles(Statement):
    """ALTER DATABASE name ADD|REMOVE|MODIFY FILEGROUP|FILE ..

    ``action`` is add_filegroup, remove_filegroup, default_filegroup, add_file or ignored; ``files``
    are logical names.
    """

    database: str
    action: str
    filegroup: str = "PRIMARY"
    files: tuple[str, ...] = ()
