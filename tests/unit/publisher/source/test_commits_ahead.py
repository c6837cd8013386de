"""Commits that are read ahead are those that would be read now, or they are read again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, cast

import pytest

from tailrace_publisher.errors import SourceBusy, SourceUnavailable
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import Commits, commits_from
from tailrace_publisher.source.log.queries import COMPLETE
from tailrace_publisher.source.pages.commits_ahead import CommitsAhead
from tailrace_schemas.position.lsn import Lsn

WITHIN_S = 20.0


def at(block: int) -> Lsn:
    return Lsn(1, block, 0)


class Book:
    """A server's ``cdc.lsn_time_mapping``."""

    def __init__(self, *blocks: int) -> None:
        self.blocks = [*blocks]
        self.asked: list[tuple[object, ...]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.failure: Exception | None = None
        self.is_cancelled = False
        self.is_asked = threading.Event()

    def query(self, sql: str, *parameters: Any) -> list[tuple[object, ...]]:
        if sql == COMPLETE:
            return [(at(self.blocks[-1]).to_bytes() if self.blocks else None,)]
        self.asked.append(parameters)
        self.is_asked.set()
        assert self.may_answer.wait(WITHIN_S)
        if self.is_cancelled:
            self.is_cancelled = False
            raise SourceBusy("Operation canceled", sqlstate="HY008")
        if self.failure is not None:
            raise self.failure
        limit, first = parameters[0], parameters[-1]
        offset = (0,) if "AT TIME ZONE" in sql else ()
        found = [at(block).to_bytes() for block in self.blocks]
        return [(lsn, None, None, *offset) for lsn in found if lsn >= first][:limit]

    def cancel(self) -> None:
        self.is_cancelled = not self.may_answer.is_set()
        self.may_answer.set()


class InBlocks:
    """Another connection, perhaps to another replica."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.queries = 0
        self.is_closed = False

    def commits(self, first: Lsn, limit: int, zone: str | None) -> Commits:
        assert zone is None
        self.queries += 1
        return commits_from(cast(Connection, self.book), first, limit)

    def cancel(self) -> None:
        self.book.cancel()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as one:
        yield one


def reader(book: Book, executor: Executor) -> CommitsAhead:
    return CommitsAhead(cast(Connection, book), executor)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(3, ([2, 3, 4], 3)), (2, ([2, 3], 2)), (5, ([2, 3, 4], 3))],
)
def test_as_many_as_were_asked_for_are_not_asked_for_again(
    executor: Executor, limit: int, expected: tuple[list[int], int]
):
    book = Book(1, 2, 3, 4)
    commits = reader(book, executor)
    with commits.reading(at(2), 3, None):
        pass
    book.blocks += [5, 6, 7]

    found, most = commits.take(at(2), limit, None)

    assert ([commit.commit_lsn.block for commit in found], most) == expected
    assert len(book.asked) == 1
    assert len(commits.take(at(2), 9, None)[0]) == 6, "it is given once"


def test_fewer_than_were_asked_for_are_asked_for_again(executor: Executor):
    book = Book(1, 2, 3)
    commits = reader(book, executor)
    with commits.reading(at(2), 3, None):
        pass
    book.blocks += [4, 5]

    found, most = commits.take(at(2), 3, None)

    assert ([commit.commit_lsn.block for commit in found], most) == ([2, 3, 4], 3)


@pytest.mark.parametrize(("first", "zone"), [(1, None), (3, None), (2, "UTC+1")])
def test_what_was_read_ahead_of_another_place_or_zone_is_of_no_use(
    executor: Executor, first: int, zone: str | None
):
    commits = reader(Book(1, 2, 3, 4, 5), executor)
    with commits.reading(at(2), 2, None):
        pass

    found, most = commits.take(at(first), 2, zone)

    assert ([commit.commit_lsn.block for commit in found], most) == ([first, first + 1], 2)
    assert found[0].offset_minutes == (None if zone is None else 0)


def test_a_failure_is_told_by_who_needs_the_answer(executor: Executor):
    book = Book(1, 2)
    commits = reader(book, executor)
    book.failure = SourceUnavailable("gone")
    with commits.reading(at(1), 2, None):
        pass
    with pytest.raises(SourceUnavailable, match="gone"):
        commits.take(at(1), 2, None)
    book.failure = None

    assert len(commits.take(at(1), 2, None)[0]) == 2


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_error_does_not_wait_for_what_nobody_takes(executor: Executor, in_blocks: bool):
    book = Book(1, 2)
    other = InBlocks(book) if in_blocks else None
    commits = CommitsAhead(cast(Connection, book), executor, lambda: cast(Any, other))
    book.may_answer.clear()
    with pytest.raises(ValueError, match="in the window"), commits.reading(at(1), 2, None):
        fails_in_the_window(book)

    assert book.may_answer.is_set()
    assert len(commits.take(at(1), 2, None)[0]) == 2
    assert len(book.asked) == 2, "of a window that failed nothing is kept"


def fails_in_the_window(book: Book) -> None:
    """Fail while the commits of the next one are being read."""
    assert book.is_asked.wait(WITHIN_S)
    raise ValueError("in the window")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((1, 2, 3, 4, 5, 6), ([2, 3, 4], 3)),
        ((1, 2, 3, 4), ([2, 3, 4], 3)),
        ((1, 2, 3), ([2, 3], 3)),
        ((1,), ([], 3)),
        ((), ([], 3)),
    ],
)
def test_of_what_another_connection_read_that_counts_which_the_plans_sees_too(
    executor: Executor, seen: tuple[int, ...], expected: tuple[list[int], int]
):
    """Of a later commit the probe would find no changes, and they would be passed over."""
    book, other = Book(*seen), InBlocks(Book(1, 2, 3, 4, 5))
    commits = CommitsAhead(cast(Connection, book), executor, lambda: cast(Any, other))
    with commits.reading(at(2), 3, None):
        pass

    found, most = commits.take(at(2), 3, None)

    assert ([commit.commit_lsn.block for commit in found], most) == expected
    assert book.asked == []
    assert commits.queries == 1
    assert commits.is_cut == (len(expected[0]) < 3), "what is left out may have been committed"
    assert len(commits.take(at(2), 9, None)[0]) == max(0, len(seen) - 1), "it is given once"
    assert not commits.is_cut


def test_a_connection_for_blocks_that_failed_is_made_anew(executor: Executor):
    book = Book(1, 2, 3)
    made: list[InBlocks] = []

    def connect() -> Any:
        made.append(InBlocks(Book(1, 2, 3)))
        return made[-1]

    commits = CommitsAhead(cast(Connection, book), executor, connect)
    with commits.reading(at(1), 2, None):
        pass
    assert len(commits.take(at(1), 2, None)[0]) == 2
    assert book.asked == []
    made[0].book.failure = SourceUnavailable("gone")
    with commits.reading(at(1), 2, None):
        pass
    assert len(commits.take(at(1), 2, None)[0]) == 2
    assert len(book.asked) == 1

    with commits.reading(at(1), 2, None):
        pass

    assert len(commits.take(at(1), 2, None)[0]) == 2
    assert len(book.asked) == 1
    assert commits.queries == 3
    commits.close()
    assert [other.is_closed for other in made] == [True, True]
    assert commits.queries == 3
