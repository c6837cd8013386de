"""Which cuts are kept, and what of a table's log they need. Pure."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.delta.old_files import CHECKSUMS_KEPT, Entry, unneeded
from tailrace_sink.errors import ConfigError
from tailrace_sink.log.oldest_cut import OldestCut, Tended, oldest_kept
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.retention import Retention

DAY_MS = 86_400_000


@given(
    st.lists(st.integers(0, 20 * DAY_MS), min_size=1, max_size=30),
    st.integers(1, 40),
    st.floats(0.1, 10.0),
)
def test_every_point_of_the_promised_days_has_its_cut(times: list[int], cuts: int, days: float):
    rows = [(batch, at) for batch, at in enumerate(sorted(times), start=1)]
    now = 20 * DAY_MS
    oldest = oldest_kept(rows, Retention(days=days, cuts=cuts), now)
    kept = [row for row in rows if row[0] >= oldest]
    assert 1 <= len(kept) <= cuts
    forgotten = [at for batch, at in rows if batch < oldest]
    start = now - days * DAY_MS
    if len(kept) < cuts and forgotten:
        assert kept[0][1] <= start + 1, "a point of the first promised moment has a base"
    if len(kept) > 1:
        assert kept[1][1] > start - 1, "no more is kept than one base"


def test_without_cuts_nothing_is_kept_and_the_newest_stays():
    assert oldest_kept([], Retention(), 0) == 0
    assert oldest_kept([(7, 0), (9, 1)], Retention(days=1), 100 * DAY_MS) == 9


def entry(version: int, kind: str) -> Entry:
    return Entry(f"{version:020}.{kind}", version, kind, version * 1000)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_log_is_trimmed_below_the_checkpoint_that_the_oldest_version_needs(parts: int):
    names = ["checkpoint.parquet"]
    if parts == 2:
        names = [f"checkpoint.{n:010}.{2:010}.parquet" for n in (1, 2)]
    entries = [entry(v, kind) for v in range(40) for kind in ("json", "crc")]
    entries += [entry(v, name) for v in (10, 20, 30) for name in names]
    random.Random(1).shuffle(entries)
    gone = unneeded(entries, 27)
    assert {e.version for e in gone if e.kind != "crc"} == set(range(20))
    assert {e.version for e in gone if e.kind == "crc"} == set(range(40 - CHECKSUMS_KEPT))
    assert [e.version for e in gone] == sorted(e.version for e in gone)
    # A checkpoint of which a part is missing is none.
    lacking = [e for e in entries if e.name != f"{20:020}.{names[0]}"]
    assert {e.version for e in unneeded(lacking, 27) if e.kind == "json"} == set(range(10))
    assert not [e for e in unneeded(entries, 9) if e.kind == "json"]


def test_the_file_keeps_what_is_in_it():
    oldest = OldestCut(7, "lsn", None, 9, True, 7.0, 20, {"shop/dbo/t": Tended(3, 4, 5)})
    assert OldestCut.of_json(oldest.to_json()) == oldest


def test_the_option_of_earlier_releases_is_accepted():
    options = {"prefix": "p", "kafka": {"bootstrap": "k:1"}, "lake": "/lake"}
    options |= {"registry": {"url": "http://r"}}
    assert SinkConfig.load(options).retention == Retention(days=7, cuts=20_000)
    assert SinkConfig.load({**options, "commit_retention_days": 3}).retention.days == 3
    both = {**options, "commit_retention_days": 3, "retention": {"days": 4}}
    with pytest.raises(ConfigError, match=r"commit_retention_days is now retention\.days"):
        SinkConfig.load(both)
