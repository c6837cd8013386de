"""Capture instances: what SQL Server captures of a table, and where."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column of a change table, as ``cdc.captured_columns`` and ``sys.columns`` describe it.

    Attributes:
        column_id: ``column_id`` of the source table; it survives renames.
        name: as the change table spells it.
        ordinal: 1-based place in the change table, which is its bit in the update mask.
        type: the type that the change table's values have now.
        nullable: whether the source column allows NULL; True when it was dropped.
        is_computed: whether its values are always NULL in the change table.
        in_source: whether the source table still has the column.
        collation: the column's collation where it is not the database's own, else None.
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
    """One row of ``cdc.change_tables`` with its columns.

    Attributes:
        name: ``capture_instance``; its change table is ``cdc.[<name>_CT]``.
        table: the source table, by the name under which it is published.
        low_watermark: lowest LSN that the change table holds; the cleanup job moves it. None until
            the capture process has recognised the instance.
        create_date: when it was made, in the server's local time.
        object_id: of the change table.
        source_object_id: of the source table.
        supports_net_changes: whether net changes can be asked for.
        ordered_by_command_id: whether ``__$command_id`` (added by cumulative updates to SQL Server
            2012 to 2016) is part of the order of the change table's rows, its clustered index.
            Where it is not, the command id of all rows is taken for 0.
        columns: captured columns by ordinal.
        key: names of the columns of the event key, in key order; empty for a keyless table.
        identity: names of the columns that tell its rows apart, in the order of their index: the
            primary key, else a unique index over non-null columns; empty where there is none.
            Whatever the event key is, a snapshot is cut into chunks by it.
        renamed_to: what the source table is called now, where it is published under the name that
            it had before.
        by_function: whether its changes are read through its query function, whose rows have no
            command id.
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
    renamed_to: TableName | None = None
    by_function: bool = False

    @property
    def source_table(self) -> TableName:
        """The source table, by the name that it has."""
        return self.renamed_to or self.table

    @property
    def key_columns(self) -> tuple[CapturedColumn, ...]:
        """The columns of the event key, in key order."""
        return self._named(self.key)

    @property
    def identity_columns(self) -> tuple[CapturedColumn, ...]:
        """The columns of the identity, in the order of their index."""
        return self._named(self.identity)

    def _named(self, names: tuple[str, ...]) -> tuple[CapturedColumn, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in names)
