"""Tables, change tables and the rows in them: plain values without behaviour of their own.

A row is a mapping of column id to value: names may be dropped and used again, ids are not
(sys.columns.column_id is not reused while the table lives; inferred).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Row = Mapping[int, Any]

DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source table, or of a change table."""

    column_id: int
    name: str
    type: str
    nullable: bool = True


@dataclass(slots=True)
class Table:
    """A source table in one partition; ``modify_date`` is moved by every ALTER TABLE.

    ``name`` is the one under which it is published first; ``called`` is its name at the server.
    ``masked`` are the column ids that have a mask.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-objects-transact-sql
    """

    object_id: int
    name: str
    columns: list[Column]
    key: tuple[int, ...]
    modify_date: datetime
    next_column_id: int = 0
    is_dropped: bool = False
    called: str = ""
    rows: dict[int, Row] = field(default_factory=dict)
    partition_id: int = 0
    masked: set[int] = field(default_factory=set)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """The primary key's values."""
        return tuple(row.get(column) for column in self.key)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a row in a transaction; a change of the key is a delete and an insert.

    Attributes:
        object_id: the table.
        row_id: the model's own name of the row, which survives changes of its key.
        command_id: number of the statement's step in its transaction.
        seqval: LSN of the change's log record.
        before: None for an insert.
        after: None for a delete.
        is_key_change: whether it is logged as a delete and an insert with one seqval.
        second_command_id: of the insert of a key change, which may be deferred behind others.
    """

    object_id: int
    row_id: int
    command_id: int
    seqval: bytes
    before: Row | None
    after: Row | None
    is_key_change: bool = False
    second_command_id: int = 0


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A row of a change table."""

    start_lsn: bytes
    command_id: int | None
    seqval: bytes
    operation: int
    mask: bytes
    values: tuple[Any, ...]


@dataclass(slots=True)
class Instance:
    """A capture instance and its change table.

    Attributes:
        name: ``capture_instance``.
        object_id: of the change table.
        source: object id of the source table.
        enabled_lsn: of the transaction that made it.
        start_lsn: None until the capture process has come to that transaction.
        create_date: server's local time.
        columns: captured columns, by ordinal, with the types that the change table has.
        key: column ids in ``cdc.index_columns``.
        has_command_id: whether the change table has the column.
        is_ordered_by_command_id: whether its clustered index does.
        modify_date: of the change table: any ALTER TABLE and any change of an index moves it.
        rows: the change rows.
        partition_switch: whether the source table's partitions may be switched.
        listed: names that an operator listed, here or for an instance before it; None without a
            list.
        masked: column ids whose columns of the change table have a mask.
    """

    name: str
    object_id: int
    source: int
    enabled_lsn: bytes
    create_date: datetime
    columns: list[Column]
    key: tuple[int, ...]
    has_command_id: bool
    is_ordered_by_command_id: bool
    modify_date: datetime
    start_lsn: bytes | None = None
    rows: list[ChangeRow] = field(default_factory=list)
    partition_switch: bool = True
    listed: frozenset[str] | None = None
    masked: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """A row of ``cdc.lsn_time_mapping``; tran_id of one zero byte marks a quiet time."""

    start_lsn: bytes
    tran_end_time: datetime
    tran_id: bytes


@dataclass(frozen=True, slots=True)
class DdlEntry:
    """A row of ``cdc.ddl_history``."""

    instance_object_id: int
    source_object_id: int
    required_column_update: bool
    command: str
    lsn: bytes
    time: datetime


def change_row_images(change: Change) -> list[tuple[int, int, Row]]:
    """(operation, command id, image) of the change rows that a change gives.

    An update of a key column is logged as delete and insert, with one ``__$seqval``; a statement
    that changes many keys is deferred: all deletes, then all inserts.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
    and KB 3030352 (``__$command_id``); see also docs/adr/0002.
    """
    if change.before is None:
        return [(INSERT, change.command_id, change.after or {})]
    if change.after is None:
        return [(DELETE, change.command_id, change.before)]
    if change.is_key_change:
        return [
            (DELETE, change.command_id, change.before),
            (INSERT, change.second_command_id, change.after),
        ]
    return [
        (UPDATE_BEFORE, change.command_id, change.before),
        (UPDATE_AFTER, change.command_id, change.after),
    ]
