"""A source that is busy: looks at partitions wait (ADR 0055), progress records go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tailrace_publisher.daemon.tables import switches
from tests.simulation.ports import replaced
from tests.simulation.scripted.script import Script, events

_LOCK_TIMEOUT = 1222
_PAUSE_S = 300.0
_TRIES = 3


@contextmanager
def next_look_meets(script: Script, number: int) -> Iterator[None]:
    """The next look at the partitions meets an error, however often its statement is sent."""
    look, left = switches.captured_partitions, [number] * _TRIES

    def looked(connection: Any) -> Any:
        script.refuse(*left)
        left.clear()
        return look(connection)

    with replaced(switches, "captured_partitions", looked):
        yield


@pytest.mark.parametrize("number", [1205, 41305, 701])
def test_a_look_that_lost_each_time_is_repeated_by_the_next_poll(number: int) -> None:
    script = Script()
    script.create("orders", 1, 2)

    with next_look_meets(script, number):
        told = script.publish(lambda: script.snapshot("orders") == [1, 2])

    assert events(told, "partitions_not_compared") == []


def test_a_look_that_meets_a_lock_is_left_out_for_five_minutes() -> None:
    script = Script()
    script.create("orders", 1, 2)
    waiting_s = list[float]()

    def is_whole() -> bool:
        if script.snapshot("orders") == [1, 2]:
            return True
        waiting_s.append(script.seconds)
        script.pass_time(5.0)
        return False

    with next_look_meets(script, _LOCK_TIMEOUT):
        told = script.publish(is_whole)

    assert len(events(told, "partitions_not_compared")) == 1
    assert events(told, "poll_retried") == []
    assert _PAUSE_S - 10 < waiting_s[-1] - waiting_s[0] < 2 * _PAUSE_S


def test_progress_records_go_on_while_the_source_is_busy() -> None:
    script = Script()
    script.create("orders", 1, 2)
    script.publish(lambda: script.snapshot("orders") == [1, 2])
    before, records = len(script.progress()), dict[int, int]()
    refused = 2 * _TRIES

    def is_over() -> bool:
        written = len(script.progress())
        if not records and written > before + 1:  # the session has looked at all it looks at
            script.refuse(*[1205] * refused)
        left = script.refusals_left
        if left == refused - 1 and left not in records:
            script.pass_time(60.0)
        if records or left:
            records[left] = written
        return bool(records) and not left

    told = script.publish(is_over, is_whole=False)

    assert len(events(told, "poll_retried")) == 2
    assert records[_TRIES] > records[refused], "none between the two polls that were refused"
