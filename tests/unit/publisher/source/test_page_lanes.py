"""Lanes: pages of several instances on their way at once, connections when they are needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from tailrace_publisher.errors import SourceUnavailable
from tailrace_publisher.source.pages.page_lanes import PageLane, PageLanes, Places
from tailrace_publisher.source.pages.pages import ChangePages

WITHIN_S = 20.0


class Pages:
    """Pages that were read before: their reading is what is under test."""

    def __init__(self, found: list[Any], when_read: Callable[[], object] = lambda: None) -> None:
        self._found = [*found, None]
        self._when_read = when_read

    def fetch(self) -> Any:
        self._when_read()
        found = self._found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_the_caller_gets_turns_while_a_page_is_awaited() -> None:
    goes_on, turns = threading.Event(), 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        goes_on.set()

    one = lane([])
    try:
        pages = as_pages(Pages([1, 2], lambda: goes_on.wait(WITHIN_S)))
        assert list(one.read_ahead(lambda: pages, Places(2), turn)) == [1, 2]
        assert turns
    finally:
        one.close()


class Connected:
    """Counts what is opened and closed."""

    def __init__(self) -> None:
        self.queries = 3
        self.is_closed = False
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = not self.is_closed

    def close(self) -> None:
        self.is_closed = True


def lane(opened: list[Connected]) -> PageLane:
    def connect() -> Any:
        opened.append(Connected())
        return opened[-1]

    return PageLane(ThreadPoolExecutor(1), connect, connect)


def as_pages(pages: Pages) -> ChangePages:
    return cast(ChangePages, pages)


def test_the_first_pages_of_all_lanes_are_read_before_any_is_asked_for() -> None:
    together = threading.Barrier(2)

    def first() -> ChangePages:
        together.wait(WITHIN_S)
        return as_pages(Pages([1, 2]))

    lanes = PageLanes([lane([]), lane([])])
    try:
        coming = [lanes.lane(number).read_ahead(first, Places(4)) for number in range(2)]
        assert [list(pages) for pages in coming] == [[1, 2], [1, 2]]
    finally:
        lanes.lane(0).close()
        lanes.lane(1).close()


def test_an_error_is_raised_where_its_page_is_asked_for() -> None:
    one = lane([])
    try:
        pages = one.read_ahead(lambda: as_pages(Pages([1, SourceUnavailable("gone")])), Places(2))
        assert next(pages) == 1
        with pytest.raises(SourceUnavailable, match="gone"):
            next(pages)
    finally:
        one.close()


def test_connections_are_opened_when_needed_and_closed_behind_the_thread() -> None:
    opened: list[Connected] = []
    one = lane(opened)
    assert one.queries == 0
    one.connection()
    one.blocks()
    assert one.connection() is opened[0]
    assert one.blocks() is opened[1]
    assert (len(opened), one.queries) == (2, 6)
    one.close()
    assert all(connected.is_cancelled and connected.is_closed for connected in opened)


class Recorded(ThreadPoolExecutor):
    """One thread, and what it was given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(super().submit(fn, *args, **kwargs))
        return self.futures[-1]


def test_what_waits_when_a_lane_closes_is_not_read() -> None:
    goes_on, read = threading.Event(), []
    executor = Recorded()
    one = PageLane(executor, lambda: cast(Any, Connected()), lambda: None)
    one.read_ahead(lambda: as_pages(Pages([1], lambda: goes_on.wait(WITHIN_S))), Places(2))
    one.read_ahead(lambda: as_pages(Pages([2], lambda: read.append(2))), Places(2))
    closing = threading.Thread(target=one.close)
    closing.start()
    deadline = time.monotonic() + WITHIN_S
    while not executor.futures[1].cancelled():
        assert time.monotonic() < deadline
        closing.join(0.01)
    goes_on.set()
    closing.join(WITHIN_S)
    assert not closing.is_alive()
    assert read == []


def test_no_more_pages_are_read_ahead_than_have_a_place() -> None:
    executor = Recorded()
    one = PageLane(executor, lambda: cast(Any, Connected()), lambda: None)
    places = Places(3)
    try:
        coming = [
            one.read_ahead(lambda: as_pages(Pages(["first", "second"])), places) for _ in range(2)
        ]
        assert [next(pages) for pages in coming] == ["first", "first"]
        assert len(executor.futures) == 3  # the first pages, and the second one of the first
        assert [next(pages) for pages in coming] == ["second", "second"]
        assert [list(pages) for pages in coming] == [[], []]
        assert [places.take_if_free() for _ in range(4)] == [True, True, True, False]
    finally:
        one.close()
