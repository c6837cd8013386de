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
    """What a restore or a failover changes or keeps: stored with the checkpoint.

    Attributes:
        database_guid: of this copy of the database: each replica of an availability group has its
            own. None where it cannot be seen, as all of them.
        recovery_fork_guid: of the line of recovery it is on.
        family_guid: of the database and all restored copies of it, replicas too.
        fork_point: where the line of recovery began; None on the first one.
    """

    database_guid: str | None
    recovery_fork_guid: str | None
    family_guid: str | None = None
    fork_point: Lsn | None = None

    def or_as(self, known: DatabaseIdentity) -> DatabaseIdentity:
        """With what was known of it where it cannot be seen now."""
        return DatabaseIdentity(
            self.database_guid or known.database_guid,
            self.recovery_fork_guid or known.recovery_fork_guid,
            self.family_guid or known.family_guid,
            self.fork_point,
        )


@dataclass(frozen=True, slots=True)
class Continuity:
    """What ``cdc.lsn_time_mapping`` says of a commit that was published.

    Attributes:
        commit: its entry; None when there is none.
        kept_from: LSN below which cleanup may have removed entries; None when there are none.
    """

    commit: CommitTime | None
    kept_from: Lsn | None


def visible_identity(connection: Connection) -> DatabaseIdentity:
    """The identity as far as the server shows it; what it does not show is told.

    Raises:
        SourceError: the server did not answer.
    """
    effect = "a database restored elsewhere is only noticed by the commits that it lacks"
    try:
        found = _database_identity(connection)
    except PermissionMissing as error:
        fix = "GRANT VIEW ANY DATABASE (error 300: VIEW SERVER STATE) to the login, in master"
        _log.warning("database_identity_not_visible", effect=effect, fix=fix, reason=str(error))
    except SourceError as error:
        if error.number != INVALID_OBJECT:
            raise
        # Azure SQL Database has no such view.
        _log.info("database_identity_not_visible", effect=effect, reason=str(error))
    else:
        if found is not None:
            return found
        _log.warning(
            "database_identity_not_visible",
            effect=effect,
            fix="GRANT VIEW ANY DATABASE to the login, in master: everyone has it, unless it was"
            " revoked from public or denied",
            reason="sys.database_recovery_status has no row of this database",
        )
    return DatabaseIdentity(None, None)


def _database_identity(connection: Connection) -> DatabaseIdentity | None:
    """None where the login may not see the row.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-recovery-status-transact-sql
    """
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
    """An LSN in the form numeric(25, 0) of backups: the parts in decimal, of 10, 10 and 5 digits.

    https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-log-architecture-and-management-guide
    """
    vlf, rest = divmod(int(number), _BLOCK)
    return Lsn(vlf, *divmod(rest, _SLOT))


def continuity(connection: Connection, lsn: Lsn) -> Continuity:
    """What is known of a commit; needs no more permission than reading changes does.

    Cleanup raises the low watermarks before it removes entries below the lowest one.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
    """
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
