"""The source's change tables, as the demo counts them and compares them with the topics.

tailrace publish drops the capture instance that flights begin with. So the demo reads it to its end
before the column is added, and nothing is replayed until its successor has started.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn, lsn_text

if TYPE_CHECKING:
    import pyodbc


@dataclass(frozen=True, slots=True)
class Captured:
    """How far the capture job is."""

    change_rows: dict[str, int]
    max_lsn: str
    max_commit_ms: int | None


class ChangeTables:
    """The change rows of some tables, also those of a capture instance that is dropped.

    Safe for use by several threads, each with a connection of its own.
    """

    def __init__(self, tables: Iterable[str]) -> None:
        self._instances = {table: f"dbo_{table}" for table in tables}
        self._kept: dict[str, list[ChangePosition]] = {}
        self._may_be_gone: set[str] = set()
        self._lock = threading.Lock()

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return list(self._instances)

    def captured(self, connection: pyodbc.Connection) -> Captured:
        """Query how far the capture job is: rows of each table, newest captured commit."""
        with self._lock:
            rows = self._count(connection)
        newest = connection.execute(
            "SELECT TOP (1) start_lsn, tran_end_time FROM cdc.lsn_time_mapping"
            " WHERE tran_id <> 0x00 ORDER BY start_lsn DESC"
        ).fetchone()
        if newest is None:
            return Captured(rows, "", None)
        commit_ms = round(newest.tran_end_time.replace(tzinfo=UTC).timestamp() * 1000)
        return Captured(rows, lsn_text(newest.start_lsn), commit_ms)

    def _count(self, connection: pyodbc.Connection) -> dict[str, int]:
        read = {t: name for t, name in self._instances.items() if t not in self._may_be_gone}
        counts = ", ".join(f"(SELECT COUNT(*) FROM cdc.[{name}_CT])" for name in read.values())
        found = dict(zip(read, connection.execute(f"SELECT {counts}").fetchone(), strict=True))
        return {t: len(self._kept.get(t, ())) + found.get(t, 0) for t in self._instances}

    def positions(self, connection: pyodbc.Connection, table: str) -> set[ChangePosition]:
        """Read the positions of all change rows of a table."""
        return {*self._kept.get(table, ()), *_positions(connection, self._instances[table])}

    def keep(self, connection: pyodbc.Connection, table: str) -> None:
        """Read a table's instance for the last time, so that it may be dropped.

        The table must not change until :meth:`follow_successor` returned True.
        """
        with self._lock:
            self._kept[table] = _positions(connection, self._instances[table])
            self._may_be_gone.add(table)

    def follow_successor(self, connection: pyodbc.Connection, table: str) -> bool:
        """Continue in the instance that succeeds the kept one; return whether it has started."""
        name = connection.execute(
            "SELECT capture_instance FROM cdc.change_tables"
            " WHERE source_object_id = OBJECT_ID(?) AND capture_instance <> ?"
            " AND start_lsn <= sys.fn_cdc_get_max_lsn()",
            (f"dbo.{table}", self._instances[table]),
        ).fetchval()
        if name is None:
            return False
        with self._lock:
            self._instances[table] = str(name)
            self._may_be_gone.discard(table)
        return True

    def instance_of(self, table: str) -> str:
        """Return the capture instance that has a table's next changes."""
        return self._instances[table]


def instances_of(connection: pyodbc.Connection, table: str) -> list[str]:
    """Read the names of a table's capture instances."""
    found = connection.execute(
        "SELECT capture_instance FROM cdc.change_tables WHERE source_object_id = OBJECT_ID(?)"
        " ORDER BY object_id",
        f"dbo.{table}",
    )
    return [str(name) for (name,) in found.fetchall()]


def _positions(connection: pyodbc.Connection, instance: str) -> list[ChangePosition]:
    rows = connection.execute(
        "SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
        f" FROM cdc.[{instance}_CT]"
    )
    return [
        ChangePosition(Lsn.from_bytes(start), command, Lsn.from_bytes(seqval), Operation(operation))
        for start, command, seqval, operation in rows.fetchall()
    ]
