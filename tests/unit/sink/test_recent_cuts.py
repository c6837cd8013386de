"""What is kept of the newest cuts is what was appended, or nothing."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.log.recent_cuts import EVENTS, RecentCuts
from tailrace_sink.plan.topic_ranges import TopicRange

ALL = 1 << 20


def events(*rows: tuple[str, int, int]) -> pa.Table:
    values = [
        {"topic": t, "partition": p, "offset": o, "key": b"k", "value": f"{t}{p}{o}".encode()}
        for t, p, o in rows
    ]
    return pa.Table.from_pylist(values, schema=EVENTS)


def asked(topic: str, first: int, end: int, from_batch: int, to_batch: int) -> TopicRange:
    return TopicRange(
        topic, {0: (first, end)}, 0, frozenset(), from_batch=from_batch, to_batch=to_batch
    )


def offsets(recent: RecentCuts, found: TopicRange) -> list[int] | None:
    values = recent.values([found])
    return None if values is None else values[found.topic]["offset"].to_pylist()


def test_nothing_is_known_at_first():
    assert RecentCuts(ALL).values([asked("a", 0, 1, 1, 1)]) is None


def test_consecutive_cuts_are_one():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0), ("b", 0, 0)))
    recent.keep(5, 6, events(("a", 0, 1), ("a", 1, 0)))
    recent.keep(6, 7, events(("a", 0, 2)))
    assert offsets(recent, asked("a", 0, 3, 5, 7)) == [0, 1, 2]
    assert offsets(recent, asked("a", 0, 3, 5, 6)) == [0, 1]
    assert offsets(recent, asked("a", 1, 2, 5, 7)) == [1]
    assert offsets(recent, asked("c", 0, 3, 5, 7)) == []
    found = recent.values([asked("b", 0, 1, 5, 7)])
    assert found is not None
    event = {"partition": 0, "offset": 0, "key": b"k", "value": b"b00"}
    assert found["b"].to_pylist() == [event]


def test_what_came_before_is_in_the_log_only():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 1)))
    assert offsets(recent, asked("a", 0, 2, 4, 5)) is None
    assert offsets(recent, asked("a", 0, 2, 0, 5)) is None


def test_a_cut_that_was_not_kept_ends_what_is_known():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0)))
    recent.keep(5, 6, None)
    assert offsets(recent, asked("a", 0, 2, 6, 6)) is None
    recent.keep(6, 7, events(("a", 0, 2)))
    assert offsets(recent, asked("a", 0, 2, 5, 7)) is None
    assert offsets(recent, asked("a", 2, 3, 7, 7)) == [2]


def test_a_cut_that_was_committed_unknown_to_its_writer_ends_what_is_known():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0)))
    recent.keep(6, 7, events(("a", 0, 2)))  # 6 was found in the log
    assert offsets(recent, asked("a", 0, 3, 5, 7)) is None
    assert offsets(recent, asked("a", 0, 3, 7, 7)) == [2]


def test_a_start_has_the_number_of_the_cut_before_it():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0)))
    recent.keep(5, 5, None)
    assert offsets(recent, asked("a", 0, 2, 5, 5)) is None
    recent.keep(5, 6, events(("a", 0, 2)))
    assert offsets(recent, asked("a", 2, 3, 6, 6)) == [2]


def test_a_start_knows_nothing_of_what_came_before():
    recent = RecentCuts(ALL)
    recent.keep(0, 3, None)
    assert offsets(recent, asked("a", 0, 2, 3, 3)) is None
    recent.keep(3, 4, events(("a", 0, 2)))
    assert offsets(recent, asked("a", 0, 3, 3, 4)) is None
    assert offsets(recent, asked("a", 2, 3, 4, 4)) == [2]


def test_a_cut_that_the_log_has_and_memory_not_yet_is_read_from_the_log():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0), ("a", 0, 1)))
    assert offsets(recent, asked("a", 2, 4, 6, 6)) is None
    assert offsets(recent, asked("a", 0, 4, 5, 6)) is None
    recent.keep(5, 6, events(("a", 0, 2), ("a", 0, 3)))
    assert offsets(recent, asked("a", 0, 4, 5, 6)) == [0, 1, 2, 3]


def test_a_range_whose_last_cut_is_unknown_is_read_from_the_log():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0)))
    assert offsets(recent, asked("a", 0, 1, 5, 0)) is None


def test_what_the_tables_have_is_let_go():
    recent = RecentCuts(ALL)
    recent.keep(4, 5, events(("a", 0, 0)))
    recent.keep(5, 6, events(("a", 0, 1)))
    recent.forget(5)
    assert offsets(recent, asked("a", 0, 2, 5, 6)) is None
    assert offsets(recent, asked("a", 0, 2, 6, 6)) == [1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 400))
def test_what_is_given_is_whole_however_little_room_there_is(sizes: list[int], room: int):
    recent = RecentCuts(room)
    appended: list[tuple[int, int]] = []
    for batch, size in enumerate(sizes, start=1):
        rows = [(batch, len(appended) + n) for n in range(size)]
        appended += rows
        recent.keep(batch - 1, batch, events(*(("a", 0, offset) for _, offset in rows)))
    end = len(appended)
    for from_batch in range(1, len(sizes) + 1):
        found = offsets(recent, asked("a", 0, end, from_batch, len(sizes)))
        assert found in (None, [offset for batch, offset in appended if batch >= from_batch])
