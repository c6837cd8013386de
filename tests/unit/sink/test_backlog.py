"""The backlog's pace: a rate over a window, the time that is left, and nothing that jumps."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tailrace_service.status import Backlog, DaemonStatus
from tailrace_sink.watch import backlog_watch
from tailrace_sink.watch.backlog import BacklogPace, Carried, RunningBatch, WaitingChanges
from tailrace_sink.watch.backlog_watch import BacklogWatch
from tailrace_sink.watch.metrics import SinkMetrics


def observe(pace: BacklogPace, now_s: float, applied: int, left: int) -> Backlog:
    return pace.observe(now_s, Carried(applied, applied * 50), left)


def test_a_steady_pace_says_when_it_is_over():
    pace = BacklogPace()
    for second in range(11):
        found = observe(pace, second, second * 1_000, 50_000 - second * 1_000)
    assert (found.done, found.left) == (10_000, 40_000)
    assert (found.per_s, found.left_s, found.bytes_per_s) == (1_000, 40, 50_000)


def test_without_bytes_of_the_ledger_there_is_no_pace_of_bytes():
    pace = BacklogPace()
    for second in range(11):
        found = pace.observe(second, Carried(second, 0), 50)
    assert (found.per_s, found.bytes_per_s) == (1, None)


def test_nothing_is_said_of_the_pace_before_something_came():
    pace = BacklogPace()
    assert (observe(pace, 0, 0, 500).per_s, observe(pace, 30, 0, 500).left_s) == (None, None)
    assert observe(pace, 31, 100, 400).per_s == pytest.approx(100 / 31)


def test_the_first_moment_is_too_short_for_a_pace():
    pace = BacklogPace()
    observe(pace, 0, 0, 500)
    assert observe(pace, 0.1, 90, 410).per_s is None


def test_batches_that_come_as_a_whole_make_no_pace_jump():
    """A batch of 20,000 each 20 s: the pace stays, and what is left counts down."""
    pace, paces, left = BacklogPace(), [], []
    for second in range(400):
        applied = second // 20 * 20_000
        found = observe(pace, second, applied, 1_000_000 - applied)
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
        observe(pace, second, second * 1_000, 500_000)
    paces = [observe(pace, 80 + late, 80_000, 420_000).per_s or 0 for late in range(120)]
    assert paces[:21] == pytest.approx([1_000] * 21)
    assert all(0.97 < b / a <= 1 for a, b in pairwise(paces))
    assert paces[-1] > 300


def test_only_the_window_counts():
    pace = BacklogPace(window_s=60)
    for second in range(200):
        applied = second * 100 if second <= 100 else 10_000 + (second - 100) * 1_000
        found = observe(pace, second, applied, 500_000 - applied)
    assert found.per_s == pytest.approx(1_000, rel=0.02)


def test_a_batch_that_is_given_up_takes_nothing_back():
    pace = BacklogPace()
    observe(pace, 0, 0, 1_000)
    assert observe(pace, 5, 600, 400).done == 600
    assert observe(pace, 6, 100, 900).done == 600


def test_a_new_backlog_begins_at_zero():
    pace = BacklogPace()
    observe(pace, 0, 0, 100)
    observe(pace, 5, 100, 0)
    assert observe(pace, 50, 100, 0).done == 100 - 100
    found = observe(pace, 900, 100, 40)
    assert (found.done, found.left, found.per_s) == (0, 40, None)
    assert observe(pace, 910, 120, 20).per_s == 2


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


def test_what_tasks_have_read_of_a_batch_counts_until_it_is_committed():
    read = [0]
    batch = RunningBatch(Carried(500, 9_000), Carried(100, 2_000), lambda: read[0])
    before = Carried(500, 9_000)
    assert batch.carried(before) == before
    read[0] = 30
    assert batch.carried(before) == Carried(530, 9_600)
    read[0] = 140  # Spark read some twice.
    assert batch.carried(before) == Carried(600, 11_000)
    assert batch.carried(Carried(600, 11_000)) == Carried(600, 11_000)
    assert RunningBatch(before, Carried(100, 2_000)).carried(before) == before


def test_the_watch_sets_the_gauges_and_logs_a_large_backlog_every_ten_seconds(monkeypatch):
    """A batch of 60,000 changes with 100 bytes each: tasks read 1,000 a second."""
    metrics, second = SinkMetrics(), 0

    class Tasks:
        def __init__(self, _spark: object) -> None:
            self.count = lambda: 1_000 * second

    monkeypatch.setattr(backlog_watch, "TaskRows", Tasks)
    watch = BacklogWatch(metrics, None, lambda: float(second))
    metrics.waiting.labels(stage="tables").set(100_000)
    metrics.batch = (60_000, 6_000_000)
    with capture_logs() as logs:
        watch.stepped("planned")
        for second in range(31):  # noqa: B007 - the clock
            watch.look()
    assert [
        (of["done"], of["left"], of["changes_per_s"], of["bytes_per_s"], of["left_s"])
        for of in logs
        if of["event"] == "backlog_progress"
    ] == [
        (0, 100_000, None, None, None),
        *((n * 1_000, 100_000 - n * 1_000, 1_000, 100_000, 100 - n) for n in (10, 20, 30)),
    ]
    assert metrics.value("tailrace_sink_backlog_changes") == 70_000
    assert metrics.value("tailrace_sink_backlog_changes_per_second") == 1_000
    assert metrics.value("tailrace_sink_backlog_bytes_per_second") == 100_000
    assert metrics.value("tailrace_sink_backlog_seconds") == 70
    metrics.committed(31.0)
    watch.look()
    assert (metrics.backlog.done, metrics.backlog.left) == (60_000, 40_000)


FAST = Backlog(10, 30, 2.0, 15.0, 1_234_567.0)


@pytest.mark.parametrize("backlog", [None, FAST, Backlog(0, 7)])
def test_the_status_carries_it_also_from_a_sink_that_does_not_know_it(backlog: Backlog | None):
    status = DaemonStatus("sink", "running", 0, 0, "shop", backlog=backlog)
    answer = json.loads(json.dumps(status.to_json()))
    assert DaemonStatus.from_json(answer) == status
    assert DaemonStatus.from_json({**answer, "backlog": None}).backlog is None
    del answer["backlog"]
    assert DaemonStatus.from_json(answer).backlog is None


def test_a_person_reads_how_far_it_is():
    status = DaemonStatus("sink", "running", 0, 0, "shop", backlog=FAST)
    assert "backlog: 10 of 40 changes, 2/s, 1.2 MB/s, about 15 s left" in status.to_text()
    assert "backlog" not in replace(status, backlog=Backlog(40, 0)).to_text()
