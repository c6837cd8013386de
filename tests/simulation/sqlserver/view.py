"""What one login sees at one replica: its state, and what it may not ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.group import Group, Replica
from tests.simulation.sqlserver.rows import Instance, Table
from tests.simulation.sqlserver.select import SqlError


@dataclass(slots=True)
class LogSpace:
    """How full the log is.

    Attributes:
        used: bytes; None for what the model wrote.
        pages_max: to which its file can grow; -1: until the disk is full.
        waits_for: log_reuse_wait_desc.
    """

    used: int | None = None
    pages_max: int = -1
    waits_for: str = "REPLICATION"


def log_space(
    percent: float, waits_for: str = "REPLICATION", *, has_limit: bool = True
) -> LogSpace:
    """A log that is so full."""
    pages = 2048
    return LogSpace(round(percent / 100 * pages * 8192), pages if has_limit else -1, waits_for)


@dataclass(slots=True)
class Features:
    """What the version, the edition and the login's rights make of the statements.

    Attributes:
        has_log_stats: whether sys.dm_db_log_stats is there (SQL Server 2016 SP2; else error 208).
        has_time_zone: whether CURRENT_TIMEZONE_ID is (SQL Server 2022; else error 195).
        identity: ``visible``, ``hidden`` (no row without VIEW ANY DATABASE) or ``missing`` (208,
            Azure SQL Database).
        sees_state: VIEW DATABASE STATE (else error 300).
        sees_jobs: db_owner, for sys.sp_cdc_help_jobs (else error 22904).
        allows_snapshot: ALLOW_SNAPSHOT_ISOLATION is on.
        refused: tables that the login may not read, by object id of the source table.
        is_owner: db_owner, for the procedures that change capture instances (else error 22904).
        log: its use.
        kept_after: LSN after which the publisher may take nothing away; None without such a bound.
    """

    has_log_stats: bool = True
    has_time_zone: bool = True
    identity: str = "visible"
    sees_state: bool = True
    sees_jobs: bool = False
    allows_snapshot: bool = False
    refused: set[int] = field(default_factory=set)
    is_owner: bool = True
    log: LogSpace = field(default_factory=LogSpace)
    kept_after: Callable[[], bytes] | None = None


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
