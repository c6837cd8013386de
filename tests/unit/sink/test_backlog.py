"""The backlog's pace: a rate over a window, the time that is left, and nothing that jumps."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from tailrace_service.status import Backlog, DaemonStatus
from tailrace_sink.watch.backlog import BacklogPace, WaitingChanges


def test_a_steady_pace_says_when_it_is_over():
    pace = BacklogPace()
    for second in range(11):
        found = pace.observe(second, second * 1_000, 50_000 - second * 1_000)
    assert (found.done, found.left) == (10_000, 40_000)
    assert (found.per_s, found.left_s) == (1_000, 40)


def test_nothing_is_said_of_the_pace_before_something_came():
    pace = BacklogPace()
    assert (pace.observe(0, 0, 500).per_s, pace.observe(30, 0, 500).left_s) == (None, None)
    assert pace.observe(31, 100, 400).per_s == pytest.approx(100 / 31)


def test_the_first_moment_is_too_short_for_a_pace():
    pace = BacklogPace()
    pace.observe(0, 0, 500)
    assert pace.observe(0.1, 90, 410).per_s is None


def test_batches_that_come_as_a_whole_make_no_pace_jump():
    """A batch of 20,000 each 20 s: the pace stays, and what is left counts down."""
    pace, paces, left = BacklogPace(), [], []
    for second in range(400):
        applied = second // 20 * 20_000
        found = pace.observe(second, applied, 1_000_000 - applied)
        if second > 100:
            assert found.per_s is not None
            assert found.left_s is not None
            paces.append(found.per_s)
            left.append(found.left_s)
    assert paces == pytest.approx([1_000] * len(paces))
    assert [a - b for a, b in pairwise(left)] == pytest.approx([1] * (len(left) - 1))


def test_a_batch_that_is_late_lets_the_pace_fall_slowly():
    pace = BacklogPace()
    for second in range(0, 100, 20):
        pace.observe(second, second * 1_000, 500_000)
    paces = [pace.observe(80 + late, 80_000, 420_000).per_s or 0 for late in range(120)]
    assert paces[:21] == pytest.approx([1_000] * 21)
    assert all(0.97 < b / a <= 1 for a, b in pairwise(paces))
    assert paces[-1] > 300


def test_only_the_window_counts():
    pace = BacklogPace(window_s=60)
    for second in range(200):
        applied = second * 100 if second <= 100 else 10_000 + (second - 100) * 1_000
        found = pace.observe(second, applied, 500_000 - applied)
    assert found.per_s == pytest.approx(1_000, rel=0.02)


def test_a_batch_that_is_given_up_takes_nothing_back():
    pace = BacklogPace()
    pace.observe(0, 0, 1_000)
    assert pace.observe(5, 600, 400).done == 600
    assert pace.observe(6, 100, 900).done == 600


def test_a_new_backlog_begins_at_zero():
    pace = BacklogPace()
    pace.observe(0, 0, 100)
    pace.observe(5, 100, 0)
    assert pace.observe(50, 100, 0).done == 100 - 100
    found = pace.observe(900, 100, 40)
    assert (found.done, found.left, found.per_s) == (0, 40, None)
    assert pace.observe(910, 120, 20).per_s == 2


def test_what_waits_follows_log_and_tables_between_two_plans():
    waiting = WaitingChanges()
    assert waiting.left((0, 900), (0, 0)) == 900
    assert waiting.left((500, 400), (0, 0)) == 900  # a cut is in the log, and not yet in a plan
    waiting.planned((500, 400), (0, 500))
    assert waiting.left((500, 400), (0, 500)) == 900
    assert waiting.left((700, 200), (0, 500)) == 900
    assert waiting.left((700, 200), (500, 500)) == 400  # the batch is in the tables
    waiting.planned((900, 0), (500, 400))
    assert waiting.left((900, 0), (900, 400)) == 0


def test_what_an_earlier_sink_left_in_the_log_waits_too():
    waiting = WaitingChanges()
    waiting.planned((0, 0), (0, 70))
    assert (waiting.left((0, 0), (0, 70)), waiting.left((0, 0), (70, 70))) == (70, 0)


@pytest.mark.parametrize("backlog", [None, Backlog(10, 30, 2.0, 15.0), Backlog(0, 7)])
def test_the_status_carries_it_also_from_a_sink_that_does_not_know_it(backlog: Backlog | None):
    status = DaemonStatus("sink", "running", 0, 0, "shop", backlog=backlog)
    answer = json.loads(json.dumps(status.to_json()))
    assert DaemonStatus.from_json(answer) == status
    assert DaemonStatus.from_json({**answer, "backlog": None}).backlog is None
    del answer["backlog"]
    assert DaemonStatus.from_json(answer).backlog is None


def test_a_person_reads_how_far_it_is():
    status = DaemonStatus("sink", "running", 0, 0, "shop", backlog=Backlog(10, 30, 2.0, 15.0))
    assert "backlog: 10 of 40 changes, 2/s, about 15 s left" in status.to_text()
    assert "backlog" not in replace(status, backlog=Backlog(40, 0)).to_text()
