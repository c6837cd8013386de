"""Offset ranges in shares, one for each task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.columns.topic_messages import shares_of, whole_shares_of

RANGES = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=4
)


@given(RANGES, st.integers(1, 8))
def test_shares_have_every_offset_once(lengths: dict[int, tuple[int, int]], tasks: int):
    ranges = {partition: (first, first + count) for partition, (first, count) in lengths.items()}
    shares = shares_of("t", ranges, tasks)
    offsets = [
        (of.partition, o) for share in shares for of in share for o in range(of.first, of.end)
    ]
    every = [(p, o) for p, (first, end) in ranges.items() for o in range(first, end)]
    assert sorted(offsets) == sorted(every)
    assert all(len({of.partition for of in share}) == len(share) for share in shares)
    sizes = [sum(of.end - of.first for of in share) for share in shares]
    assert len(shares) <= tasks
    assert all(size == max(sizes) for size in sizes[:-1])


def test_one_large_partition_is_divided_among_all_tasks():
    shares = shares_of("t", {3: (10, 110)}, 4)
    assert [(of.first, of.end) for (of,) in shares] == [(10, 35), (35, 60), (60, 85), (85, 110)]


@given(RANGES, st.integers(1, 8))
def test_whole_shares_divide_no_partition(lengths: dict[int, tuple[int, int]], tasks: int):
    ranges = {partition: (first, first + count) for partition, (first, count) in lengths.items()}
    shares = whole_shares_of("t", {**ranges, 9: (7, 7)}, tasks)
    pieces = {of.partition: (of.first, of.end) for share in shares for of in share}
    assert pieces == ranges
    assert sum(map(len, shares)) == len(ranges)
    assert len(shares) == min(tasks, len(ranges))
    sizes = [sum(of.end - of.first for of in share) for share in shares]
    assert max(sizes) - min(sizes) <= max(end - first for first, end in ranges.values())
