from io import StringIO

import pytest
from rich.console import Console

from tailrace.cli.progress_bar import progress_bar
from tailrace.lag.freshness import Freshness
from tailrace.lag.report import picture
from tailrace.reading.stopped_tables import PublisherNotes
from tailrace_service.status import Backlog
from tailrace_sink.watch.metrics import SinkMetrics


def drawn(*backlogs: Backlog, once: bool) -> str:
    metrics, out = SinkMetrics(), StringIO()
    with progress_bar(metrics, Console(file=out, force_terminal=True, width=120), once=once):
        for backlog in backlogs:
            metrics.backlogged(backlog)
    return out.getvalue()


def test_the_bar_is_one_over_the_backlog_with_pace_and_time_left():
    out = drawn(Backlog(1_234_567, 8_765_433, 40_000.4, 219.1, 8_400_000), once=True)
    assert "1,234,567 of 10,000,000 changes, 40,000/s, 8.4 MB/s, about 4 min left" in out
    assert "Into the lake's tables" in out


def test_what_was_carried_once_stays():
    assert "12 of 12 changes" in drawn(Backlog(0, 12), Backlog(12, 0), once=True)


@pytest.mark.parametrize(
    ("backlog", "is_shown"),
    [(Backlog(0, 300), False), (Backlog(9_000, 50_000), True), (Backlog(59_000, 0), False)],
)
def test_a_running_sink_shows_a_backlog_that_is_worth_it(backlog: Backlog, is_shown: bool):
    assert ("Into the lake's tables" in drawn(backlog, once=False)) == is_shown


@pytest.mark.parametrize("backlog", [None, Backlog(7, 0), Backlog(10, 30, 2.0, 15.0)])
def test_the_lag_of_a_pipeline_has_the_same_bar(backlog: Backlog | None):
    out = StringIO()
    found = picture(Freshness(0, None, {}, ()), PublisherNotes(), backlog, worst_first=False)
    Console(file=out, width=120).print(found)
    is_shown = backlog is not None and backlog.left > 0
    told = "Into the lake's tables: 10 of 40 changes, 2/s, about 15 s left"
    assert (told in out.getvalue()) == is_shown
