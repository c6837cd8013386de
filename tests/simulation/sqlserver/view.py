"""What one login sees at one replica: its state, and what it may not ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.group import Group, Replica
from tests.simulation.sqlserver.rows import Column, Instance, Table
from tests.simulation.sqlserver.select import SqlError, Values


@dataclass(slots=True)
class Features:
    """What the version, the edition and the login's rights make of the statements.

    Attributes:
        has_log_stats: whether sys.dm_db_log_stats is there (SQL Server 2016 SP2; else error 208).
        has_time_zone: whether CURRENT_TIMEZONE_ID is (SQL Server 2022; else error 195).
        identity: ``visible``, ``hidden`` (no row without VIEW ANY DATABASE) or ``missing`` (208,
            Azure SQL Database).
        sees_state: VIEW DATABASE STATE (else error 300).
        sees_server_state: VIEW SERVER PERFORMANCE STATE, for the end and the use of the log (else
            error 300).
        sees_jobs: db_owner, for sys.sp_cdc_help_jobs (else error 22904).
        has_help_jobs: whether that procedure is there (else error 2812).
        allows_snapshot: ALLOW_SNAPSHOT_ISOLATION is on.
        missing: procedures that this edition does not have (error 2812).
        refused: tables that the login may not read, by object id of the source table.
        has_masks: SQL Server 2016: dynamic data masking and row-level security (else error 208).
        has_unmask: UNMASK on the database.
        filtered: source tables with a security policy that hides rows, by object id.
        is_owner: db_owner, for the procedures that change capture instances (else error 22904).
        published_up_to: gives the LSN up to which a database has nothing that is not published.
        moved_nothing: mark and low watermark of the last cleanup of an instance that moved nothing.
        kept_after: LSN after which the publisher may take nothing away; None without such a bound.
    """

    has_log_stats: bool = True
    has_time_zone: bool = True
    identity: str = "visible"
    sees_state: bool = True
    sees_jobs: bool = False
    allows_snapshot: bool = False
    missing: set[str] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    has_masks: bool = False
    has_unmask: bool = True
    filtered: set[int] = field(default_factory=set)
    is_owner: bool = True
    kept_after: Callable[[], bytes] | None = None
    sees_server_state: bool = True
    has_help_jobs: bool = True
    moved_nothing: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    published_up_to: Callable[[Group], bytes] = lambda _: b"\xff" * 10

    def check_has(self, text: str) -> None:
        """Raise error 2812 if a statement calls a procedure that this edition does not have."""
        for name in self.missing:
            if text.startswith(f"EXEC {name}"):
                raise SqlError(2812, f"Could not find stored procedure '{name}'.")


@dataclass(slots=True)
class View:
    """A replica through the eyes of a login."""

    group: Group
    replica: Replica
    features: Features

    @property
    def database(self) -> Database:
        """The state that readers see here."""
        return self.replica.database

    @property
    def is_primary(self) -> bool:
        """Whether it takes changes."""
        return self.group.server is self.replica

    def tables(self) -> list[Table]:
        """Tables that exist and may be seen."""
        return [table for table in self.database.tables.values() if not table.is_dropped]

    def instances(self) -> list[Instance]:
        """Capture instances, by change table's object id."""
        return sorted(self.database.instances.values(), key=lambda i: i.object_id)

    def instance_of_table(self, name: str) -> Instance:
        """The instance of a change table ``cdc.<name>_CT``.

        Raises:
            SqlError: 208 when it is gone, 229 when the login may not read it.
        """
        instance = self.database.instances.get(name.removeprefix("cdc.").removesuffix("_CT"))
        if instance is None:
            raise SqlError(208, f"Invalid object name '{name}'.")
        if instance.source in self.features.refused:
            raise SqlError(229, f"The SELECT permission was denied on the object '{name}'.")
        return instance

    def table_named(self, name: str) -> Table:
        """The source table ``dbo.<name>``.

        Raises:
            SqlError: as :meth:`instance_of_table`.
        """
        for table in self.tables():
            if f"dbo.{table.called}" == name:
                if table.object_id in self.features.refused:
                    raise SqlError(229, f"The SELECT permission was denied on '{name}'.")
                return table
        raise SqlError(208, f"Invalid object name '{name}'.")

    def masked(self, of: Table | Instance) -> list[Column]:
        """The columns of a table or a change table of which the login reads masks."""
        if self.features.has_unmask:
            return []
        return [column for column in of.columns if column.column_id in of.masked]

    def shown(self, of: Table | Instance) -> Callable[[Values], Values]:
        """What the login reads of a row; NULL stays NULL.

        Conditions and orders work on the values themselves.

        See: Dynamic data masking, Security note: Bypassing masking.
        """
        masks = {column.name: _mask(column) for column in self.masked(of)}

        def shown(row: Values) -> Values:
            known = {name: mask for name, mask in masks.items() if row.get(name) is not None}
            return {**row, **known}

        return shown if masks else _itself

    def visible_rows(self, table: Table) -> list[dict[str, Any]]:
        """The rows of a source table that security policies let the login see."""
        rows = source_rows(table)
        if table.object_id in self.features.filtered:
            return [row for row in rows if not is_hidden(row[""])]
        return rows

    def max_lsn(self) -> bytes | None:
        """sys.fn_cdc_get_max_lsn(): the newest entry of the mapping."""
        return self.database.mapping[-1].start_lsn if self.database.mapping else None

    def min_lsn(self, name: str) -> bytes:
        """sys.fn_cdc_get_min_lsn(): zero for an instance that is not there, or not to be read.

        https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-min-lsn-transact-sql
        """
        instance = self.database.instances.get(name)
        if instance is None or instance.start_lsn is None:
            return bytes(10)
        if instance.source in self.features.refused:
            return bytes(10)
        return instance.start_lsn


def _itself(row: Values) -> Values:
    return row


def _mask(column: Column) -> Any:
    """What default() shows of a value. See: Dynamic data masking, default."""
    return 0 if column.type in {"int", "bigint"} else "xxxx"


def change_table_rows(instance: Instance) -> list[dict[str, Any]]:
    """The rows of a change table by name."""
    found = []
    names = [column.name for column in instance.columns]
    for row in instance.rows:
        values = dict(zip(names, row.values, strict=True))
        values["__$start_lsn"] = row.start_lsn
        values["__$seqval"] = row.seqval
        values["__$operation"] = row.operation
        values["__$update_mask"] = row.mask
        if instance.has_command_id:
            values["__$command_id"] = row.command_id
        found.append(values)
    return found


def source_rows(table: Table) -> list[dict[str, Any]]:
    """The rows of a source table by name, and under "" the model's own name of the row."""
    return [
        {"": row_id, **{column.name: row.get(column.column_id) for column in table.columns}}
        for row_id, row in table.rows.items()
    ]


def is_hidden(row_id: int) -> bool:
    """Whether the security policy of a filtered table hides a row from the login."""
    return row_id % 2 == 0
