"""Which cuts are kept, and what of a table's log they need. Pure."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.delta.old_files import CHECKSUMS_KEPT, SLACK_MS, Entry, entries_in, unneeded
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.retention import Retention
from tailrace_sink.plan.oldest_cut import OldestCut, Tended, oldest_kept
from tailrace_sink.upkeep.removal import Oldest, is_due, is_listing_due, removal, tended
from tests.least_options import LEAST_OF_SINK

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@given(
    st.lists(st.integers(0, 20 * DAY_MS), min_size=1, max_size=30),
    st.integers(1, 40),
    st.floats(0.1, 10.0),
)
def test_every_point_of_the_promised_days_has_its_cut(times: list[int], cuts: int, days: float):
    rows = [(batch, at) for batch, at in enumerate(sorted(times), start=1)]
    now = 20 * DAY_MS
    oldest = oldest_kept(rows, days, cuts, now)
    kept = [row for row in rows if row[0] >= oldest]
    assert 1 <= len(kept) <= cuts
    forgotten = [at for batch, at in rows if batch < oldest]
    start = now - days * DAY_MS
    if len(kept) < cuts and forgotten:
        assert kept[0][1] <= start + 1, "a point of the first promised moment has a base"
    if len(kept) > 1:
        assert kept[1][1] > start - 1, "no more is kept than one base"


@given(
    st.lists(st.integers(HOUR_MS, 9 * HOUR_MS), min_size=100, max_size=160),
    st.integers(20, 99),
    st.integers(1, 2),
    st.sampled_from([-1000, -30, -1, 1, 3, 30, 1000]),
)
def test_a_clock_that_is_wrong_for_less_than_a_day_forgets_nothing(
    pauses: list[int], begin: int, length: int, jump_days: int
):
    """Each pause is followed by a cut and a look; some of them meet a clock that has jumped."""
    kept, rows, real = OldestCut(), dict[int, tuple[int, int]](), 2000 * DAY_MS
    for batch, pause in enumerate(pauses, start=1):
        real += pause
        is_wrong = begin <= batch < begin + length
        now = real + jump_days * DAY_MS * is_wrong
        rows[batch] = real, now
        kept = kept.look(now) if kept.is_due(now) else kept
        seen = [(number, committed) for number, (_, committed) in rows.items()]
        oldest = oldest_kept(seen, 7.0, 20_000, kept.chosen_ms)
        rows = {number: times for number, times in rows.items() if number >= oldest}
        assert oldest == 1 or rows[oldest][0] <= real - 7 * DAY_MS, "a promised cut is gone"
    too_old = [at for at, _ in rows.values() if at <= real - 12 * DAY_MS]
    assert len(too_old) <= 1, "they go some days later at most"


def test_a_clock_that_had_jumped_puts_no_removal_off():
    now = 2000 * DAY_MS
    ahead = Tended(-1, now + 300 * DAY_MS, now + 300 * DAY_MS)
    assert (is_due(ahead, now), is_listing_due(ahead, now)) == (True, True)
    assert not is_due(replace(ahead, at_ms=now), now)
    assert not is_listing_due(replace(ahead, full_ms=now), now)


def test_without_cuts_nothing_is_kept_and_the_newest_stays():
    assert oldest_kept([], 7.0, 20_000, 0) == 0
    assert oldest_kept([(7, 0), (9, 1)], 1.0, 20_000, 100 * DAY_MS) == 9


def entry(version: int, kind: str) -> Entry:
    return Entry(f"{version:020}.{kind}", version, kind)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_log_is_trimmed_below_the_checkpoint_that_the_oldest_version_needs(parts: int):
    names = ["checkpoint.parquet"]
    if parts == 2:
        names = [f"checkpoint.{n:010}.{2:010}.parquet" for n in (1, 2)]
    entries = [entry(v, kind) for v in range(40) for kind in ("json", "crc")]
    entries += [entry(v, name) for v in (10, 20, 30) for name in names]
    random.Random(1).shuffle(entries)
    gone = unneeded(entries, 27, 99)
    assert {e.version for e in gone if e.kind != "crc"} == set(range(20))
    assert {e.version for e in gone if e.kind == "crc"} == set(range(40 - CHECKSUMS_KEPT))
    assert [e.version for e in gone] == sorted(e.version for e in gone)
    # A checkpoint of which a part is missing is none.
    lacking = [e for e in entries if e.name != f"{20:020}.{names[0]}"]
    assert {e.version for e in unneeded(lacking, 27, 99) if e.kind == "json"} == set(range(10))
    assert not [e for e in unneeded(entries, 9, 99) if e.kind == "json"]


def test_large_checkpoints_are_thinned_out_and_stay_so():
    """Each day some versions come, and the oldest one that is read moves on by as many."""
    entries: list[Entry] = []
    before: set[int] = set()
    for newest in range(40_000, 80_000, 4_000):
        versions = range(0 if not entries else newest - 4_000, newest)
        entries += [entry(v, "json") for v in versions]
        entries += [entry(v, "checkpoint.parquet") for v in versions if v % 100 == 0]
        oldest = newest - 39_950
        gone = set(unneeded(entries, oldest, 40))
        entries = [of for of in entries if of not in gone]
        checkpoints = {of.version for of in entries if of.kind != "json"}
        assert 20 <= len(checkpoints) <= 40
        assert min(checkpoints) <= oldest, "the oldest version is read from it"
        assert max(checkpoints) == newest - 100
        commits = {of.version for of in entries if of.kind == "json"}
        assert commits == set(range(min(checkpoints), newest)), "no version is lost"
        kept = {v for v in before if v >= min(checkpoints) and v < newest - 4_300}
        assert kept <= checkpoints, "what was left is not thinned out again"
        before = checkpoints
    assert not unneeded(entries, min(before), 40)


def test_entries_are_read_from_the_paths_of_a_log():
    names = ["00000000000000000011.json", "00000000000000000002.checkpoint.parquet"]
    names += ["00000000000000000002.crc", f"{3:020}.checkpoint.{1:010}.{2:010}.parquet"]
    others = ["_last_checkpoint", ".00000000000000000011.json.crc", "00000000000000000012.json.tmp"]
    paths = [f"s3a://lake/a b/_delta_log/{name}" for name in names + others]
    found = entries_in("\n".join(paths))
    assert sorted(entry.name for entry in found) == sorted(names)
    assert [entry.version for entry in found] == [2, 2, 3, 11]
    assert found[-1] == Entry(names[0], 11, "json")


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_folder_is_listed_once_a_week_or_as_soon_as_tombstones_allow_it(is_quiet: bool):
    """A table is tended each day for five weeks; days 10 to 17 its tombstones do not reach back."""
    state, listed = Tended(-1, 0, 0), []
    for day in range(1, 36):
        now = day * DAY_MS
        assert is_due(state, now)
        assert not is_due(replace(state, at_ms=now), now + DAY_MS - 1)
        since = 9 * DAY_MS if 10 <= day <= 17 else now - DAY_MS
        oldest = Oldest(3, since - 5, None if is_quiet else since)
        found = removal(state, now, now, oldest, "interval 25 hours")
        assert found.horizon_ms == (now if is_quiet else since - 5) - SLACK_MS
        assert found.may_list == (is_quiet or not 11 <= day <= 17)
        has_listed = found.is_full and found.may_list
        listed += [day] * has_listed
        state = tended(state, now, has_listed=has_listed, through=-1, trim_to=-1)
    assert listed == ([7, 14, 21, 28, 35] if is_quiet else [7, 18, 25, 32])


def test_tombstones_in_another_form_are_none():
    oldest = Oldest(3, 5, 9)
    assert not removal(Tended(-1, 0, 0), 10, 10, oldest, "3 fortnights").may_list
    assert removal(Tended(-1, 0, 0), 10, 10, oldest, "INTERVAL 2 weeks").may_list


def test_the_file_keeps_what_is_in_it():
    oldest = OldestCut(7, "lsn", None, 9, True, 11, 7.0, 20, {"shop/dbo/t": Tended(3, 4, 5, 6)})
    assert OldestCut.of_json(oldest.to_json()) == oldest


def test_the_option_of_earlier_releases_is_accepted():
    assert SinkConfig.load(LEAST_OF_SINK).retention == Retention(days=7)
    assert SinkConfig.load({**LEAST_OF_SINK, "commit_retention_days": 3}).retention.days == 3
    both = {**LEAST_OF_SINK, "commit_retention_days": 3, "retention": {"days": 4}}
    with pytest.raises(ConfigError, match=r"commit_retention_days is now retention\.days"):
        SinkConfig.load(both)
