"""What the stream told while chunks wait: each chunk asks for its own time, within bounds."""

from tailrace_publisher.snapshot.changed_rows import ChangedRows


def ids(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_a_row_counts_for_the_chunks_that_began_before_it_was_told():
    changed = ChangedRows(1_000_000)
    first = changed.mark()
    changed.add(ids(1, 2))
    second = changed.mark()
    changed.add(ids(2, 3))
    third = changed.mark()

    assert changed.unchanged(ids(1, 2, 3, 4), first) == [3]
    assert changed.unchanged(ids(1, 2, 3, 4), second) == [0, 3]
    assert changed.unchanged(ids(1, 2, 3, 4), third) == [0, 1, 2, 3]
    assert changed.unchanged(ids(4, 5), first) is None


def test_what_no_chunk_asks_for_is_forgotten():
    changed = ChangedRows(1000)
    changed.mark()
    changed.add(ids(*range(5)))
    second = changed.mark()
    changed.forget_before(second)
    changed.add(ids(7))

    assert changed.unchanged(ids(0, 7), second) == [0]
    assert changed.unchanged(ids(0), 0) is None
    assert changed.is_complete


def test_more_than_may_be_kept_is_told_and_not_kept():
    changed = ChangedRows(10_000)
    changed.mark()
    changed.add(ids(*range(20)))
    assert changed.is_complete
    for _ in range(1000):
        changed.add(ids(*range(20)))  # the same again
    assert changed.is_complete
    changed.add(ids(*range(1000)))
    assert not changed.is_complete
    changed.add(ids(5))
    assert not changed.is_complete

    changed.clear()
    assert changed.is_complete


def test_rows_that_cannot_be_told_apart_make_it_incomplete():
    changed = ChangedRows(10_000)
    changed.mark()
    changed.add([])
    assert changed.is_complete
    changed.add(None)
    assert not changed.is_complete
