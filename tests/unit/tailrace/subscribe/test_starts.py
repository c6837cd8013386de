"""Places to begin, bookmarks and options of subscriptions: what needs no broker."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest

from tailrace.reading.moments import MomentError
from tailrace.subscribe import Feed, Start, errors, opening, subscribe
from tailrace.subscribe.bookmark import Bookmark, Place
from tailrace.subscribe.brokers import Brokers
from tailrace.subscribe.events import UNAVAILABLE
from tailrace.subscribe.fetching import progress_of
from tailrace.subscribe.scans import begin_with_oldest, begin_with_snapshots
from tailrace.subscribe.start import ProgressLog, Record, begin_at, resume
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, PartitionProgress, Progress
from tailrace_schemas.topics.topic_names import TableName


@dataclass
class Row:
    id: int


ORDERS = {"p.d.dbo.orders": TableName("d", "dbo", "orders")}


def lsn(number: int) -> str:
    return str(Lsn(1, number, 1))


def record(after: int, closed: int | None, *, named: tuple[str, ...] = (), first: int = -1):
    """A progress record; of a group that goes on if ``closed`` is None."""
    parts = [PartitionProgress(next(iter(ORDERS)), 0, first, first + 1, 1, 0)]
    through = after if closed is None else closed
    commit_ms = None if closed is None else 1000 * closed
    return Progress(
        0, "s", "d", lsn(after), lsn(through), commit_ms, closed is not None, 0,
        [] if first < 0 else parts, list(named),
    )  # fmt: skip


def log_of(records: list[Record], low: int = 0) -> ProgressLog:
    held = [found for found in records if found[0] >= low]

    def read(offset: int) -> Iterator[Record]:
        return (found for found in held if found[0] >= offset)

    return ProgressLog(low, records[-1][0] + 2 if records else low, read)


def random_log(seed: int) -> list[Record]:
    draw = random.Random(seed)
    records: list[Record] = []
    after = offset = 0
    for _ in range(draw.randint(1, 30)):
        for _ in range(draw.choice((0, 0, 1, 12))):
            records.append((offset, record(after, None)))
            offset += draw.randint(1, 3)
        closed = after + draw.choice((0, 1, 1, 3))
        records.append((offset, record(after, closed)))
        after, offset = closed, offset + draw.randint(1, 3)
    return records


@pytest.mark.parametrize("seed", range(60))
def test_a_moment_begins_with_the_first_group_that_reaches_it(seed: int):
    records = random_log(seed)
    log = log_of(records)
    closing = [(at, found) for at, found in records if found.closed]
    for number in range(max(int(found.closed_lsn[9:17], 16) for _, found in closing) + 2):
        time = datetime.fromtimestamp(number, UTC)
        for start in (Start.from_lsn(lsn(number)), Start.from_time(time)):
            place = begin_at(start, log)
            before = [(at, found) for at, found in closing if found.closed_lsn < lsn(number)]
            wanted = (before[-1][0] + 1, before[-1][1].closed_lsn) if before else (0, None)
            assert (place.offset, place.lsn) == wanted
    assert begin_at(Start.now(), log).offset == closing[-1][0] + 1


def test_what_retention_removed_is_refused_or_left_out():
    records = [(0, record(0, 1)), (2, record(1, None)), (4, record(1, 5)), (6, record(5, 6))]
    cut = log_of(records, low=4)  # the first record of the group to 5 is gone
    with pytest.raises(errors.LsnNotRetained, match=f"the oldest is after LSN {lsn(5)}"):
        begin_at(Start.from_lsn(lsn(3)), cut)
    assert begin_at(Start.from_lsn(lsn(6)), cut) == Place(5, lsn(5))
    mark = begin_with_oldest("p", cut, ORDERS, lambda _: 0)
    assert mark.place == Place(5, lsn(5))
    with pytest.raises(errors.LsnNotRetained, match="at offset 3, the progress topic begins at 4"):
        resume(Place(3, lsn(1)), cut)
    with pytest.raises(errors.PlaceUnknown, match="another cluster"):
        resume(Place(5, lsn(4)), cut)
    assert resume(Place(5), cut) == Place(5, lsn(5)), "a group says the offset alone"


def test_the_newest_snapshot_that_is_held_is_the_state_to_begin_with():
    (topic,) = ORDERS
    records = [
        (0, record(0, 1, named=(topic,), first=0)),
        (2, record(1, 2, first=5)),
        (4, record(2, 3, named=(topic,), first=7)),
        (6, record(3, 4, first=9)),
    ]
    mark = begin_with_snapshots("p", log_of(records), ORDERS, lambda _: 0)
    assert (mark.place, mark.skips) == (Place(3, lsn(2)), {topic: 4})
    again = Bookmark.parse(str(mark), "p")
    assert again == mark
    assert (again.skipped(3), again.skipped(4)) == ({topic}, set())
    with pytest.raises(errors.SnapshotNotRetained, match=r"tailrace snapshot dbo\.orders"):
        begin_with_snapshots("p", log_of(records), ORDERS, lambda _: 8)
    restored = [*records, (8, record(1, 2, first=11))]  # the source went back
    with pytest.raises(errors.SnapshotNotRetained):
        begin_with_snapshots("p", log_of(restored), ORDERS, lambda _: 0)
    oldest = begin_with_oldest("p", log_of(restored), ORDERS, lambda _: 0)
    assert oldest.place.offset == 8


BOOKMARK = (
    '{"form":1,"prefix":"p","shards":{"0":[7,"00000001:00000009:0001",["p.d.dbo.orders"],true]},'
    '"consumed":[["p.d.dbo.lines",1,4]],"skips":{"p.d.dbo.orders":[0,5]}}'
)
"""Of a release that had shards."""


def test_a_bookmark_of_an_earlier_release_is_read_and_written_as_before():
    mark = Bookmark.parse(BOOKMARK, "p")
    assert mark.place == Place(7, lsn(9), frozenset(ORDERS), is_started=True)
    assert (mark.consumed, mark.skips) == ({("p.d.dbo.lines", 1): 4}, {"p.d.dbo.orders": 5})
    assert str(mark) == BOOKMARK


def test_a_bookmark_of_several_shards_is_refused_with_the_way_out():
    several = BOOKMARK.replace('"shards":{', '"shards":{"1":[3,null,[],false],')
    with pytest.raises(
        errors.DividedIntoShards, match=r"the bookmark .*Fix: .*another publisher.prefix"
    ):
        Bookmark.parse(several, "p")


@pytest.mark.parametrize(("shard", "shards"), [(1, 2), (0, 2)])
def test_a_record_of_several_shards_is_refused_with_the_way_out(shard: int, shards: int):
    """The first shard's, too: the events of the others would be missing."""
    found = replace(record(0, 9), shard=shard, shards=shards)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(PROGRESS_SCHEMA), found.to_record())
    with pytest.raises(
        errors.DividedIntoShards, match=rf"{lsn(9)} .*Fix: .*another publisher.prefix"
    ):
        progress_of("p.progress", shard, 0, frame_header(1) + body.getvalue())


