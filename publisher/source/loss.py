"""Noticing that changes were lost, or that the database is not the one it was."""

from __future__ import annotations

from publisher.errors import CaptureInstanceGone, DatabaseReplaced, LsnWentBack, PositionExpired
from publisher.source.queries import DatabaseIdentity
from schemas.lsn import Lsn


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


def check_same_database(database: str, known: DatabaseIdentity, found: DatabaseIdentity) -> None:
    """Check that the database is the one whose changes were published.

    A part that the login could not see, then or now, is not compared.

    Raises:
        DatabaseReplaced: names both identities.
    """
    for what, before, now in (
        ("database GUID", known.database_guid, found.database_guid),
        ("recovery fork", known.recovery_fork_guid, found.recovery_fork_guid),
    ):
        if before and now and before != now:
            raise DatabaseReplaced(
                f"database {database}: its {what} was {before} and is {now}: it was restored or"
                " replaced, so its LSNs do not continue those already published. Publish it under"
                " a new prefix, which takes a new snapshot"
            )


def check_not_backwards(database: str, position: Lsn, newest: Lsn | None) -> None:
    """Check that the database has not fallen behind what was published.

    Raises:
        LsnWentBack: the newest LSN is older than the position.
    """
    if newest is None or newest < position:
        raise LsnWentBack(
            f"database {database}: changes up to {position} were published but its newest LSN is"
            f" {newest or 'none'}: it was restored, or CDC was disabled and enabled again. Publish"
            " it under a new prefix, which takes a new snapshot"
        )
