"""The DDL statements of captured tables, with their texts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tailrace_publisher.ports import Connection
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """A statement in ``cdc.ddl_history``.

    Attributes:
        source_object_id: of the table that it altered.
        local_time: when it ran, in the server's local time.
    """

    lsn: Lsn
    source_object_id: int
    text: str
    local_time: datetime


def ddl_after(connection: Connection, lsn: Lsn) -> list[DdlStatement]:
    """Read the statements after an LSN, oldest first; once each, for any number of instances.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql

    Raises:
        SourceError: the server did not answer.
    """
    rows = connection.query(
        "SELECT ddl_lsn, source_object_id, ddl_command, ddl_time FROM cdc.ddl_history"
        " WHERE ddl_lsn > ? ORDER BY ddl_lsn",
        lsn.to_bytes(),
    )
    found = {
        (row[0], row[1]): DdlStatement(Lsn.from_bytes(row[0]), int(row[1]), str(row[2]), row[3])
        for row in rows
    }
    return list(found.values())
