"""Rows that a lake has wrong are published again as they are (ADR 0105)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tailrace_publisher.runtime import Step
from tailrace_publisher.snapshot.changed_rows import ChangedRows
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_schemas.position.change_position import Operation, pack_position
from tailrace_schemas.records.signals import TableOrder
from tests.simulation.ports import replaced
from tests.simulation.scripted.script import Script, events

ROWS = range(1, 7)
SURPLUS = 50


@dataclass
class Lake:
    """A table by the sink's rule: a change is applied if its position is greater."""

    script: Script
    rows: dict[int, tuple[bytes, int | None]] = field(default_factory=dict)
    applied: int = 0

    def apply(self) -> dict[int, int | None]:
        """Apply what came since; returns the rows."""
        found = self.script.images("orders")
        for number, position, image in found[self.applied :]:
            known = self.rows.get(number)
            if known is None or position > known[0]:
                self.rows.pop(number, None)
                if image is not None:
                    self.rows[number] = position, image["note"]
        self.applied = len(found)
        return {number: note for number, (_, note) in self.rows.items()}

    def damage(self) -> list[int]:
        """Change a row, lose one, add one; returns their ids."""
        self.rows[1] = self.rows[1][0], 999
        del self.rows[2]
        self.rows[SURPLUS] = self.rows[3]
        return [1, 2, SURPLUS]


@pytest.fixture
def script() -> Script:
    """A table of six rows, published."""
    return _published()


def _published(**options: Any) -> Script:
    script = Script(**options)
    script.create("orders", *ROWS)
    script.publish(lambda: script.snapshot("orders") == [*ROWS] and not script.out_of_cut())
    return script


def _are_repaired(script: Script, number: int) -> Callable[[], bool]:
    return lambda: len(script.repaired("orders")) >= number


def test_rows_are_updated_or_deleted_as_the_source_has_them(script: Script) -> None:
    script.update("orders", 1, 11)
    script.publish()
    lake = Lake(script)
    lake.apply()
    wrong = lake.damage()
    before = len(script.progress())

    script.repair("orders", *wrong, 3)
    told = script.publish(_are_repaired(script, 4))

    assert script.repaired("orders") == [("u", 1), ("u", 2), ("u", 3), ("d", SURPLUS)]
    assert lake.apply() == script.source_notes("orders")
    (requested,) = events(told, "repair_requested")
    assert requested["rows"] == 4
    assert not any(script.has_been_out_of_cut("orders")[before:])
    script.publish()
    assert len(script.repaired("orders")) == 4, "a repair is published once"


def test_a_repair_wins_over_what_earlier_releases_wrote_at_an_acceptance(script: Script) -> None:
    """They numbered events by an offset of the progress topic, at the same LSN and command id."""
    script.repair("orders", 1, 2)
    script.publish(_are_repaired(script, 2))
    lsn = script.read_at("orders").to_bytes()
    number = (10_000_000 + 1) << 32
    earlier = pack_position(lsn, 0x7FFFFFFF, number.to_bytes(10, "big"), Operation.UPDATE_AFTER)
    found = {number: position for number, position, _ in script.images("orders")[-2:]}
    assert min(found.values()) > earlier
    script.repair("orders", 2)
    script.publish(_are_repaired(script, 3))
    number, position, _ = script.images("orders")[-1]
    assert position > max(found.values()), "its first row wins over each of those before"


def test_an_idle_database_is_repaired_at_the_lsn_of_its_last_change(script: Script) -> None:
    """The lake's row has the position of a change at the closed LSN; the repair is after it."""
    lake = Lake(script)
    for _ in range(2):
        script.update("orders", 1, 11)
        script.publish(scans=True)
        lake.apply()
        lake.rows[1] = lake.rows[1][0], 999
        script.repair("orders", 1)
        count = len(script.repaired("orders"))
        script.publish(_are_repaired(script, count + 1))
        assert lake.apply() == script.source_notes("orders")


@pytest.mark.parametrize(
    ("step", "number"),
    [(s, n) for s in (Step.SNAPSHOT_READ, Step.SENT, Step.BEFORE_COMMIT) for n in (1, 2)]
    + [(Step.COMMITTED, 1), (Step.HEARTBEAT, 2)],
)
def test_a_kill_at_any_step_leaves_nothing_out(step: Step, number: int) -> None:
    script = _published()
    lake = Lake(script)
    lake.apply()
    wrong = lake.damage()
    script.repair("orders", *wrong)
    script.insert("orders", 7)
    if step is not Step.SNAPSHOT_READ or number == 1:
        script.die_at(step, number)
    script.update("orders", 1, 111)
    script.publish(_are_repaired(script, 3))
    assert lake.apply() == script.source_notes("orders")


