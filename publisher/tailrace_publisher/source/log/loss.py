"""Noticing that changes were lost, or that the database is not the one it was."""

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

    Asked after the rows were read, it vouches for them: cleanup raises the low watermark before it
    deletes.

    Args:
        instance: the capture instance.
        needed: lowest LSN that rows are needed from.
        minimum: ``sys.fn_cdc_get_min_lsn``; None when there is no such instance.

    Raises:
        PositionExpired: rows may be gone.
        CaptureInstanceGone: the instance was disabled.
    """
    if minimum is None:
        raise CaptureInstanceGone(instance)
    if minimum > needed:
        raise PositionExpired(instance, needed, minimum)


def check_place_kept(
    out: Lsn, covers_from: Lsn, covers: Mapping[str, Lsn], gone: Sequence[str], *, may_begin: bool
) -> None:
    """Check that some instance of a published table holds the changes that come next.

    A newer instance holds its table's changes from its start on only. When the older one is
    disabled before its changes up to there were read, nothing holds them any more, and the newer
    one's own change table looks whole.

    Args:
        out: last LSN up to which all changes are published.
        covers_from: LSN from which on the table was covered: one that begins behind what is out is
            covered from there.
        covers: LSN from which on each instance holds the table's changes, of those that the table
            has now and the capture process has recognised.
        gone: names of instances that held them and are gone, oldest first.
        may_begin: whether none of its changes was published: nothing is needed from before the
            snapshot that is still to come.

    Raises:
        PositionExpired: nothing holds what comes next.
    """
    place = max(out, covers_from)
    if may_begin and place > out:
        return
    if not covers:
        if gone:
            raise PositionExpired(gone[-1], place.increment(), None, disabled=gone)
        return
    oldest = min(covers, key=lambda name: covers[name])
    if covers[oldest] > place:
        raise PositionExpired(oldest, place.increment(), covers[oldest], disabled=gone)


_WAYS_OUT: Final = (
    "Publish it under a new prefix, which takes a new snapshot. Or, when you know that nothing of"
    " what was published is missing in it, run tailrace accept-database"
)


def check_same_database(
    database: str,
    known: DatabaseIdentity,
    found: DatabaseIdentity,
    position: Lsn,
    *,
    has_commit: bool = False,
) -> None:
    """Check that the database is of the family whose changes were published, on the same line.

    A part that could not be seen, then or now, is not compared. The database's own GUID counts only
    for a checkpoint that does not have the family's: it is another one on each replica.

    Whether the record at a fork point is the last of the old line or the first of the new one is
    not documented, so a fork at the position itself is accepted where the commit there is the one
    that was published. Below the position nothing vouches: ids and times may come again.

    Args:
        database: its name.
        known: as it was published.
        found: as it is now.
        position: last LSN that was published.
        has_commit: whether the database's own book has the commit at the position, as published.

    Raises:
        DatabaseReplaced: names both identities.
    """
    if known.family_guid and found.family_guid:
        guids = ("family GUID", known.family_guid, found.family_guid)
    else:
        guids = ("database GUID", known.database_guid or "", found.database_guid or "")
    what, before, now = guids
    if before and now and before != now:
        raise DatabaseReplaced(
            f"database {database}: its {what} was {before} and is {now}: it was replaced, so its"
            f" LSNs do not continue those already published. {_WAYS_OUT}"
        )
    forked = known.recovery_fork_guid, found.recovery_fork_guid
    first_kept = position if has_commit else position.increment()
    if (
        all(forked)
        and forked[0] != forked[1]
        and (found.fork_point is None or found.fork_point < first_kept)
    ):
        raise DatabaseReplaced(
            f"database {database}: its recovery fork was {forked[0]} and is {forked[1]}, which"
            f" begins at {found.fork_point or 'its first LSN'}, not after {position}, up to which"
            f" changes were published: it was restored, or an availability group failed over with"
            f" loss of data. {_WAYS_OUT}"
        )


def check_continues(database: str, known: CommitTime, found: Continuity) -> None:
    """Check that the last commit that was published is in the database's own book of commits.

    A restored database has none at that LSN, or another one. Where cleanup may have taken the
    entry, the change tables have lost rows as well, which each of them tells (check_not_expired).

    Args:
        database: its name.
        known: the commit as it was published.
        found: what ``cdc.lsn_time_mapping`` has now.

    Raises:
        DatabaseReplaced: it is not there, or it is another one.
    """
    commit = found.commit
    if commit is None:
        if found.kept_from is None or known.commit_lsn < found.kept_from:
            return
        told = "is not in cdc.lsn_time_mapping"
    else:
        if commit.is_same(known):
            return
        told = (
            f"is another one in cdc.lsn_time_mapping: transaction {commit.tran_id_text}, ended at"
            f" {commit.end_time_text}"
        )
    raise DatabaseReplaced(
        f"database {database}: the commit at {known.commit_lsn}, up to which changes were published"
        f" (transaction {known.tran_id_text}, ended at {known.end_time_text}), {told}: the database"
        f" was restored or replaced. {_WAYS_OUT}"
    )


def check_not_backwards(
    database: str, position: Lsn, newest: Lsn | None, *, is_secondary: bool
) -> None:
    """Check that the database has not fallen behind what was published.

    Args:
        database: its name.
        position: last LSN that was published.
        newest: the database's newest LSN.
        is_secondary: whether this is a copy that only redoes what the primary did.

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
            f" {newest or 'none'}: it was restored, or CDC was disabled and enabled again. Publish"
            " it under a new prefix, which takes a new snapshot"
        )
