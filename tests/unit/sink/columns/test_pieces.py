"""Pieces of offset ranges, one for each task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.columns.topic_messages import pieces_of

RANGES = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=4
)


@given(RANGES, st.integers(1, 8))
def test_pieces_have_every_offset_once(lengths: dict[int, tuple[int, int]], tasks: int):
    ranges = {partition: (first, first + count) for partition, (first, count) in lengths.items()}
    pieces = pieces_of("t", ranges, tasks)
    offsets = [(of.partition, o) for of in pieces for o in range(of.first, of.end)]
    every = [(p, o) for p, (first, end) in ranges.items() for o in range(first, end)]
    assert sorted(offsets) == sorted(every)
    assert all(of.end > of.first for of in pieces)
    assert len(pieces) <= tasks + len(ranges) - 1


def test_one_large_partition_is_divided_among_all_tasks():
    pieces = pieces_of("t", {3: (10, 110)}, 4)
    assert [(of.first, of.end) for of in pieces] == [(10, 35), (35, 60), (60, 85), (85, 110)]
