"""Detecting that changes were lost, or that the database was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tailrace_publisher.errors import (
    CaptureInstanceGone,
    DatabaseReplaced,
    LsnWentBackwards,
    PositionExpired,
    ReplicaBehind,
)
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import Continuity, DatabaseIdentity
from tailrace_schemas.position.lsn import Lsn


def check_not_expired(instance: str, needed: Lsn, minimum: Lsn | None) -> None:
    """Check that a change table still holds everything from an LSN on.

    A check after the rows were read proves that they are complete, because cleanup raises the low
    watermark before it deletes.

    Args:
        needed: lowest LSN from which rows are needed.
        minimum: ``sys.fn_cdc_get_min_lsn``. None if the instance does not exist.

    Raises:
        PositionExpired: rows may be deleted.
        CaptureInstanceGone: the instance was disabled.
    """
    if minimum is None:
        raise CaptureInstanceGone(instance)
    if minimum > needed:
        raise PositionExpired(instance, needed, minimum)


def check_position_held(
    out: Lsn, covers_from: Lsn, covers: Mapping[str, Lsn], gone: Sequence[str], *, may_start: bool
) -> None:
    """Check that an instance of a published table holds the changes that come next.

    A newer instance holds its table's changes only from its start on. If the older instance is
    disabled before its changes up to that start were read, nothing holds them any more. The newer
    instance's own change table still looks complete.

    Args:
        out: the LSN up to which all changes are published.
        covers_from: LSN from which the table was covered. It may be after ``out``, if coverage
            started later.
        covers: LSN from which each present instance holds the table's changes. Only instances that
            the capture process has recognised are included.
        gone: names of former instances, oldest first.
        may_start: whether none of its changes was published. Nothing is then needed from before its
            snapshot, which is still to come.

    Raises:
        PositionExpired: nothing holds what comes next.
    """
    place = max(out, covers_from)
    if may_start and place > out:
        return
    if not covers:
        if gone:
            raise PositionExpired(gone[-1], place.increment(), None, disabled=gone)
        return
    oldest = min(covers, key=lambda name: covers[name])
    if covers[oldest] > place:
        raise PositionExpired(oldest, place.increment(), covers[oldest], disabled=gone)


_WAYS_OUT: Final = (
    "Fix: run tailrace accept-database, which shows what is lost and can read the tables concerned"
    " again; or publish it under a new prefix, which takes a new snapshot"
)


def check_same_database(
    database: str,
    known: DatabaseIdentity,
    found: DatabaseIdentity,
    position: Lsn,
    *,
    has_commit: bool = False,
) -> None:
    """Check that the database is of the published family, on the same line of recovery.

    Raises:
        DatabaseReplaced: it is another database, or another line; see :func:`other_database`.
    """
    differs = other_database(known, found, position, has_commit=has_commit)
    if differs is not None:
        raise DatabaseReplaced(f"database {database}: {differs}. {_WAYS_OUT}")


def other_database(
    known: DatabaseIdentity, found: DatabaseIdentity, position: Lsn, *, has_commit: bool
) -> str | None:
    """Return what shows that a database is another one, or on another line; None if nothing does.

    A part that could not be seen, then or now, is not compared. The database's own GUID counts only
    for a checkpoint without the family GUID, because each replica has another one.

    Whether the record at a fork point is the last of the old line or the first of the new one is
    not documented. So a fork at the position itself is accepted if the commit there is the
    published one. Below the position nothing proves identity: ids and times may repeat.

    Args:
        known: the identity as it was published.
        position: last LSN that was published.
        has_commit: whether ``cdc.lsn_time_mapping`` has the published commit.
    """
    if known.family_guid and found.family_guid:
        guids = ("family GUID", known.family_guid, found.family_guid)
    else:
        guids = ("database GUID", known.database_guid or "", found.database_guid or "")
    what, before, now = guids
    if before and now and before != now:
        return (
            f"its {what} was {before} and is {now}: it was replaced, so its LSNs do not continue"
            " those already published"
        )
    forked = known.recovery_fork_guid, found.recovery_fork_guid
    first_kept = position if has_commit else position.increment()
    if (
        all(forked)
        and forked[0] != forked[1]
        and (found.fork_point is None or found.fork_point < first_kept)
    ):
        return (
            f"its recovery fork was {forked[0]} and is {forked[1]}, which begins at"
            f" {found.fork_point or 'its first LSN'}, not after {position}, up to which changes"
            " were published: it was restored, or an availability group failed over with loss of"
            " data"
        )
    return None


def check_continues(database: str, known: CommitTime, found: Continuity) -> None:
    """Check that ``cdc.lsn_time_mapping`` has the last published commit.

    Raises:
        DatabaseReplaced: the commit is not there, or another one is; see :func:`other_commit`.
    """
    differs = other_commit(known, found)
    if differs is not None:
        raise DatabaseReplaced(
            f"database {database}: {differs}: the database was restored or replaced. {_WAYS_OUT}"
        )


def other_commit(known: CommitTime, found: Continuity) -> str | None:
    """Return what shows that the last published commit is not there; None if nothing does.

    A restored database has none at that LSN, or another one. If cleanup may have removed the entry,
    the change tables have lost rows too, and ``check_not_expired`` reports each of them.

    Args:
        known: the commit as it was published.
        found: what ``cdc.lsn_time_mapping`` has now.
    """
    commit = found.commit
    if commit is None:
        if found.may_lack(known.commit_lsn):
            return None
        told = "is not in cdc.lsn_time_mapping"
    else:
        if found.is_of(known):
            return None
        told = (
            f"is another one in cdc.lsn_time_mapping: transaction {commit.tran_id_text}, ended at"
            f" {commit.end_time_text}"
        )
    return (
        f"the commit at {known.commit_lsn}, up to which changes were published (transaction"
        f" {known.tran_id_text}, ended at {known.end_time_text}), {told}"
    )


def check_not_backwards(
    database: str, position: Lsn, newest: Lsn | None, *, is_secondary: bool
) -> None:
    """Check that the database's newest LSN is not before what was published.

    Args:
        position: last LSN that was published.
        newest: the database's newest LSN.
        is_secondary: whether it is a copy that only redoes the primary's changes.

    Raises:
        ReplicaBehind: the newest LSN is older than the position, on a copy that may catch up.
        LsnWentBackwards: the newest LSN is older than the position.
    """
    if newest is None or newest < position:
        if is_secondary:
            raise ReplicaBehind(
                f"database {database}: changes up to {position} were published but the newest LSN"
                f" of this readable secondary is {newest or 'none'}: it has not redone them yet"
                " (redo_queue_size of sys.dm_hadr_database_replica_states), or the primary was"
                " restored"
            )
        raise LsnWentBackwards(
            f"database {database}: changes up to {position} were published but its newest LSN is"
            f" {newest or 'none'}: it was restored, or CDC was disabled and enabled again. Fix:"
            " publish it under a new prefix, which takes a new snapshot"
        )
