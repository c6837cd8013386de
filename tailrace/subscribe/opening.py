"""Opening a subscription: the tables, the schema registry, and the place to begin at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tailrace.reading.moments import Moment
from tailrace.subscribe.bookmark import Bookmark, Place
from tailrace.subscribe.brokers import Brokers
from tailrace.subscribe.errors import ArgumentRefused
from tailrace.subscribe.feed import Feed
from tailrace.subscribe.fetching import TIMEOUT_S, progress_log, watermarks
from tailrace.subscribe.groups import Where
from tailrace.subscribe.options import Opened, Options
from tailrace.subscribe.rows import EventDecoder
from tailrace.subscribe.scans import begin_with_oldest, begin_with_snapshots
from tailrace.subscribe.start import Kind, Start, begin_at, resume
from tailrace.subscribe.subscription import Subscription
from tailrace_schemas.topics.topic_names import TableName, value_subject


def subscribe(
    feed: Feed,
    tables: Sequence[str],
    start: Start,
    *,
    after: str | None = None,
    group: str | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    rows: Mapping[str, type[Any]] | None = None,
    options: Options | None = None,
) -> Subscription:
    """Subscribe to the changes of tables.

    Args:
        tables: ``schema.table`` in any case; empty for all tables, those of later included.
        start: where to begin, if neither ``after`` nor the group says it.
        after: a bookmark of an earlier subscription to the same tables.
        group: name of a consumer group, for :meth:`Subscription.commit`.
        columns: per table, the columns to keep; all of a table that is not named.
        rows: per table, a dataclass for its rows; dicts for a table that is not named.

    Raises:
        SubscribeError: one of its kinds, which says what to do.
        RegistryUnavailable: the schema registry does not answer.
        TableNameError: a name is not ``schema.table``.
    """
    _check(tables, start, rows or {}, columns or {})
    if group == "":
        raise ArgumentRefused("group is empty. Fix: name it, or leave it out")
    chosen = options or Options()
    brokers = Brokers(feed)
    consumer = brokers.consumer(group, chosen.memory_bytes)
    registry = brokers.open_registry()
    try:
        topics = brokers.topics(consumer, TIMEOUT_S)
        registry.latest(value_subject(brokers.names.progress))  # whether it answers
        wanted = brokers.chosen(topics, tables)
        mark = _mark(brokers, consumer, after, group)
        since = Moment(lsn=start.moment.lsn)
        if mark is None:
            mark, since = _begin(brokers, consumer, start, wanted)
        consumer.unassign()
        table_of = _tables(brokers, wanted, is_open=not tables)
        decoder = EventDecoder(
            registry,
            table_of,
            {brokers.one(topics, name): list(names) for name, names in (columns or {}).items()},
            {brokers.one(topics, name): kind for name, kind in (rows or {}).items()},
        )
        own = None if registry is feed.registry else registry
        opened = Opened(brokers, consumer, decoder, mark, since, table_of, own, group is not None)
        return Subscription(opened, chosen)
    except BaseException:
        consumer.close()
        raise


def _check(
    tables: Sequence[str],
    start: Start,
    rows: Mapping[str, type[Any]],
    columns: Mapping[str, Sequence[str]],
) -> None:
    """Refuse arguments that no feed makes right, before anything connects."""
    if isinstance(tables, str):
        raise ArgumentRefused(f"tables is the text {tables!r}. Fix: pass a list, [{tables!r}]")
    if not isinstance(start, Start):
        raise ArgumentRefused(
            f"start is {start!r}. Fix: pass a Start, such as Start.from_snapshot()"
        )
    for table, kind in rows.items():
        if not is_dataclass(kind):
            raise ArgumentRefused(
                f"rows of table {table} are to be {kind!r}, which is no dataclass. Fix: decorate it"
                " with @dataclass, or leave the table out of rows for dicts"
            )
        if table in columns:
            raise ArgumentRefused(
                f"table {table} is in rows and in columns. Fix: name it in one of them; the fields"
                " of the dataclass are its columns"
            )
    for table, names in columns.items():
        if isinstance(names, str):
            raise ArgumentRefused(
                f"columns of table {table} is the text {names!r}. Fix: pass a list, [{names!r}]"
            )


def _tables(
    brokers: Brokers, wanted: Mapping[str, TableName], *, is_open: bool
) -> Callable[[str], TableName | None]:
    """The table of a topic, None if it is not wanted; with later topics, if it is open."""
    known: dict[str, TableName | None] = dict(wanted)
    names = brokers.names

    def table_of(topic: str) -> TableName | None:
        if topic not in known:
            known[topic] = names.table_of(topic) if is_open else None
        return known[topic]

    return table_of


def _mark(
    brokers: Brokers, consumer: Consumer, after: str | None, group: str | None
) -> Bookmark | None:
    """The place of a bookmark, or the one that the group has committed."""
    if after is not None:
        mark = Bookmark.parse(after, brokers.names.prefix)
    elif group is not None and (place := _committed(brokers, consumer)) is not None:
        mark = Bookmark(brokers.names.prefix, place)
    else:
        return None
    return replace(mark, place=resume(mark.place, progress_log(brokers, consumer)))


def _committed(brokers: Brokers, consumer: Consumer) -> Place | None:
    try:
        (at,) = consumer.committed([TopicPartition(brokers.names.progress, 0)], timeout=TIMEOUT_S)
    except KafkaException as error:
        raise brokers.failure(error) from error
    return Place(at.offset) if at.offset >= 0 else None


def _begin(
    brokers: Brokers, consumer: Consumer, start: Start, wanted: Mapping[str, TableName]
) -> tuple[Bookmark, Moment]:
    """The place of a start, and the moment before which events are left out."""
    log = progress_log(brokers, consumer)
    prefix = brokers.names.prefix

    @cache
    def low(where: Where) -> int:
        return watermarks(brokers, consumer, TopicPartition(*where))[0]

    if start.kind is Kind.SNAPSHOT:
        return begin_with_snapshots(prefix, log, wanted, low), Moment()
    if start.kind is Kind.BEGINNING:
        return begin_with_oldest(prefix, log, wanted, low), Moment()
    return Bookmark(prefix, begin_at(start, log)), start.moment
