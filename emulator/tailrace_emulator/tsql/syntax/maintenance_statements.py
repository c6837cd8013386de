"""Statements about statistics, indexes and sessions that exist, as parsed."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.statements import Statement


@dataclass(frozen=True, slots=True, eq=False)
class CreateStatistics(Statement):
    """CREATE STATISTICS name ON table (columns); ``filter`` is the text of its WHERE."""

    name: str
    table: Name
    columns: tuple[str, ...]
    filter: str = ""
    no_recompute: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class UpdateStatistics(Statement):
    """UPDATE STATISTICS table [names]; no names: all of them."""

    table: Name
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DropStatistics(Statement):
    """DROP STATISTICS table.name, ..."""

    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AlterIndex(Statement):
    """ALTER INDEX name|ALL ON table REBUILD, REORGANIZE or SET, or ALTER TABLE .. REBUILD.

    Attributes:
        index: None stands for ALL.
        ignore_dup_key: None where it stays as it is.
        of_table: whether it is ALTER TABLE, which concerns the clustered index.
    """

    index: str | None
    table: Name
    ignore_dup_key: bool | None = None
    of_table: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ConsoleCommand(Statement):
    """A DBCC command without an effect here."""

    name: str
    silent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Kill(Statement):
    """KILL session_id; ``status_only`` requests how far its rollback is."""

    session_id: int
    status_only: bool = False
