"""Which database this is, and whether its log continues what was published (ADR 0013)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final
from uuid import UUID

import structlog

from tailrace_publisher.errors import PermissionMissing, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.queries import INVALID_OBJECT, lsn_or_none
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_BLOCK: Final = 10**15
_SLOT: Final = 10**5


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """What a restore or a failover changes or leaves unchanged, stored with the checkpoint.

    A part that the login may not see is None.

    Attributes:
        database_guid: of this copy of the database. Each replica has its own.
        recovery_fork_guid: of the line of recovery.
        family_guid: shared by restored copies and replicas.
        fork_point: where the line of recovery started. None on the first one.
    """

    database_guid: str | None
    recovery_fork_guid: str | None
    family_guid: str | None = None
    fork_point: Lsn | None = None

    def or_as(self, known: DatabaseIdentity) -> DatabaseIdentity:
        """Return the identity, with parts known from before if they cannot be seen now."""
        return DatabaseIdentity(
            self.database_guid or known.database_guid,
            self.recovery_fork_guid or known.recovery_fork_guid,
            self.family_guid or known.family_guid,
            self.fork_point,
        )

    def is_same_copy(self, other: DatabaseIdentity) -> bool:
        """Whether both are of one copy on one line of recovery, by the parts that both have."""
        copies = (self.database_guid, other.database_guid)
        lines = (self.recovery_fork_guid, other.recovery_fork_guid)
        return all(None in pair or len(set(pair)) == 1 for pair in (copies, lines))


@dataclass(frozen=True, slots=True)
class Continuity:
    """What ``cdc.lsn_time_mapping`` holds of a published commit.

    Attributes:
        commit: its entry; None if there is none.
        kept_from: LSN below which cleanup may have removed entries. None if there are no entries.
    """

    commit: CommitTime | None
    kept_from: Lsn | None

    def may_lack(self, lsn: Lsn) -> bool:
        """Return whether cleanup may have removed the entry of an LSN."""
        return self.kept_from is None or lsn < self.kept_from

    def is_of(self, known: CommitTime) -> bool:
        """Return whether the entry is there, and is of a known commit."""
        return self.commit is not None and self.commit.is_same(known)


def visible_identity(connection: Connection, *, warns: bool = True) -> DatabaseIdentity:
    """Return the identity as far as the login may see it.

    Args:
        warns: whether to log what is missing.

    Raises:
        SourceError: the server did not answer.
    """
    # See: sys.database_recovery_status, permissions
    effect = "only missing commits reveal a database that was restored elsewhere"
    try:
        found = _database_identity(connection)
    except PermissionMissing as error:
        fix = "GRANT VIEW ANY DATABASE (error 300: VIEW SERVER STATE) to the login, in master"
        if warns:
            _log.warning("database_identity_not_visible", effect=effect, fix=fix, reason=str(error))
    except SourceError as error:
        if error.number != INVALID_OBJECT:
            raise
        # Azure SQL Database has no such view.
        if warns:
            _log.info("database_identity_not_visible", effect=effect, reason=str(error))
    else:
        if found is not None:
            return found
        if warns:
            _log.warning(
                "database_identity_not_visible",
                effect=effect,
                fix="GRANT VIEW ANY DATABASE to the login, in master: public has this permission,"
                " unless it was revoked or denied",
                reason="sys.database_recovery_status has no row of this database",
            )
    return DatabaseIdentity(None, None)


def _database_identity(connection: Connection) -> DatabaseIdentity | None:
    """Return None if the login may not see the row.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-recovery-status-transact-sql
    """
    # See: sys.database_recovery_status. Inferred: is fork_point_lsn, numeric(25,0), three parts of
    # 10, 10 and 5 digits?
    rows = connection.query(
        "SELECT database_guid, recovery_fork_guid, family_guid, fork_point_lsn"
        " FROM sys.database_recovery_status WHERE database_id = DB_ID()"
    )
    if not rows:
        return None
    database, fork, family, fork_point = rows[0]
    return DatabaseIdentity(
        _guid(database),
        _guid(fork),
        _guid(family),
        None if fork_point is None else lsn_of_number(fork_point),
    )


def _guid(value: UUID | str | None) -> str | None:
    return None if value is None else str(value).lower()


def lsn_of_number(number: Decimal | int) -> Lsn:
    """Convert an LSN in the form numeric(25, 0) of backups: parts of 10, 10 and 5 decimal digits.

    https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-log-architecture-and-management-guide
    """
    vlf, rest = divmod(int(number), _BLOCK)
    return Lsn(vlf, *divmod(rest, _SLOT))


def continuity(connection: Connection, lsn: Lsn) -> Continuity:
    """Return the entry of a commit; needs no more permission than reading changes does.

    Cleanup raises the low watermarks before it removes entries below the lowest one.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
    """
    # See: cdc.lsn_time_mapping. Inferred: does cleanup raise the low watermarks before it removes
    # entries below them?
    entries, first, watermark = connection.query_sets(
        "SELECT tran_end_time, tran_id FROM cdc.lsn_time_mapping WHERE start_lsn = ?;"
        " SELECT MIN(start_lsn) FROM cdc.lsn_time_mapping;"
        " SELECT MIN(start_lsn) FROM cdc.change_tables",
        lsn.to_bytes(),
    )
    kept_from = lsn_or_none(first[0][0])
    lowest = lsn_or_none(watermark[0][0])
    if kept_from is not None and lowest is not None:
        kept_from = max(kept_from, lowest)
    commit = CommitTime(lsn, *entries[0]) if entries else None
    return Continuity(commit, kept_from)
