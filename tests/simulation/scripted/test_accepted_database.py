"""A restore took back what was published: what is told of it, and how the tables come back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailrace_publisher.errors import DatabaseReplaced, LsnWentBackwards
from tailrace_publisher.runtime import Step
from tests.simulation.scripted.script import Script

TOPIC = "sim.shop.dbo.{}".format


@pytest.fixture
def script() -> Script:
    """Three tables with snapshots, and a first change of each that is out."""
    script = Script()
    for name in ("both", "gone", "same"):
        script.create(name, 1, 2)
    script.publish(lambda: not script.out_of_cut())
    for name in ("both", "gone", "same"):
        script.insert(name, 3)
    script.publish(lambda: all(script.changes(t) == [("c", 3)] for t in ("both", "gone", "same")))
    return script


def lose(script: Script) -> Callable[[], None]:
    """Changes of two tables are published after a backup; gives the restore."""
    restore = script.backup()
    script.insert("both", 4)
    script.update("both", 1, 10)
    script.insert("gone", 4)
    script.delete("gone", 1)
    script.publish(lambda: script.changes("gone")[-1] == ("d", 1))
    return restore


def outgrow(script: Script) -> None:
    """The database changes a table until its log is past what was published."""
    for number in range(30):
        script.insert("both", 100 + number)
    script.scan()


def restarts(script: Script, tables: set[str]) -> bool:
    """Whether tables, and no others, were out of the cut since the acceptance, and are in it."""
    return not script.out_of_cut() and all(
        (script.snapshot(table).count(2) == 2) == (table in tables)
        for table in ("both", "gone", "same")
    )


def test_what_is_lost_is_told_and_the_tables_concerned_come_back(script: Script) -> None:
    lose(script)()
    outgrow(script)
    with pytest.raises(DatabaseReplaced, match="tailrace accept-database, which shows"):
        script.publish()

    ((shard,), concerned) = (script.compare().shards, script.compare().concerned)

    assert shard.lost.is_proven
    assert {topic: lost.events for topic, lost in shard.lost.events.items()} == {
        TOPIC("both"): 2,
        TOPIC("gone"): 2,
    }
    times = shard.lost.events[TOPIC("gone")]
    assert shard.lost.kept_ms is not None
    assert times.from_ms is not None
    assert times.to_ms is not None
    assert shard.lost.kept_ms < times.from_ms <= times.to_ms
    assert {table.table for table in shard.lost.overwritten} == {"both"}
    assert [table.table for table in concerned] == ["both", "gone"]

    records = len(script.progress())
    assert script.accept().concerned == concerned
    assert [record.closed for record in script.progress()[records:]] == [False]
    script.publish(lambda: restarts(script, {"both", "gone"}))
    for table in ("both", "gone"):
        assert script.notes(table, shard.lost.through) == script.source_notes(table)


def test_a_database_with_everything_that_was_published_is_accepted_without_snapshots(
    script: Script,
) -> None:
    records = len(script.progress())

    compared = script.accept()

    assert [shard.lost.is_nothing for shard in compared.shards] == [True]
    assert not compared.concerned
    assert len(script.progress()) == records
    script.insert("same", 4)
    script.publish(lambda: script.changes("same")[-1] == ("c", 4) and restarts(script, set()))


def test_an_operator_may_leave_the_tables_as_they_are(script: Script) -> None:
    lose(script)()
    outgrow(script)

    compared = script.accept(snapshots=False)

    assert [table.table for table in compared.concerned] == ["both", "gone"]
    script.insert("gone", 5)
    script.publish(lambda: script.changes("gone")[-1] == ("c", 5) and restarts(script, set()))


def test_a_database_that_is_still_behind_is_compared_but_not_accepted(script: Script) -> None:
    lose(script)()

    (shard,) = script.compare().shards

    assert set(shard.lost.events) == {TOPIC("both"), TOPIC("gone")}
    assert not shard.lost.overwritten
    with pytest.raises(LsnWentBackwards):
        script.accept()


def test_where_cleanup_left_nothing_to_compare_every_table_is_concerned(script: Script) -> None:
    lose(script)()
    outgrow(script)
    for name in ("both", "gone", "same"):
        script.clean(f"dbo_{name}")
    script.clean_commits()

    compared = script.compare()

    assert [shard.lost.is_proven for shard in compared.shards] == [False]
    assert [table.table for table in compared.concerned] == ["both", "gone", "same"]


def test_a_snapshot_that_a_restore_interrupts_starts_again() -> None:
    script = Script(snapshot={"mode": "initial", "chunk_rows": 1, "tables_at_once": 1})
    script.create("both", 1)
    script.publish(lambda: not script.out_of_cut())
    script.create("large", *range(10))
    while not script.snapshot("large"):
        script.die_at(Step.COMMITTED)
    read = len(script.snapshot("large"))
    restore = script.backup()
    while len(script.snapshot("large")) == read:
        script.insert("both", 2 + len(script.progress()))
        script.die_at(Step.COMMITTED)
    assert len(script.snapshot("large")) < 10, "its snapshot is over already"
    restore()
    script.update("large", 0, 77)
    outgrow(script)

    (shard,) = script.accept().shards

    script.publish(lambda: not script.out_of_cut())
    assert script.notes("large", shard.lost.through) == script.source_notes("large")


def test_differences_are_published_and_tables_where_they_are_unproven_start_again() -> None:
    script = Script()
    for name in ("both", "keyless", "altered", "reread"):
        script.create(name, 1, 2, has_key=name != "keyless")
    script.publish(lambda: not script.out_of_cut())
    script.insert("both", 3)
    script.publish(lambda: script.changes("both") == [("c", 3)])
    restore = script.backup()
    script.alter("altered", "alter", "note", "bigint")
    script.scan()
    script.ask_for("reread")
    for name in ("both", "keyless", "altered", "reread"):
        script.update(name, 1, 10)
    script.publish(lambda: script.snapshot("reread").count(2) == 2 and not script.out_of_cut())
    restore()
    outgrow(script)

    (shown,) = script.compare(compensate=True).shards
    records = len(script.progress())

    assert {table.table for table in shown.compensations} == {"both"}
    assert {table.table: reason.partition(":")[0] for table, reason in shown.refused.items()} == {
        "keyless": "it has no key",
        "altered": "its lost events",
        "reread": "its snapshot, capture instance or columns are of the lost history",
    }
    assert {table.table for table in script.accept(compensate=True).again} == {
        "keyless",
        "altered",
        "reread",
    }
    first, closing = script.progress()[records:]
    assert (first.closed, closing.closed) == (False, True)
    assert not first.partitions
    assert [part.topic for part in closing.partitions] == [TOPIC("both")]
    assert set(closing.snapshotting) == {TOPIC("keyless"), TOPIC("altered"), TOPIC("reread")}
    assert {op for op, _ in script.compensated("both")} == {"c", "u"}
    assert script.lake("both", shown.lost.through)[1] == 1
    script.publish(lambda: not script.out_of_cut())
    for name in ("both", "keyless", "altered", "reread"):
        assert script.lake(name) == script.source_notes(name)
    assert script.snapshot("both") == [1, 2]


def test_a_database_that_has_not_reached_what_was_published_is_not_compensated(
    script: Script,
) -> None:
    lose(script)()

    (shard,) = script.compare(compensate=True).shards

    assert not shard.compensations
    assert set(shard.refused.values()) == {f"the database has not reached LSN {shard.lost.through}"}


def test_without_the_events_that_are_lost_nothing_is_compensated(script: Script) -> None:
    lose(script)()
    outgrow(script)
    script.retain_nothing("gone")

    (shard,) = script.compare(compensate=True).shards

    assert {table.table for table in shard.compensations} == {"both"}
    assert list(shard.refused.values()) == ["retention has removed its lost events"]
