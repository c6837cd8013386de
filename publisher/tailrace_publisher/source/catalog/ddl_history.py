"""What ``cdc.ddl_history`` holds: the DDL statements of captured tables.

The publisher notices DDL by four questions. None of their answers serves another one:

- ``InstancesMark`` (catalog_state): has anything changed since the catalog was read? It is one row
  for any number of tables, because every window with news queries it.
- The marks of ``KnownCatalog`` (instances): of which tables must columns and keys be read again?
  Changes of an index count as well, and have no entry here.
- The fingerprint of ``ResumedVersions``: are a table's events those of the checkpoint? Other
  options change them without DDL, and it is compared between processes.
- :func:`newest_loss_by_ddl`: may rows that were read before a fence lack values at its LSN? It is
  about the order in the log, not about a change since an earlier look.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import lsn_or_none
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

    Raises:
        SourceError: the server did not answer.
    """
    # See: cdc.ddl_history. Inferred: has a statement one entry for each instance, with the LSN of
    # its own commit?
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


def type_changes(connection: Connection) -> Mapping[int, Sequence[Lsn]]:
    """Read the LSNs of DDL that changed a captured column's type, by change table's object id.

    They are in order. Entries of dropped instances are left out, because they can outlive their
    instance. Other DDL and the statements' texts are left out too, because a nightly load may leave
    thousands.
    """
    # See: cdc.ddl_history, required_column_update. Inferred: do entries of an instance that was
    # dropped stay?
    rows = connection.query(
        "SELECT d.object_id, d.ddl_lsn FROM cdc.ddl_history d"
        " JOIN cdc.change_tables ct ON ct.object_id = d.object_id"
        " WHERE d.required_column_update = 1 ORDER BY d.ddl_lsn"
    )
    found: defaultdict[int, list[Lsn]] = defaultdict(list)
    for object_id, lsn in rows:
        found[object_id].append(Lsn.from_bytes(lsn))
    return found


def newest_loss_by_ddl(connection: Connection, up_to: Lsn) -> Lsn | None:
    """Return the newest DDL, up to an LSN, that removed values; None if there is none.

    It dropped a column, or changed a column's type (``required_column_update``).
    """
    # See: cdc.ddl_history, required_column_update and ddl_command
    rows = connection.query(
        "SELECT MAX(ddl_lsn) FROM cdc.ddl_history WHERE ddl_lsn <= ?"
        " AND (required_column_update = 1 OR UPPER(ddl_command) LIKE N'%DROP%')",
        up_to.to_bytes(),
    )
    return lsn_or_none(rows[0][0])
