"""Subscribing to the topics of a test."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tailrace.reading import topics
from tailrace.subscribe import Change, Feed, Options, Start, SubscribeError, Subscription, subscribe
from tailrace.subscribe.events import Event
from tests.pipeline.conftest import Pipe

UNTIL_NOW = Options(follow=False)


def feed_of(pipe: Pipe) -> Feed:
    return Feed(pipe.topics.bootstrap, pipe.topics.registry_url, pipe.topics.prefix)


def opened(pipe: Pipe, start: Start, tables: Sequence[str] = (), **further: Any) -> Subscription:
    """A subscription that ends at what is published now."""
    further.setdefault("options", UNTIL_NOW)
    return subscribe(feed_of(pipe), tables, start, **further)


def events(pipe: Pipe, start: Start, tables: Sequence[str] = (), **further: Any) -> list[Event]:
    with opened(pipe, start, tables, **further) as subscription:
        return list(subscription)


def subscribed(pipe: Pipe, published: Iterable[topics.Event]) -> list[Event]:
    """All events as a subscriber gets them; each that is published comes once, in commit order."""
    found = events(pipe, Start.beginning())
    places = [(change.topic, change.partition, change.offset) for change in changes(found)]
    assert sorted(places) == sorted((e.topic, e.partition, e.offset) for e in published)
    positions = [change.position for change in changes(found) if not change.is_read]
    assert positions == sorted(set(positions))
    return found


@contextmanager
def following(pipe: Pipe) -> Iterator[list[Event]]:
    """What a subscriber has got so far; it tries again after errors that may pass."""
    got: list[Event] = []
    failures: list[Exception] = []
    subscription = subscribe(feed_of(pipe), [], Start.beginning())

    def follow() -> None:
        while not failures:
            try:
                got.extend(subscription)
            except SubscribeError as error:
                failures.extend([] if error.retryable else [error])
            else:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield got
    finally:
        subscription.close()
        thread.join(60)
    assert failures == []


def changes(found: Sequence[Event]) -> list[Change]:
    return [event for event in found if isinstance(event, Change)]
