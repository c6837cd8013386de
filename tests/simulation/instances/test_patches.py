"""Values that no change table has are re-read after a hand-over (ADR 0084), and each fault shows.

A test of a mutant tells the same story as the test before it, with the fault put back.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailrace_publisher.runtime import Step
from tailrace_schemas.records.progress import PatchedColumns
from tailrace_schemas.records.signals import TableOrder
from tests.simulation.mutants import put_back
from tests.simulation.scripted.script import Script, events
from tests.simulation.world import Finding

_ROTATE = {"schema_change": "rotate"}


@pytest.fixture
def script() -> Script:
    """A table of three rows, published; capture instances are rotated."""
    return _published(tables=_ROTATE)


def _published(**options: object) -> Script:
    script = Script(**options)
    script.create("orders", 1, 2, 3)
    script.create("other", 1)
    script.publish(lambda: script.snapshot("orders") == [1, 2, 3] and not script.out_of_cut())
    return script


def _fill_in(script: Script) -> None:
    """A column comes, and values of it that only the former instance sees."""
    script.alter("orders", "add", "city")
    script.set("orders", 1, "city", 100)
    script.set("orders", 2, "city", 200)
    script.set("orders", 3, "city", 300)
    script.set("orders", 3, "city", None)  # type: ignore[arg-type]
    script.scan()


def _is_rotated(script: Script) -> bool:
    return list(script.instances("orders")) == ["dbo_orders_r1"]


def _is_patched(script: Script) -> Callable[[], bool]:
    return lambda: _is_rotated(script) and {1, 2} <= set(script.patched("orders"))


def test_values_from_before_the_hand_over_arrive_as_updates(script: Script) -> None:
    _fill_in(script)
    told = script.publish(_is_patched(script))
    assert script.patched("orders") == [1, 2]
    assert script.values("orders", "city") == {1: 100, 2: 200}
    assert script.changes("orders") == [("u", 1), ("u", 2), ("u", 3), ("u", 3)]
    assert script.snapshot("orders") == [1, 2, 3]
    assert not any(script.has_been_out_of_cut("orders")[-3:])
    (finished,) = events(told, "patch_finished")
    assert finished["columns"] == ("city",)
    assert finished["rows"] == 2
    (ended,) = (progress for progress in script.progress() if progress.patched)
    assert ended.patched == [PatchedColumns("sim.shop.dbo.orders", ["city"])]
    assert ended.closed_lsn == finished["whole_from_lsn"]
    told = script.publish()
    assert not events(told, "patch_started")


def test_without_the_patch_they_are_missing(script: Script) -> None:
    with put_back("no-patch"):
        _fill_in(script)
        script.publish(lambda: _is_rotated(script))
    assert script.values("orders", "city") == {}


def test_a_column_that_the_options_leave_out_is_no_reason_to_read_rows() -> None:
    script = _published(tables=_ROTATE, columns={"exclude": [r"dbo\..*\.city"]})
    _fill_in(script)
    told = script.publish(lambda: _is_rotated(script))
    assert script.instances("orders") == {"dbo_orders_r1": ["id", "note", "city"]}
    assert not events(told, "patch_started")
    assert script.patched("orders") == []
    assert script.values("orders", "city") == {}


@pytest.mark.parametrize("mutant", [None, "newest-by-date"])
def test_the_newer_instance_is_the_one_that_starts_later_whatever_its_date(
    mutant: str | None,
) -> None:
    script = _published()
    script.alter("orders", "add", "city", fill=7)
    script.set_clock_back()
    script.enable("orders", "by_hand")
    script.update("orders", 1, 10)
    with put_back(mutant):
        script.publish(lambda: bool(script.notes("orders").get(1) == 10) and script.calls > 1000)
    brought = {1: 7} if mutant else {1: 7, 2: 7, 3: 7}
    assert script.values("orders", "city") == brought


def _later(script: Script) -> None:
    script.set("orders", 1, "city", 111)
    script.delete("orders", 2)
    script.insert("orders", 2)
    script.scan()


def test_a_row_that_changes_while_it_is_read_keeps_its_newer_values() -> None:
    script = _published(tables=_ROTATE)
    _fill_in(script)
    script.publish(
        lambda: _is_rotated(script) and script.values("orders", "city").get(1) == 111,
        during=lambda: _later(script),
        at=Step.SNAPSHOT_READ,
    )
    assert script.patched("orders") == []
    assert script.values("orders", "city") == {1: 111, 2: None}


def test_a_patch_over_newer_changes_shows() -> None:
    script = _published(tables=_ROTATE)
    with put_back("patch-over-newer"):
        _fill_in(script)
        script.publish(
            lambda: _is_rotated(script) and bool(script.patched("orders")),
            during=lambda: _later(script),
            at=Step.SNAPSHOT_READ,
        )
    assert script.values("orders", "city") == {1: 100, 2: 200}  # the source has 111 and NULL


def test_a_wrong_hand_over_shows(script: Script) -> None:
    with put_back("hand-over-early"):
        _fill_in(script)
        script.die_at(Step.ROTATED)
        told = script.publish(lambda: script.out_of_cut() == {"orders"})
    assert {event["error"] for event in events(told, "table_stopped")} == {"PositionExpired"}


def test_a_drop_that_comes_early_shows(script: Script) -> None:
    _fill_in(script)
    with put_back("older-dropped-early"), pytest.raises(Finding, match="are not published"):
        script.die_at(Step.ROTATED, 2)


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (Step.ROTATED, 1),
        (Step.ROTATED, 2),
        (Step.SNAPSHOT_READ, 1),
        (Step.SNAPSHOT_READ, 2),
        (Step.SENT, 2),
        (Step.SENT, 3),
    ],
)
def test_a_kill_at_any_step_loses_no_value(step: Step, number: int) -> None:
    script = _published(tables=_ROTATE, snapshot={"chunk_rows": 1})
    _fill_in(script)
    script.die_at(step, number)
    script.publish(_is_patched(script))
    assert script.values("orders", "city") == {1: 100, 2: 200}
    assert sorted(script.patched("orders")) == [1, 2]


def test_what_ddl_fills_in_is_brought_for_all_rows(script: Script) -> None:
    told = script.publish(
        lambda: script.values("orders", "city") == {1: 7, 2: 7, 3: 7},
        during=lambda: script.alter("orders", "add", "city", fill=7),
    )
    assert script.changes("orders") == []
    assert events(told, "patch_started")[0]["rows"] == "with a value in these columns"


def test_a_column_under_the_name_of_a_dropped_one_is_brought_for_all_rows(script: Script) -> None:
    def alter() -> None:
        script.alter("orders", "drop", "note")
        script.alter("orders", "add", "note")
        script.scan()

    script.publish(
        lambda: script.values("orders", "note") == {1: None, 2: None, 3: None}, during=alter
    )
    assert script.patched("orders") == [1, 2, 3]


def test_a_column_that_no_instance_had_for_a_while_is_brought_for_all_rows() -> None:
    script = _published()

    def hand_over(name: str, *columns: str) -> None:
        former = list(script.instances("orders"))
        script.enable("orders", name, *columns)
        script.scan()
        script.update("other", 1, 10)
        script.publish()
        for instance in former:
            script.disable(instance)

    hand_over("without_note", "id")
    script.set("orders", 1, "note", None)
    hand_over("with_note")
    script.update("other", 1, 11)
    script.publish(lambda: script.patched("orders") == [1, 2, 3])
    assert script.values("orders", "note") == {1: None, 2: 2, 3: 3}


def test_a_column_that_is_dropped_again_is_left_out(script: Script) -> None:
    _fill_in(script)
    script.alter("orders", "add", "street")
    script.set("orders", 3, "street", 33)
    script.scan()
    script.die_at(Step.ROTATED)
    script.alter("orders", "drop", "city")
    script.publish(lambda: list(script.instances("orders")) == ["dbo_orders_r2"])
    assert script.patched("orders") == [3]
    assert script.values("orders", "street") == {3: 33}


def test_a_patch_and_snapshots_come_one_after_the_other(script: Script) -> None:
    _fill_in(script)
    script.ask_for("orders", "[id] = 3")
    script.publish(_is_patched(script))
    assert script.snapshot("orders") == [1, 2, 3, 3]
    script.ask_for("orders")
    script.publish(lambda: script.snapshot("orders") == [1, 1, 2, 2, 3, 3, 3])
    assert script.values("orders", "city") == {1: 100, 2: 200, 3: None}
    assert script.patched("orders") == [1, 2]


def test_an_operator_may_stop_a_patch(script: Script) -> None:
    def stop() -> None:
        script.order(TableOrder.STOP_SNAPSHOT, "orders")

    _fill_in(script)
    told = script.publish(lambda: _is_rotated(script), during=stop, at=Step.SNAPSHOT_READ)
    assert events(told, "partial_snapshot_stopped")
    assert not events(script.publish(), "patch_started")


def test_a_table_without_a_key_is_told_to_need_a_snapshot() -> None:
    script = Script(tables=_ROTATE)
    script.create("orders", 1, 2, has_key=False)
    script.publish(lambda: script.snapshot("orders") == [1, 2] and not script.out_of_cut())
    told = script.publish(
        lambda: _is_rotated(script), during=lambda: script.alter("orders", "add", "city")
    )
    (impossible,) = events(told, "patch_impossible")
    assert impossible["table"] == "shop.dbo.orders"
    assert script.patched("orders") == []


@pytest.mark.parametrize(
    ("tables", "is_patched"),
    [
        ({"schema_change": "follow"}, True),
        ({"schema_change": "follow", "patch": "none"}, False),
        ({"schema_change": "rotate", "patch": "none"}, False),
    ],
)
def test_values_from_before_it_arrive_whoever_created_it(
    tables: dict[str, str], is_patched: bool
) -> None:
    script = _published(tables=tables)

    def alter() -> None:
        _fill_in(script)
        if tables["schema_change"] == "follow":
            script.enable("orders", "by_hand")
        script.scan()

    told = script.publish(
        lambda: len(script.instances("orders")) == 2 or _is_rotated(script), during=alter
    )
    assert bool(events(told, "capture_instance_found"))
    script.update("orders", 3, 30)
    script.publish(lambda: script.notes("orders")[3] == 30)
    assert (script.patched("orders") == [1, 2]) is is_patched
