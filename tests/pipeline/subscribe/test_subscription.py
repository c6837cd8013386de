"""Subscribing as other people's programs do: order, places to begin, bookmarks, groups, errors."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from tailrace.reading.progress import last_record
from tailrace.subscribe import (
    UNAVAILABLE,
    Change,
    Closed,
    Feed,
    Options,
    RegistryError,
    SchemaChanged,
    SnapshotFinished,
    SnapshotStarted,
    Start,
    Transaction,
    errors,
    subscribe,
)
from tailrace.subscribe.bookmark import Bookmark, Place
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running
from tests.pipeline.subscribe.subscribers import changes, events, opened

pytestmark = pytest.mark.kafka


@dataclasses.dataclass
class Order:
    number: int = dataclasses.field(metadata={"column": "id"})
    note: str | None = None


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    """Two tables with rows before the snapshot, and commits of both after it."""
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note varchar(9), body varchar(max))",
        "CREATE TABLE dbo.lines (id int PRIMARY KEY, [of order] int)",
        "INSERT dbo.orders VALUES (1, 'first', 'long')",
        "INSERT dbo.lines VALUES (1, 1), (2, 1)",
    )
    source.enable("orders")
    source.enable("lines")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        for number in range(2, 8):
            source.transaction(
                f"INSERT dbo.orders VALUES ({number}, 'new', NULL)",
                f"INSERT dbo.lines VALUES ({10 * number}, {number}), ({10 * number + 1}, {number})",
                f"UPDATE dbo.orders SET note = 'paid' WHERE id = {number}",
            )
            if number % 3 == 0:
                publisher.until(pipe.is_caught_up, "some commits are out")
        with publisher.held():  # some servers do not log a large value that an update left alone
            source.execute("UPDATE dbo.orders SET note = 'kept' WHERE id = 1")
            source.scan()
            source.execute(
                "UPDATE cdc.dbo_orders_CT SET body = NULL WHERE [__$operation] > 2 AND id = 1"
            )
        source.execute("DELETE dbo.lines WHERE id = 1")
        publisher.until(pipe.is_caught_up, "the commits are out")
    return pipe


def source_order(pipe: Pipe) -> list[Any]:
    """Positions of all change rows of the source, merged."""
    instances = ("dbo_orders", "dbo_lines")
    return sorted(p for name in instances for p in pipe.source.positions(name))


@pytest.mark.slow("a publisher starts, and a dozen subscribers read the same topics")
def test_events_come_in_commit_order_from_each_place_to_begin(shop: Pipe):
    found = events(shop, Start.beginning())
    snapshot = [type(e).__name__ for e in found if not isinstance(e, Change)]
    assert snapshot.count("SnapshotStarted") == snapshot.count("SnapshotFinished") == 2
    rows = [change for change in changes(found) if change.is_read]
    live = [change for change in changes(found) if not change.is_read]
    assert sorted(row.table.table for row in rows) == ["lines", "lines", "orders"]
    assert [change.position for change in live] == source_order(shop)
    kept, gone = live[-2:]
    assert kept.key == {"id": 1}
    assert kept.after == {"id": 1, "note": "kept", "body": UNAVAILABLE}
    assert (gone.op, gone.row, gone.after) == ("d", {"id": 1, "of order": 1}, None)
    assert len({change.id for change in changes(found)}) == len(changes(found))

    # A snapshot's rows come between its beginning and its end.
    for table in ("orders", "lines"):
        mine = [e for e in found if e.table.table == table]
        started = next(i for i, e in enumerate(mine) if isinstance(e, SnapshotStarted))
        ended = next(i for i, e in enumerate(mine) if isinstance(e, SnapshotFinished))
        of_rows = [i for i, e in enumerate(mine) if isinstance(e, Change) and e.is_read]
        assert started < min(of_rows) <= max(of_rows) < ended
    assert changes(events(shop, Start.from_snapshot())) == changes(found)

    middle = live[len(live) // 2].commit_lsn
    after = [change for change in live if change.commit_lsn >= middle]
    assert changes(events(shop, Start.from_lsn(middle))) == after
    at = live[-1].commit_time
    later = changes(events(shop, Start.from_time(at)))
    assert later == live[-len(later) :]
    assert {change.commit_time >= at for change in later} == {True}
    assert events(shop, Start.now()) == []

    # Columns, tables, and rows of a type of one's own.
    typed = events(shop, Start.from_lsn(middle), ["DBO.orders"], rows={"dbo.orders": Order})
    assert [c.after for c in changes(typed)][-1] == Order(1, "kept")
    narrow = events(shop, Start.beginning(), ["dbo.lines"], columns={"dbo.lines": ["of order"]})
    assert changes(narrow)[-1].before == {"of order": 1}
    (schema,) = [e for e in narrow if isinstance(e, SchemaChanged)]
    assert [column.name for column in schema.after.columns] == ["id", "of order"]

    # Whole transactions, with little memory: partitions are paused.
    small = Options(follow=False, memory_bytes=1, closed=True)
    with opened(shop, Start.from_lsn(live[0].commit_lsn), options=small) as subscription:
        told = list(subscription.transactions())
    whole = [one for one in told if isinstance(one, Transaction)]
    assert [len(one.changes) for one in whole] == [4] * 6 + [1, 1]
    assert [c for one in whole for c in one.changes] == live
    assert isinstance(told[-1], Closed)
    assert told[-1].lsn >= live[-1].commit_lsn
    one_max = Options(follow=False, transaction_max=3)
    with opened(shop, Start.from_lsn(live[0].commit_lsn), options=one_max) as subscription:
        with pytest.raises(errors.TransactionTooLarge, match="transaction_max"):
            list(subscription.transactions())
        assert changes(list(subscription)) == live, "what was gathered is not lost"

    # A bookmark after any event continues with the next one.
    kept_so_far: list[Any] = []
    mark: str | None = None
    while True:
        with opened(shop, Start.beginning(), after=mark) as subscription:
            for number, event in enumerate(subscription):
                kept_so_far += [event] if isinstance(event, Change) else []
                mark = subscription.bookmark
                if number == 4:
                    break
            else:
                break
    assert kept_so_far == changes(found)

    async def read() -> list[Any]:
        with opened(shop, Start.beginning()) as subscription:
            return [event async for event in subscription]

    assert changes(asyncio.run(read())) == changes(found)


@pytest.mark.slow("a publisher starts")
def test_a_group_continues_at_the_closed_lsn_and_errors_say_the_fix(shop: Pipe):
    group = f"{shop.topics.prefix}-group"
    with opened(shop, Start.beginning(), group=group) as subscription:
        first = changes(list(subscription))
        subscription.commit()
    assert first
    with opened(shop, Start.beginning(), group=group) as subscription:
        assert list(subscription) == []
    with (
        opened(shop, Start.now()) as subscription,
        pytest.raises(errors.ArgumentRefused, match=r"Fix: pass group= to subscribe"),
    ):
        subscription.commit()

    with pytest.raises(errors.UnknownTable, match=r"dbo\.nothing is not published.*dbo\.lines"):
        opened(shop, Start.now(), ["dbo.nothing"])
    with pytest.raises(errors.UnknownColumn, match=r"dbo\.lines has no column what"):
        events(shop, Start.beginning(), columns={"dbo.lines": ["what"]})
    broken = dataclasses.make_dataclass("Order", [("number", int)])
    with pytest.raises(errors.RowTypeMismatch, match=r"Order\.number needs column number"):
        events(shop, Start.beginning(), rows={"dbo.lines": broken})
    with pytest.raises(errors.OptionRefused, match="aborted transactions"):
        Feed("localhost:1", "http://localhost:1", "p", {"isolation.level": "read_uncommitted"})
    with pytest.raises(errors.NothingPublished, match=r"no topic nobody\.progress"):
        subscribe(Feed(shop.topics.bootstrap, shop.topics.registry_url, "nobody"), [], Start.now())
    with pytest.raises(RegistryError, match="is not available"):
        subscribe(
            Feed(shop.topics.bootstrap, "http://localhost:1", shop.topics.prefix), [], Start.now()
        )
    with pytest.raises(errors.PlaceUnknown, match="of prefix other"):
        opened(
            shop,
            Start.now(),
            after=str(Bookmark("other", Place(0))),
        )
    # Retention: the oldest place is what is held, and what is not held is refused.
    first_change = next(change for change in first if not change.is_read)
    topic, partition = first_change.topic, first_change.partition
    admin = AdminClient({"bootstrap.servers": shop.topics.bootstrap})
    cut = TopicPartition(topic, partition, first_change.offset + 1)
    admin.delete_records([cut])[cut].result(30)
    with pytest.raises(errors.LsnNotRetained, match=rf"{topic} partition {partition} begins at"):
        events(shop, Start.from_lsn(first_change.commit_lsn))
    with pytest.raises(errors.SnapshotNotRetained, match="tailrace snapshot dbo"):
        opened(shop, Start.from_snapshot())
    later = changes(events(shop, Start.beginning()))
    assert 0 < len(later) < len(first)
    assert later == first[-len(later) :]

    record = last_record(shop.topics.bootstrap, shop.topics.names)
    assert record is not None
    with opened(shop, Start.now()) as subscription:
        assert list(subscription) == []
        assert str(subscription.closed.lsn) == record.closed_lsn
        other = subscription.bookmark.replace(record.closed_lsn, "00000001:00000001:0001")
    with pytest.raises(errors.PlaceUnknown, match="created again, or it is another cluster"):
        opened(shop, Start.now(), after=other)
