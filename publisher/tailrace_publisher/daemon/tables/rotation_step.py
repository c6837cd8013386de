"""What the rotation of a table's capture instances needs next (pure; ADR 0082).

The catalog and the published position alone decide it. So a publisher that is killed at any step
continues at the right one, and a step that somebody else took is not taken again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.source.catalog.added_columns import Uncaptured
from tailrace_publisher.source.catalog.next_instance import lacks_change, next_name, succeeds
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Create:
    """A second instance is to be created.

    Attributes:
        present: the table's only instance.
        added: columns that the second one captures in addition.
        change: how the table's columns differ from it, for the log.
    """

    present: CaptureInstance
    added: Sequence[str]
    change: str


@dataclass(frozen=True, slots=True)
class Drop:
    """The older of two instances is not read any more.

    Attributes:
        older: the one to drop.
        newer: the one that took over.
    """

    older: CaptureInstance
    newer: CaptureInstance


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done yet.

    Attributes:
        reason: what is waited for, without a position, so that it changes seldom.
    """

    reason: str


Step = Create | Drop | Wait


def next_step(table: PublishedTable, closed_lsn: Lsn, in_lakes: Lsn | None = None) -> Step | None:
    """Return the next step of a published table's rotation; None if there is nothing to do.

    Args:
        closed_lsn: LSN up to which everything is published, in a committed checkpoint. A start
            after a crash reads from there, so only what is at or before it is not needed any more.
        in_lakes: LSN up to which all lakes have everything; None if no lake is waited for.
    """
    newest, lacks = table.instances.newest, table.uncaptured
    change = lacks_change(newest, lacks.added)
    if len(table.instances) == 1:
        unclear = _unclear(newest, lacks)
        if change and unclear:
            return Wait(f"{change}, but {unclear}")
        return Create(newest, lacks.asked_for, change) if change else None
    pair = _pair(table.instances)
    if pair is None:
        names = " and ".join(instance.name for instance in table.instances)
        return (
            Wait(
                f"{change}, and SQL Server takes no third capture instance besides {names}, of"
                " which no rotation created the newer one: drop the one that nobody reads"
            )
            if change
            else None
        )
    older, newer = pair
    if newer.name not in table.covers:
        return Wait(f"the capture process has not reached the start of {newer.name}")
    # Rows at the start itself still come from the older instance.
    if closed_lsn < table.covers[newer.name]:
        return Wait(f"the changes up to the start of {newer.name} are not published yet")
    if in_lakes is not None and in_lakes < table.covers[newer.name]:
        return Wait(f"a lake (lakes) lacks changes up to the start of {newer.name}")
    return Drop(older, newer)


def _unclear(present: CaptureInstance, lacks: Uncaptured) -> str | None:
    """Return why it is not known which columns the next instance may capture; None if it is.

    An instance that left columns out has a column list, and only its author knows whether new
    columns belong to it. For a dropped column the list is copied. The exception is a list that left
    out a column which is gone: nothing about the next instance would show that name.
    """
    there = present.not_captured.values()
    is_shown_again = all(name in there for name in lacks.left_out)
    if not lacks.left_out or (is_shown_again and not lacks.added):
        return None
    table = present.source_table
    return (
        f"{present.name} has a column list, which left out {', '.join(lacks.left_out)}, so no new"
        " column is captured without being asked for. Fix: create the next instance yourself, with"
        f" the columns that may be published: tailrace enable {table.schema}.{table.table}"
        f" --capture-instance {next_name(present.name, ())} --column <name> ..."
    )


def _pair(instances: Sequence[CaptureInstance]) -> tuple[CaptureInstance, CaptureInstance] | None:
    """Return the older and the newer of two instances of one rotation.

    Their names give the order: dates are local times, and clocks are set back.
    """
    first, second = instances
    if succeeds(second.name, first.name):
        return first, second
    return (second, first) if succeeds(first.name, second.name) else None
