"""Where a start begins: at an LSN, or refused with the reason; snapshot modes; lost checkpoints."""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import CheckpointLost, StartRefused
from tailrace_publisher.runtime import Step
from tests.simulation.scripted.script import Script, events


@pytest.fixture
def script() -> Script:
    """Three captured commits of table a before the publisher begins: the last has three rows."""
    script = Script()
    script.create("a", 0)
    for ids in ((1,), (2,), (3, 4, 5)):
        script.insert("a", *ids)
    script.scan()
    return script


def ids(script: Script) -> list[int]:
    """Ids of the changes; no snapshot was taken."""
    assert script.snapshot("a") == []
    return [number for _, number in script.changes("a")]


def test_it_begins_with_an_lsn_and_continues_from_its_checkpoint(script: Script) -> None:
    first, second, _ = script.commits("dbo_a")
    told = script.publish(start={"lsn": str(second)})
    assert [event["first_lsn"] for event in events(told, "start_position")] == [str(second)]
    assert ids(script) == [2, 3, 4, 5]
    assert script.progress()[0].after_lsn == str(second.decrement())

    script.insert("a", 6)
    told = script.publish(lambda: len(ids(script)) == 5, start={"lsn": str(first)})
    assert ids(script) == [2, 3, 4, 5, 6]
    assert [event["option"] for event in events(told, "start_position_ignored")] == ["lsn"]
    assert not events(told, "start_position")


def test_a_table_begins_with_its_low_watermark_itself(script: Script) -> None:
    second = script.commits("dbo_a")[1]
    script.clean("dbo_a", second)

    script.publish(start={"lsn": str(second)})
    assert ids(script) == [2, 3, 4, 5]


def test_a_start_that_cleanup_has_passed_is_refused_or_taken_by_a_snapshot(script: Script) -> None:
    first, _, third = script.commits("dbo_a")
    script.clean("dbo_a", third)
    start = {"lsn": str(first)}
    with pytest.raises(StartRefused) as refused:
        script.publish(start=start)
    for part in ("table shop.dbo.a", str(first), str(third), "when_needed"):
        assert part in str(refused.value)
    assert script.changes("a") == script.snapshot("a") == []

    script.publish(
        lambda: bool(script.progress()) and not script.out_of_cut(),
        start=start,
        snapshot={"mode": "when_needed"},
    )
    assert script.snapshot("a") == [*range(6)]


def test_an_lsn_that_is_not_captured_is_refused(script: Script) -> None:
    newest = script.commits("dbo_a")[-1]
    beyond = script.newest.increment().increment()
    with pytest.raises(StartRefused, match=str(beyond)) as refused:
        script.publish(start={"lsn": str(beyond)}, scans=False)
    assert newest < beyond
    assert str(script.newest) in str(refused.value)


def test_always_takes_a_new_snapshot_at_each_start(script: Script) -> None:
    always = {"mode": "always"}
    script.publish(
        lambda: len(script.snapshot("a")) == 6 and not script.out_of_cut(), snapshot=always
    )
    script.delete("a", 0)

    told = script.publish(
        lambda: len(script.snapshot("a")) == 11 and not script.out_of_cut(), snapshot=always
    )
    assert events(told, "snapshot_requested")
    assert script.notes("a").keys() == {*range(1, 6)}


@pytest.fixture
def orders() -> Script:
    """A table with its snapshot."""
    script = Script()
    script.create("orders", 1, 2)
    script.publish(lambda: not script.out_of_cut())
    return script


def test_a_checkpoint_that_lost_its_end_is_refused_until_the_loss_is_accepted(
    orders: Script,
) -> None:
    script = orders
    kept = script.checkpoints
    for number in range(10, 15):
        script.insert("orders", number)
    script.publish(lambda: script.changes("orders")[-1] == ("c", 14))
    script.lose_checkpoints(kept)
    script.insert("orders", 15)
    records = len(script.progress())

    with pytest.raises(CheckpointLost, match=r"lost the end.*tailrace accept-checkpoint-loss"):
        script.publish()
    with pytest.raises(CheckpointLost):
        script.accept()

    assert len(script.progress()) == records
    script.accept_loss()
    told = script.publish(lambda: script.snapshot("orders")[-1] == 15 and not script.out_of_cut())
    assert events(told, "checkpoint_loss_accepted")
    assert script.changes("orders") == [("c", number) for number in range(10, 15)]
    script.insert("orders", 16)
    script.publish(lambda: script.changes("orders")[-1] == ("c", 16))


def test_a_loss_within_a_large_transaction_is_noticed() -> None:
    script = Script(rows_per_transaction=2, page_rows=2)
    script.create("orders", 1)
    script.publish(lambda: not script.out_of_cut())
    kept = script.checkpoints
    script.insert("orders", *range(10, 30))
    script.die_at(Step.COMMITTED, 3)
    assert not script.progress()[-1].closed
    script.lose_checkpoints(kept)

    with pytest.raises(CheckpointLost):
        script.publish()


def test_a_whole_checkpoint_is_taken_wherever_the_publisher_was_killed() -> None:
    for step in (Step.SENT, Step.BEFORE_COMMIT, Step.COMMITTED, Step.HEARTBEAT):
        script = Script(rows_per_transaction=2, page_rows=2)
        script.create("orders", 1)
        script.publish(lambda script=script: not script.out_of_cut())
        script.insert("orders", *range(10, 20))
        script.die_at(step)
        script.publish(lambda script=script: len(script.changes("orders")) == 10)
