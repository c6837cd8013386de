"""Ranges of the log are split at cuts: no gap, nothing twice, no cut torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.offset import LogOffset, split
from tailrace_sink.errors import ConfigError
from tailrace_sink.reading.cut_id import CutId

CUTS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=20)


@given(CUTS, st.integers(1, 20), st.sampled_from([None, CutId("00", 0)]))
def test_parts_follow_each_other_and_end_at_cuts(
    cuts: list[tuple[int, int]], events_max: int, first: CutId | None
):
    """Several cuts may close one LSN."""
    named = [
        (CutId(f"{lsn:02}", batch), events)
        for batch, (lsn, events) in enumerate(sorted(cuts), start=1)
    ]
    end = named[-1][0] if named else CutId("61", 1)
    parts = list(split(first, end, named, events_max))
    assert [parts[0][0], parts[-1][1]] == [first, end]
    assert [after for after, _ in parts[1:]] == [up_to for _, up_to in parts[:-1]]
    assert {up_to for _, up_to in parts[:-1]} <= {cut for cut, _ in named}
    for after, up_to in parts:
        order = ("", -1) if after is None else after.order
        own = [events for cut, events in named if events and order < cut.order <= up_to.order]
        assert order < up_to.order
        assert sum(own) <= events_max or len(own) == 1


@pytest.mark.parametrize(
    "offset",
    [
        LogOffset("id", "", began="00000001:00000001:0001"),
        LogOffset("id", "1", 7),
        LogOffset("id", "2", 7, began="1", since=""),
        LogOffset("id", "2", since="1"),
        LogOffset("id", "", began=""),
        LogOffset("id", "2", 7, began="1@3", since="1@4", batch=9),
    ],
)
def test_an_offset_is_read_as_it_was_stored(offset: LogOffset):
    assert LogOffset.of_json(offset.to_json()) == offset


def test_a_checkpoint_of_another_source_is_refused():
    with pytest.raises(ConfigError, match=r"of another source .*Fix: start the query with"):
        LogOffset.of_json({"shop.dbo.orders": {"0": 7}})
