"""A restore took back what was published: what is told of it, and how the tables come back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailrace_publisher.errors import DatabaseReplaced, LsnWentBackwards
from tailrace_publisher.runtime import Step
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import TableOrder
from tests.simulation.scripted.script import Script, events

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

    compared = script.compare()

    assert compared.lost.is_proven
    assert {topic: lost.events for topic, lost in compared.lost.events.items()} == {
        TOPIC("both"): 2,
        TOPIC("gone"): 2,
    }
    times = compared.lost.events[TOPIC("gone")]
    assert compared.lost.kept_ms is not None
    assert times.from_ms is not None
    assert times.to_ms is not None
    assert compared.lost.kept_ms < times.from_ms <= times.to_ms
    assert {table.table for table in compared.lost.overwritten} == {"both"}
    assert {table.table for table in compared.concerned} == {"both", "gone"}

    records = len(script.progress())
    assert script.accept().concerned == compared.concerned
    assert [record.closed for record in script.progress()[records:]] == [False]
    script.publish(lambda: restarts(script, {"both", "gone"}))
    for table in ("both", "gone"):
        assert script.notes(table, compared.lost.through) == script.source_notes(table)


def test_a_database_with_everything_that_was_published_is_accepted_without_snapshots(
    script: Script,
) -> None:
    records = len(script.progress())

    compared = script.accept()

    assert compared.lost.is_nothing
    assert not compared.concerned
    assert len(script.progress()) == records
    script.insert("same", 4)
    script.publish(lambda: script.changes("same")[-1] == ("c", 4) and restarts(script, set()))


def test_an_operator_may_leave_the_tables_as_they_are(script: Script) -> None:
    lose(script)()
    outgrow(script)

    compared = script.accept(snapshots=False)

    assert {table.table for table in compared.concerned} == {"both", "gone"}
    script.insert("gone", 5)
    script.publish(lambda: script.changes("gone")[-1] == ("c", 5) and restarts(script, set()))


def test_a_database_that_is_still_behind_is_compared_but_not_accepted(script: Script) -> None:
    lose(script)()

    compared = script.compare()

    assert set(compared.lost.events) == {TOPIC("both"), TOPIC("gone")}
    assert not compared.lost.overwritten
    with pytest.raises(LsnWentBackwards):
        script.accept()


def test_where_cleanup_left_nothing_to_compare_every_table_is_concerned(script: Script) -> None:
    lose(script)()
    outgrow(script)
    for name in ("both", "gone", "same"):
        script.clean(f"dbo_{name}")
    script.clean_commits()

    compared = script.compare()

    assert not compared.lost.has_kept
    assert {table.table for table in compared.concerned} == {"both", "gone", "same"}


def test_a_table_whose_own_changes_are_cleaned_up_is_concerned(script: Script) -> None:
    lose(script)()
    script.insert("same", 77)  # the database's own changes at LSNs that were published before
    script.delete("same", 1)
    outgrow(script)
    through = script.compare().lost.through
    assert script.commits("dbo_same")[-1] <= through
    script.clean("dbo_same", low=through)  # as far as the publisher's own cleanup goes

    compared = script.accept()

    assert {table.table for table in compared.lost.cleaned} == {"same"}
    assert not compared.lost.is_proven
    assert {table.table for table in compared.concerned} == {"both", "gone", "same"}
    script.publish(lambda: restarts(script, {"both", "gone", "same"}))
    assert script.notes("same", through) == script.source_notes("same")


def test_of_two_capture_instances_one_holds_what_the_other_lost(script: Script) -> None:
    script.enable("same", "dbo_same_2")
    script.insert("same", 4)
    script.publish(lambda: script.changes("same")[-1] == ("c", 4))
    lose(script)()
    outgrow(script)
    script.clean("dbo_same", low=script.compare().lost.through)

    compared = script.compare()

    assert not compared.lost.cleaned
    assert {table.table for table in compared.concerned} == {"both", "gone"}


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

    compared = script.accept()

    script.publish(lambda: not script.out_of_cut())
    assert script.notes("large", compared.lost.through) == script.source_notes("large")


def test_rows_are_read_again_and_tables_that_cannot_be_repaired_start_again() -> None:
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

    shown = script.compare(repair=True)
    records = len(script.progress())

    assert {table.table for table in shown.repaired} == {"both", "altered"}
    assert {table.table: reason for table, reason in shown.refused.items()} == {
        "keyless": "it has no key",
        "reread": "its snapshot or capture instance is of the lost history",
    }
    again = {"keyless", "reread"}
    assert {table.table for table in script.accept(repair=True).again} == again
    (record,) = script.progress()[records:]
    assert not record.closed
    assert not record.partitions
    told = script.publish(lambda: not script.out_of_cut() and script.lake("both")[1] == 1)
    assert {
        event["table"]: event["equal_from_lsn"] for event in events(told, "lost_rows_repaired")
    } == {f"shop.dbo.{name}": str(script.read_at(name)) for name in ("altered", "both")}
    assert not any(script.has_been_out_of_cut("both")[records:])
    assert {op for op, _ in script.repaired("both")} == {"u"}
    for name in ("both", "keyless", "altered", "reread"):
        assert script.lake(name) == script.source_notes(name)
    assert script.snapshot("both") == [1, 2]


def repairs(script: Script) -> set[str]:
    """The tables that an acceptance would repair."""
    compared = script.compare(repair=True)
    return {table.table for table in compared.repaired}


def test_events_that_retention_removes_are_noticed_before_and_after_the_acceptance(
    script: Script,
) -> None:
    lose(script)()
    outgrow(script)
    assert repairs(script) == {"both", "gone"}
    script.retain_nothing("gone")

    compared = script.accept(repair=True)

    assert {t.table: reason for t, reason in compared.refused.items()} == {
        "gone": "retention has removed its lost events"
    }
    script.retain_nothing("both")
    through, newest = compared.lost.through, script.newest
    told = script.publish(lambda: restarts(script, {"both", "gone"}))
    (replaced,) = events(told, "lost_rows_not_repaired")
    assert "retention has removed its lost events" in replaced["reason"]
    assert newest > through
    for table in ("both", "gone"):
        assert script.notes(table, through) == script.source_notes(table)


def test_own_changes_that_cleanup_removes_before_the_repair_cost_a_snapshot(
    script: Script,
) -> None:
    lose(script)()
    outgrow(script)
    compared = script.accept(repair=True)
    script.clean("dbo_both", low=compared.lost.through)

    told = script.publish(lambda: restarts(script, {"both"}))

    (replaced,) = events(told, "lost_rows_not_repaired")
    assert "cleanup has removed changes of the database" in replaced["reason"]
    assert script.notes("both", compared.lost.through) == script.source_notes("both")
    assert script.lake("gone") == script.source_notes("gone")


def test_any_number_of_rows_is_repaired_in_chunks_that_a_kill_does_not_repeat() -> None:
    # Heartbeats close the capture process's marks of time, so that the publisher catches up.
    options = {"page_rows": 500, "heartbeat_s": 0.5}
    script = Script(**options, snapshot={"mode": "initial", "chunk_rows": 200})
    script.create("orders", *range(10))
    script.publish(lambda: not script.out_of_cut())
    restore = script.backup()
    lost = range(100, 1700)
    script.insert("orders", *lost)
    script.publish(lambda: len(script.changes("orders")) == len(lost))
    restore()
    script.insert("orders", *range(1600, 2200))  # own rows, some with keys that were lost
    script.create("other", 1)
    while script.newest <= Lsn.parse(script.progress()[-1].closed_lsn):
        script.insert("other", 2 + len(script.source_notes("other")))
        script.scan()
    assert not script.accept(repair=True).again

    script.die_at(Step.COMMITTED, 4)
    done = len(script.repaired("orders"))
    assert 400 <= done < len(lost)
    script.publish(lambda: script.lake("orders") == script.source_notes("orders"))

    keys = [number for _, number in script.repaired("orders")]
    assert {*lost} <= {*keys}
    assert len(keys) < len(lost) + 600 + 200, "the kill repeats one chunk at most"
    assert not any(script.has_been_out_of_cut("orders")[-20:])


def test_an_operator_may_pause_a_repair_but_not_stop_it(script: Script) -> None:
    lose(script)()
    outgrow(script)
    script.accept(repair=True)
    script.order(TableOrder.PAUSE_SNAPSHOT, "both")
    script.order(TableOrder.STOP_SNAPSHOT, "both")

    told = script.publish(lambda: script.lake("gone") == script.source_notes("gone"))

    (refused,) = events(told, "signal_refused")
    assert "without which it may differ from the database" in refused["reason"]
    assert not script.repaired("both")
    script.order(TableOrder.RESUME_SNAPSHOT, "both")
    script.publish(lambda: script.lake("both") == script.source_notes("both"))


def test_a_new_snapshot_takes_the_place_of_a_repair(script: Script) -> None:
    lose(script)()
    outgrow(script)
    compared = script.accept(repair=True)
    script.order(TableOrder.PAUSE_SNAPSHOT, "both")
    script.publish()
    script.ask_for("both")
    script.publish(lambda: script.snapshot("both").count(2) == 2 and not script.out_of_cut())
    assert not script.repaired("both")
    assert script.notes("both", compared.lost.through) == script.source_notes("both")


def test_a_second_restore_before_the_repair_is_repaired_with_the_first(script: Script) -> None:
    lose(script)()
    outgrow(script)
    script.accept(repair=True)
    assert repairs(script) == {"both", "gone"}, "the same acceptance may be repeated"
    script.order(TableOrder.PAUSE_SNAPSHOT, "gone")
    script.publish(lambda: script.lake("both") == script.source_notes("both"))
    restore = script.backup()
    script.update("gone", 2, 20)
    script.publish()
    restore()
    outgrow(script)

    compared = script.accept(repair=True)

    assert "gone" in {table.table for table in compared.repaired}
    script.publish(lambda: script.lake("gone") == script.source_notes("gone"))
