"""How far the log of a database was captured, and which instances await recognition.

Stored in two tables of the engine's own (not visible to T-SQL). They are written in the same
transaction as the change rows, so a kill -9 never separates them.

``enabled_lsn`` of an instance is where its validity begins: the capture process takes only
transactions that committed after it. The instance gets its start_lsn when the scan gets there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator.log.transaction_log import without_changes

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.log.records import LogTransaction
    from tailrace_emulator.storage.engine import Database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cdc_scan_position (
    database_id INTEGER PRIMARY KEY, captured_lsn BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS cdc_awaiting_instance (
    database_id INTEGER NOT NULL, object_id INTEGER NOT NULL,
    enabled_lsn BLOB NOT NULL, enabled_ticks INTEGER NOT NULL,
    PRIMARY KEY (database_id, object_id)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class AwaitingInstance:
    """An enabled instance (by its change table's id) that no scan has recognised yet."""

    object_id: int
    enabled_lsn: bytes
    enabled_ticks: int

    @property
    def enabling(self) -> LogTransaction:
        """The transaction that enabled it, as in cdc.lsn_time_mapping."""
        return without_changes(self.enabled_lsn, self.enabled_ticks)

    @property
    def start_lsn(self) -> bytes:
        """Where its enabling began: below the enabling's own entry, above all that came before."""
        return self.enabling.begin_lsn


def begin(connection: apsw.Connection, database: Database, lsn: bytes) -> None:
    """The database was enabled at that LSN: nothing before it is captured."""
    connection.execute(_SCHEMA)
    forget(connection, database)
    save(connection, database, lsn)


def save(connection: apsw.Connection, database: Database, lsn: bytes) -> None:
    """Everything up to that LSN is captured."""
    connection.execute(
        "INSERT INTO cdc_scan_position VALUES (?, ?)"
        " ON CONFLICT (database_id) DO UPDATE SET captured_lsn = excluded.captured_lsn",
        (database.database_id, lsn),
    )


def load(connection: apsw.Connection, database: Database) -> bytes | None:
    """The LSN up to which the log was captured, or None where CDC was never enabled."""
    rows = connection.execute(
        "SELECT captured_lsn FROM cdc_scan_position WHERE database_id = ?", (database.database_id,)
    )
    return next((bytes(lsn) for (lsn,) in rows), None)


def forget(connection: apsw.Connection, database: Database) -> None:
    """The database is no longer enabled."""
    for table in ("cdc_scan_position", "cdc_awaiting_instance"):
        connection.execute(f"DELETE FROM {table} WHERE database_id = ?", (database.database_id,))


def await_instance(
    connection: apsw.Connection, database: Database, instance: AwaitingInstance
) -> None:
    """An instance was enabled."""
    connection.execute(
        "INSERT INTO cdc_awaiting_instance VALUES (?, ?, ?, ?)",
        (
            database.database_id,
            instance.object_id,
            instance.enabled_lsn,
            instance.enabled_ticks,
        ),
    )


def awaiting(connection: apsw.Connection, database: Database) -> list[AwaitingInstance]:
    """The instances not yet recognised, by LSN."""
    return [
        AwaitingInstance(*row)
        for row in connection.execute(
            "SELECT object_id, enabled_lsn, enabled_ticks FROM cdc_awaiting_instance"
            " WHERE database_id = ? ORDER BY enabled_lsn",
            (database.database_id,),
        )
    ]


def recognised(connection: apsw.Connection, database: Database, object_id: int) -> None:
    """A scan recognised the instance, or it was disabled."""
    connection.execute(
        "DELETE FROM cdc_awaiting_instance WHERE database_id = ? AND object_id = ?",
        (database.database_id, object_id),
    )
