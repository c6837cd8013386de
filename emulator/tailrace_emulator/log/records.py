"""What the transaction log holds, as its reader gets it: in commit order.

An LSN is ten bytes, big-endian vlf (4), block (4), slot (2); bytes order is log order. Every record
has one. The LSN of a transaction is that of its commit record. LSN 0 does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tailrace_emulator.values.types import SqlType, StorageValue

RowImage = tuple[StorageValue, ...]
"""A row's values in the order of the table's columns at the time of the change."""


class RowAction(StrEnum):
    """What happened to a row."""

    INSERT = "insert"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row changed.

    ``column_ids`` names the columns of the images: an image keeps the shape that its table had at
    the time of the change. ``seqval`` is the LSN of this record. ``command_id`` counts the rows'
    order of operations within the transaction, from 1. ``deferred`` marks the delete and insert
    pair that an update of a unique key becomes: both have one seqval.
    """

    object_id: int
    seqval: bytes
    command_id: int
    action: RowAction
    column_ids: tuple[int, ...]
    before: RowImage | None
    after: RowImage | None


@dataclass(frozen=True, slots=True)
class DdlChange:
    """A DDL statement on a table.

    ``kind`` is one of add_column, drop_column, alter_column, rename_column, drop_table, other.
    ``old_type`` and ``new_type`` are given for alter_column.
    """

    object_id: int
    seqval: bytes
    kind: str
    command: str
    column_id: int | None = None
    old_type: SqlType | None = None
    new_type: SqlType | None = None


@dataclass(frozen=True, slots=True)
class LogTransaction:
    """A committed transaction. ``changes`` is lazy and may be walked once: a million rows fit."""

    commit_lsn: bytes
    begin_lsn: bytes
    tran_id: bytes
    begin_ticks: int
    commit_ticks: int
    change_count: int
    changes: Iterator[RowChange | DdlChange]


class LogReader(Protocol):
    """What the reader of a database's log needs of it."""

    def committed(self, after: bytes | None, limit: int) -> Iterator[LogTransaction]:
        """At most ``limit`` transactions with a commit LSN above ``after``, in commit order.

        Only transactions that changed a tracked table, or carry its DDL.
        """

    def last_commit(self) -> bytes | None:
        """The newest commit LSN in the log, or None."""

    def truncate(self, up_to: bytes) -> int:
        """Forget records up to and with that LSN; returns how many went."""
