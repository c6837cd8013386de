"""Removal of old data of an Iceberg table: each day, and once a week with a search for orphans."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.oldest_cut import DAY_MS
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.upkeep.old_data import OldData

PATH = "shop/dbo/orders"
OLDEST = 7_000_000_000
OPTIONS = {
    "prefix": "p",
    "kafka": {"bootstrap": "k:1"},
    "lake": "/lake",
    "registry": {"url": "http://r"},
}


class Tables:
    """A format that removes files itself, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool]] = []
        self.day = 0

    def expire(self, _: object, path: str, oldest: int, *, is_full: bool) -> bool:
        assert (path, oldest) == (PATH, OLDEST)
        self.asked.append((self.day, is_full))
        return True


def test_orphans_are_searched_once_a_week_also_by_sinks_that_start_each_day(
    monkeypatch: pytest.MonkeyPatch,
):
    stored: dict[str, str] = {}
    monkeypatch.setattr("tailrace_sink.log.oldest_cut.read_text", lambda *at: stored.get(at[-1]))
    monkeypatch.setattr(
        "tailrace_sink.log.oldest_cut.write_text", lambda *at: stored.update([at[-2:]])
    )
    monkeypatch.setattr("tailrace_sink.upkeep.old_data.has_delta_log", lambda _: True)
    monkeypatch.setattr("tailrace_sink.upkeep.old_data.table_metadata", lambda *_: None)
    spark = cast(Any, SimpleNamespace(newSession=lambda: None))
    commits = cast(Any, SimpleNamespace(state_of=lambda _: SinkState(versions={PATH: OLDEST})))
    tables = Tables()
    for tables.day in range(23):
        config, log = SinkConfig.load(OPTIONS), cast(Any, None)
        sink = OldData(spark, config, log, commits, cast(Any, tables))
        sink.open()
        while sink.tend([PATH], (100 + tables.day) * DAY_MS):
            pass
    assert [day for day, _ in tables.asked] == list(range(1, 23))
    assert [day for day, is_full in tables.asked if is_full] == [7, 14, 21]
