"""``tailrace accept-database``: what the topics and a replaced database do not have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace.reading.event_text import time_text

if TYPE_CHECKING:
    from tailrace_publisher.daemon.offline.accept_database import Compared
    from tailrace_publisher.daemon.offline.lost_history import LostEvents, LostHistory


def comparison(database: str, compared: Compared) -> Iterator[str]:
    """Yield the lines that show what is lost."""
    lost = compared.lost
    yield f"Database {database} was published up to {lost.through} as"
    yield f"  {compared.known},"
    yield f"and is now\n  {compared.found}."
    if lost.is_nothing:
        yield "It has every published commit."
        return
    yield _kept(lost)
    if lost.events:
        yield "Published, and not in this database:"
        yield from (f"  {topic}: {_told(events)}" for topic, events in sorted(lost.events.items()))
    if lost.overwritten:
        tables = ", ".join(sorted(map(str, lost.overwritten)))
        yield f"Changed in this database up to {lost.through}, which is not published: {tables}"
    if lost.cleaned:
        tables = ", ".join(sorted(map(str, lost.cleaned)))
        yield f"Changed in this database after {lost.kept}, or not: cleanup went past it: {tables}"
    for table, reason in sorted(compared.refused.items(), key=str):
        yield f"Not repaired: {table}, because {reason}"


def _kept(lost: LostHistory) -> str:
    if lost.kept is None:
        return "It has none of the published commits that the progress topic still names."
    time = time_text(lost.kept_ms) or "at an unknown time"
    if lost.has_kept:
        return f"It has the published commits up to {lost.kept} ({time})."
    return (
        f"It lacks all published commits after {lost.kept} ({time}). Whether it has the earlier"
        " ones is unknown: cleanup has removed them from cdc.lsn_time_mapping."
    )


def _told(events: LostEvents) -> str:
    since, until = time_text(events.from_ms), time_text(events.to_ms)
    when = f", committed from {since} to {until}" if since and until else ""
    return f"{events.events:,} events{when}"


def outcome(compared: Compared, *, is_accepted: bool, snapshots: bool) -> Iterator[str]:
    """Yield the lines that show what was done, or what would be."""
    tables = ", ".join(sorted(map(str, compared.again)))
    repaired = ", ".join(sorted(map(str, compared.repaired)))
    verb = "takes" if is_accepted else "would take"
    if repaired:
        reads = "reads" if is_accepted else "would read"
        yield (
            f"The next start of the publisher {reads} the rows of {repaired} that may differ. Until"
            " it logs lost_rows_repaired, cuts of them may mix both histories."
        )
    if repaired and not tables:
        yield "No table is read as a whole."
    elif not tables:
        yield f"No table {'differs' if is_accepted else 'would differ'}, so none is read again."
    elif snapshots:
        yield f"The next start of the publisher {verb} new snapshots of {tables}."
    else:
        yield (
            f"Without snapshots, {tables} may differ from the database for good, in topics and lake"
        )
    through = compared.lost.through
    if is_accepted:
        yield "The database is accepted."
    elif compared.newest is None or compared.newest < through:
        yield (
            f"It cannot be accepted yet: its newest LSN is {compared.newest or 'none'}. Fix: wait"
            f" until it is past {through}, or publish under a new prefix"
        )
    else:
        yield "Nothing was written: add --run to accept the database."