def test_topics_of_several_shards_are_refused_with_the_way_out():
    """Before a record is read: the first partition may be empty."""
    topics = {"p.progress": SimpleNamespace(partitions={0: None, 1: None})}
    consumer: Any = SimpleNamespace(list_topics=lambda **_: SimpleNamespace(topics=topics))
    brokers = Brokers(Feed("localhost:1", "http://localhost:1", "p"))
    with pytest.raises(errors.DividedIntoShards, match=r"p\.progress, which has 2 .*Fix: stop its"):
        brokers.topics(consumer, 1)


def test_bad_input_says_the_fix(monkeypatch: pytest.MonkeyPatch):
    feed = Feed("127.0.0.1:1", "http://127.0.0.1:1", "p")
    monkeypatch.setattr(opening, "TIMEOUT_S", 0.3)
    with pytest.raises(errors.BrokersUnavailable, match="check the address") as caught:
        subscribe(feed, [], Start.now())
    assert caught.value.retryable
    for option, value in {
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "latest",
        "group.id": "mine",
    }.items():
        with pytest.raises(errors.OptionRefused, match=option):
            Feed("localhost:1", "http://localhost:1", "p", {option: value})
    odd = Feed("localhost:1", "http://localhost:1", "p", {"no.such.option": 1})
    with pytest.raises(errors.BrokersRefused, match=r"no\.such\.option"):
        subscribe(odd, [], Start.now())
    with pytest.raises(errors.ArgumentRefused, match=r"'localhost:8081' is no URL\. Fix: begin"):
        Feed("localhost:1", "localhost:8081", "p")
    for bootstrap in ("", "http://localhost:9092"):
        with pytest.raises(errors.ArgumentRefused, match="Fix: write host:port"):
            Feed(bootstrap, "http://localhost:1", "p")
    for told, arguments in {
        r"is the text 'dbo\.t'\. Fix: pass a list, \['dbo\.t'\]": ("dbo.t", Start.now()),
        r"start is 'now'\. Fix: pass a Start": ([], "now"),
    }.items():
        with pytest.raises(errors.ArgumentRefused, match=told):
            subscribe(feed, *arguments)  # type: ignore[arg-type] # as people call it
    for further, told in (
        ({"rows": {"dbo.t": dict}}, r"dbo\.t .*no dataclass\. Fix: decorate it"),
        ({"rows": {"dbo.t": Row}, "columns": {"dbo.t": ["id"]}}, r"Fix: name it in one of them"),
        ({"group": ""}, r"group is empty\. Fix: name it"),
        ({"columns": {"dbo.t": "id"}}, r"Fix: pass a list, \['id'\]"),
    ):
        with pytest.raises(errors.ArgumentRefused, match=told):
            subscribe(feed, [], Start.now(), **further)  # type: ignore[arg-type] # the same
    with pytest.raises(ValueError, match="topic prefix"):
        Feed("localhost:1", "http://localhost:1", "a prefix")
    with pytest.raises(MomentError, match="is not an LSN"):
        Start.from_lsn("yesterday")
    with pytest.raises(errors.PlaceUnknown, match="is no bookmark"):
        Bookmark.parse("{}", "p")
    with pytest.raises(errors.PlaceUnknown, match="form 2 of another release"):
        Bookmark.parse('{"form": 2}', "p")
    assert (bool(UNAVAILABLE), repr(UNAVAILABLE)) == (False, "UNAVAILABLE")
