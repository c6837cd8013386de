"""Capture instances: what SQL Server captures of a table, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_NARROW: Final = frozenset({"char", "varchar", "text"})


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column of a change table, as ``cdc.captured_columns`` and ``sys.columns`` describe it.

    Attributes:
        column_id: of the source table; it survives renames.
        ordinal: 1-based place in the change table, which is its bit in the update mask.
        type: the present type of the change table's values.
        nullable: whether the source column allows NULL; True if it was dropped.
        is_computed: whether the change table always has NULL.
        in_source: whether the source table still has the column.
        collation: None if it is the database's own.
    """

    column_id: int
    name: str
    ordinal: int
    type: ColumnType
    nullable: bool
    is_computed: bool
    in_source: bool
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """One row of ``cdc.change_tables`` with its columns; its change table is ``cdc.[<name>_CT]``.

    Attributes:
        table: the source table, by its published name.
        low_watermark: lowest LSN of the change table; the cleanup job moves it. None until the
            capture process has recognised the instance.
        create_date: creation time, in the server's local time.
        ordered_by_command_id: whether ``__$command_id`` is part of the change table's clustered
            index. Cumulative updates to SQL Server 2012 to 2016 added the column. If it is not, the
            command id of all rows counts as 0.
        key: columns of the event key, in order.
        identity: columns that distinguish rows, in order. It is the primary key, else a unique
            index over non-null columns, else empty. A snapshot is divided into chunks by it,
            whatever the event key is.
        key_problem: why the event key that the options name cannot be it; None if it can.
        renamed_to: the source table's present name. None if it is the published one.
        by_function: whether changes are read through the query function. Its rows have no command
            id.
        may_be_masked: whether the server can mask columns of its change table (SQL Server 2016).
        not_captured: names of the source table's columns that the instance does not capture, by
            column id.
    """

    name: str
    table: TableName
    low_watermark: Lsn | None
    create_date: datetime
    object_id: int
    source_object_id: int
    supports_net_changes: bool
    ordered_by_command_id: bool
    columns: tuple[CapturedColumn, ...]
    key: tuple[str, ...]
    identity: tuple[str, ...]
    key_problem: str | None = None
    renamed_to: TableName | None = None
    by_function: bool = False
    may_be_masked: bool = False
    not_captured: Mapping[int, str] = field(default_factory=dict)

    @property
    def source_table(self) -> TableName:
        """The source table, by its present name."""
        return self.renamed_to or self.table

    @property
    def key_columns(self) -> tuple[CapturedColumn, ...]:
        """The columns of the event key, in key order."""
        return self._named(self.key)

    @property
    def identity_columns(self) -> tuple[CapturedColumn, ...]:
        """The columns of the identity, in the order of their index."""
        return self._named(self.identity)

    @property
    def in_other_collations(self) -> dict[str, str]:
        """Names and collations of the char, varchar and text columns not in the database's own.

        The capture process may store other characters of them than the table has.

        See: Known limitations, issues, and errors with CDC, collation differences
        """
        return {
            column.name: column.collation
            for column in self.columns
            if column.collation is not None and column.type.name in _NARROW
        }

    def _named(self, names: tuple[str, ...]) -> tuple[CapturedColumn, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in names)