def _meanwhile(script: Script) -> None:
    script.update("orders", 1, 111)
    script.delete("orders", 2)
    script.insert("orders", SURPLUS)
    script.scan()


def test_changes_that_come_while_rows_are_read_win(script: Script) -> None:
    lake = Lake(script)
    lake.apply()
    wrong = lake.damage()
    script.repair("orders", *wrong, 4)
    script.publish(
        lambda: lake.apply() == script.source_notes("orders"),
        during=lambda: _meanwhile(script),
        at=Step.SNAPSHOT_READ,
    )
    assert script.repaired("orders") == [("u", 4)]
    assert lake.apply()[SURPLUS] == SURPLUS


def _later(script: Script) -> None:
    script.update("orders", 1, 111)
    script.scan()


def _nothing_changed() -> Any:
    return replaced(ChangedRows, "unchanged", lambda *_: None)


def _never_deleted() -> Any:
    return replaced(Chunk, "is_gone", lambda *_: False)


@pytest.mark.parametrize("mutant", [_nothing_changed, _never_deleted])
def test_a_fault_of_the_repair_shows(script: Script, mutant: Callable[[], Any]) -> None:
    lake = Lake(script)
    lake.apply()
    wrong = lake.damage()
    with mutant():
        script.repair("orders", *wrong)
        script.publish(
            _are_repaired(script, 2), during=lambda: _later(script), at=Step.SNAPSHOT_READ
        )
    assert lake.apply() != script.source_notes("orders")


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_is_repaired_under_changes_and_kills(seed: int) -> None:
    rng, script = random.Random(seed), _published()
    lake = Lake(script)

    def change() -> None:
        for _ in range(rng.randrange(4)):
            number = rng.choice([*ROWS, SURPLUS])
            if number not in script.source_notes("orders"):
                script.insert("orders", number)
            elif rng.random() < 0.4:
                script.delete("orders", number)
            else:
                script.update("orders", number, rng.randrange(5))

    for _ in range(4):
        change()
        script.publish()
        lake.apply()
        for number in rng.sample([*ROWS, SURPLUS], 3):
            known = lake.rows.get(number, next(iter(lake.rows.values()), (bytes(25), 0)))
            if rng.random() < 0.4:
                lake.rows.pop(number, None)
            else:
                lake.rows[number] = known[0], 1000 + number
        script.repair("orders", *ROWS, SURPLUS)
        is_killed = rng.random() < 0.6
        if is_killed:
            script.die_after(rng.randrange(20, 400))
        script.publish(during=change, at=Step.HEARTBEAT if is_killed else Step.SNAPSHOT_READ)
        script.publish(lambda: lake.apply() == script.source_notes("orders"))


def test_what_cannot_be_repaired_is_refused(script: Script) -> None:
    script.create("heap", 1, 2, has_key=False)
    script.publish(lambda: script.snapshot("heap") == [1, 2] and not script.out_of_cut())
    script.repair("heap", 1)
    script.send(b'{"type": "repair", "table": "dbo.orders", "columns": ["note"], "keys": [["1"]]}')
    script.send(b'{"type": "repair", "table": "dbo.orders", "columns": ["id"], "keys": []}')
    script.repair("none", 1)
    script.repair("orders", *range(3))
    script.repair("orders", 1)
    told = events(script.publish(_are_repaired(script, 3)), "signal_refused")
    reasons = [event["reason"] for event in told]
    assert "its rows are not identified by id" in reasons[0]
    assert "its rows are not identified by note" in reasons[1]
    assert "1 to 1000 keys" in reasons[2]
    assert "no such table" in reasons[3]
    assert "one is being read" in reasons[4]
    assert len(reasons) == 5
    assert script.repaired("heap") == []


def test_a_repair_that_cannot_be_read_is_given_up_and_its_table_continues() -> None:
    script = _published(skip={"operations": {"dbo.orders": ["d"]}})
    script.repair("orders", 1)
    told = script.publish()
    told += script.publish()
    (given_up,) = events(told, "partial_snapshot_given_up")
    assert "skip.operations" in given_up["reason"]
    script.update("orders", 1, 5)
    script.publish(lambda: script.changes("orders") == [("u", 1)])


def test_an_operator_may_stop_a_repair(script: Script) -> None:
    script.repair("orders", 1)
    script.publish(
        during=lambda: script.order(TableOrder.STOP_SNAPSHOT, "orders"), at=Step.SNAPSHOT_READ
    )
    assert script.repaired("orders") == []
    script.repair("orders", 1)
    script.publish(_are_repaired(script, 1))
