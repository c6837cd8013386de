"""What a subscription yields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


class Unavailable(Enum):
    """A large value that the change table does not hold: it is what it was, not NULL."""

    UNAVAILABLE = "unavailable"

    def __repr__(self) -> str:
        """UNAVAILABLE."""
        return self.name

    def __bool__(self) -> bool:
        """False: there is no value to use."""
        return False


UNAVAILABLE: Final = Unavailable.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row, or a row of a snapshot.

    Attributes:
        op: ``c``, ``u``, ``d``, or ``r`` for a row of a snapshot. A patch re-reads the values of
            new columns, and is a ``u``.
        key: the event key's columns; None for a table without a key.
        before: the row before the change, by column name or in the table's dataclass; None if
            there was none, or if the form of the events does not carry it.
        after: the row after it; None after a delete. A value may be :data:`UNAVAILABLE`.
        position: its place in the commit order of the whole database.
        commit_time: of the source transaction, UTC; of a snapshot row, when it was read.
        changed: names of the columns that an update set.
        topic: where it was read, with ``partition`` and ``offset``.
    """

    table: TableName
    op: str
    key: dict[str, Any] | None
    before: Any
    after: Any
    position: ChangePosition
    commit_time: datetime
    changed: frozenset[str]
    topic: str
    partition: int
    offset: int

    @property
    def commit_lsn(self) -> Lsn:
        """LSN of the source transaction's commit; of a snapshot row, of its fence."""
        return self.position.commit_lsn

    @property
    def is_read(self) -> bool:
        """Whether the row was read from the table, for a snapshot or a patch: no transaction's."""
        return self.position.operation is Operation.READ

    @property
    def row(self) -> Any:
        """The row after the change; of a delete, the row that was deleted."""
        return self.before if self.op == "d" else self.after

    @property
    def id(self) -> str:
        """A text that no other event under the prefix has, the same at each delivery."""
        if self.is_read:
            return f"{self.topic}/{self.partition}/{self.offset}"
        return f"{self.topic}/{self.position.to_bytes().hex()}"


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """The events of a table that follow have other columns, or the first ones come.

    Attributes:
        before: the columns so far; None before the first event of this subscription.
        lsn: of the DDL statement, or of the start of the capture instance.
    """

    table: TableName
    before: TableSchema | None
    after: TableSchema

    @property
    def lsn(self) -> Lsn:
        """LSN from which on the columns hold."""
        return self.after.schema_lsn


@dataclass(frozen=True, slots=True)
class SnapshotStarted:
    """A snapshot of a table begins: its rows, and the changes meanwhile, are the whole table."""

    table: TableName
    after_lsn: Lsn


@dataclass(frozen=True, slots=True)
class SnapshotFinished:
    """A table is whole at an LSN. What was not seen since its beginning does not exist."""

    table: TableName
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class PatchFinished:
    """Columns that a table got are whole from an LSN on, also of rows from before them."""

    table: TableName
    columns: tuple[str, ...]
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class Closed:
    """Every change of the database up to an LSN has been yielded.

    Attributes:
        commit_time: of that LSN, UTC; None if unknown.
    """

    lsn: Lsn
    commit_time: datetime | None


Marker = SchemaChanged | SnapshotStarted | SnapshotFinished | PatchFinished | Closed
Event = Change | Marker


@dataclass(frozen=True, slots=True)
class Transaction:
    """The changes of one source transaction, or some rows of snapshots.

    Attributes:
        changes: in commit order, of the subscribed tables.
        bookmark: where to continue after it.
    """

    commit_lsn: Lsn
    commit_time: datetime
    changes: tuple[Change, ...]
    bookmark: str

    @property
    def is_read(self) -> bool:
        """Whether it has rows that were read, and no transaction's changes."""
        return self.changes[0].is_read
