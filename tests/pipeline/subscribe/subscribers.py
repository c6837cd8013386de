"""Subscribing to the topics of a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tailrace.reading import topics
from tailrace.subscribe import Change, Feed, Options, Start, Subscription, subscribe
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


def changes(found: Sequence[Event]) -> list[Change]:
    return [event for event in found if isinstance(event, Change)]
