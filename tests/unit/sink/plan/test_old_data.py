"""Removal of old data of an Iceberg table: each day, and once a week with a search for orphans."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.oldest_cut import DAY_MS
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.upkeep.old_data import OldData
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.traces import SinkTraces
from tests.least_options import LEAST_OF_SINK

PATH = "shop/dbo/orders"
OLDEST = 7_000_000_000


class Tables:
    """A format that removes files itself, and what it was asked for."""

    versions_slow_writes = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool]] = []
        self.day = 0
        self.oldest = OLDEST
        self.fails = False

    def expire(self, _: object, path: str, oldest: int, *, is_full: bool) -> bool:
        assert (path, oldest) == (PATH, self.oldest)
        self.asked.append((self.day, is_full))
        if self.fails:
            raise Py4JError("the store does not answer")
        return True


def test_orphans_are_searched_once_a_week_also_by_sinks_that_start_each_day(
    monkeypatch: pytest.MonkeyPatch,
):
    tables = Tables()
    old_data = sinks_of(tables, monkeypatch)
    for tables.day in range(23):
        sink = old_data()
        sink.open()
        while sink.tend([PATH], (100 + tables.day) * DAY_MS):
            pass
    assert [day for day, _ in tables.asked] == list(range(23))
    assert [day for day, is_full in tables.asked if is_full] == [7, 14, 21]


@pytest.mark.parametrize("fails", [False, True])
def test_snapshots_of_no_kept_cut_go_at_once_as_they_slow_writes(
    fails: bool, monkeypatch: pytest.MonkeyPatch
):
    tables = Tables()
    sink = sinks_of(tables, monkeypatch)()
    tables.fails = fails
    for turn in range(3):
        tables.oldest = OLDEST + turn
        sink.open()  # the oldest kept cut has moved
        while sink.tend([PATH], 100 * DAY_MS):
            pass
    assert len(tables.asked) == 3


def sinks_of(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> Callable[[], OldData]:
    """Sinks that start one after the other, in a lake whose files are in memory."""
    stored: dict[str, str] = {}
    monkeypatch.setattr("tailrace_sink.log.oldest_cut.read_text", lambda *at: stored.get(at[-1]))
    monkeypatch.setattr(
        "tailrace_sink.log.oldest_cut.write_text", lambda *at: stored.update([at[-2:]])
    )
    monkeypatch.setattr("tailrace_sink.upkeep.old_data.has_delta_log", lambda _: True)
    monkeypatch.setattr("tailrace_sink.upkeep.old_data.table_metadata", lambda *_: None)
    monkeypatch.setattr("tailrace_sink.upkeep.old_data.own_session", lambda spark: spark)
    spark = cast(Any, None)
    commits = cast(
        Any, SimpleNamespace(state_of=lambda _: SinkState(versions={PATH: tables.oldest}))
    )
    config, none = SinkConfig.load(LEAST_OF_SINK), cast(Any, None)
    metrics, traces = SinkMetrics(), SinkTraces(config)
    parts = SinkParts(spark, config, cast(Any, tables), none, none, metrics, traces)
    return lambda: OldData(spark, parts, commits)
