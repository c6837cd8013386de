"""The subscribers in examples/, as they are written, at one publisher; the audit log is killed."""

from __future__ import annotations

import json
import runpy
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tailrace.reading.committed import committed_messages
from tailrace.signals.request import ask
from tailrace.subscribe import Feed, Start, Subscription, subscribe
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, wait_until
from tests.pipeline.subscribe.subscribers import feed_of

pytestmark = pytest.mark.kafka

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> dict[str, Any]:
    """The names of a program."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def audit_log(feed: Feed, path: Path) -> subprocess.Popen[bytes]:
    """The audit log of dbo.orders in a process of its own."""
    where = (feed.bootstrap, str(feed.registry), str(feed.prefix), str(path), "dbo.orders")
    return subprocess.Popen([sys.executable, str(EXAMPLES / "audit_log.py"), *where])


@contextmanager
def running(subscription: Subscription, run: Callable[[], None]) -> Iterator[None]:
    """A program in a thread, which closing the subscription ends."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        subscription.close()
        thread.join(60)
    assert not thread.is_alive()
    assert failures == []


@contextmanager
def caching(feed: Feed) -> Iterator[dict[Any, str]]:
    """A cache with rows that were loaded before, and its invalidator."""
    cache: dict[Any, str] = {("dbo.orders", (number,)): "loaded" for number in range(30)}
    subscription = subscribe(feed, ["dbo.orders"], Start.now())
    invalidate = example("cache_invalidator")["invalidate"]
    with running(subscription, lambda: invalidate(subscription, cache)):
        yield cache


@contextmanager
def indexing(feed: Feed, path: Path) -> Iterator[None]:
    """The search index of dbo.orders."""
    program = example("search_index")
    with closing(program["opened"](str(path))) as db:
        subscription = program["subscribed"](feed, "dbo.orders", db)

    def run() -> None:
        with closing(program["opened"](str(path))) as db:
            program["run"](subscription, db)

    with running(subscription, run):
        yield


@contextmanager
def relaying(feed: Feed) -> Iterator[None]:
    """The relay of dbo.outbox."""
    program = example("outbox_relay")
    subscription = program["subscribed"](feed, "dbo.outbox")
    producer = Producer({"bootstrap.servers": feed.bootstrap, "enable.idempotence": True})
    with running(subscription, lambda: program["relay"](subscription, producer)):
        yield


def relayed(feed: Feed) -> list[str]:
    """Payloads of the topic that the outbox names."""
    messages = committed_messages(feed.bootstrap, {f"{feed.prefix}-out": 1})
    return [(message.value() or b"").decode() for message in messages]


def found(path: Path, word: str) -> list[str]:
    """Documents of the search index with a word."""
    with closing(sqlite3.connect(path)) as db:
        matching = "SELECT text FROM documents WHERE documents MATCH ?"
        return [text for (text,) in db.execute(matching, [word])]


def logged(path: Path) -> list[tuple[Any, ...]]:
    """Lines of the audit log."""
    if not path.exists():
        return []
    with sqlite3.connect(path) as db:
        there = db.execute("SELECT name FROM sqlite_master WHERE name = 'log'").fetchall()
        columns = "event, lsn, op, table_name, old, new"
        return db.execute(f"SELECT {columns} FROM log ORDER BY number").fetchall() if there else []


def kill_once_it_logs(process: subprocess.Popen[bytes], path: Path) -> None:
    before = len(logged(path))
    wait_until(lambda: len(logged(path)) > before, "something is logged")
    process.kill()
    process.wait(30)


@pytest.mark.slow("a publisher, four subscribers, and an audit log that is killed")
def test_the_examples_follow_a_publisher(pipe: Pipe, tmp_path: Path):
    source, where = pipe.source, feed_of(pipe)
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note varchar(20))",
        "CREATE TABLE dbo.outbox (id int PRIMARY KEY, aggregateid int, topic varchar(99),"
        " payload varchar(max))",
        "INSERT dbo.orders VALUES (1, 'first')",
    )
    source.enable("orders")
    source.enable("outbox")
    admin = AdminClient({"bootstrap.servers": where.bootstrap})
    admin.create_topics([NewTopic(f"{where.prefix}-out", 1, 1)])[f"{where.prefix}-out"].result(30)
    audit, index = tmp_path / "audit.db", tmp_path / "index.db"
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        with caching(where) as cache, indexing(where, index), relaying(where):
            publisher.until(lambda: not cache, "what was loaded before is gone")
            cache |= {("dbo.orders", (number,)): "loaded" for number in range(30)}
            for number in range(2, 20):
                process = audit_log(where, audit) if number % 6 == 2 else None
                source.transaction(
                    f"INSERT dbo.orders VALUES ({number}, 'new')",
                    f"UPDATE dbo.orders SET note = 'paid {number}' WHERE id = {number}",
                    f"INSERT dbo.outbox VALUES ({number}, 7, '{where.prefix}-out', 'o{number}')",
                )
                source.scan()
                if process is not None:
                    kill_once_it_logs(process, audit)
            left = {("dbo.orders", (number,)) for number in (0, 1, *range(20, 30))}
            publisher.until(lambda: cache.keys() == left, "what changed is out of the cache")
            publisher.until(lambda: len(found(index, "paid")) == 18, "the index has all")
            wanted = [f"o{number}" for number in range(2, 20)]
            publisher.until(lambda: relayed(where) == wanted, "the outbox is relayed in order")
        assert found(index, "first") == ["first"]

        # What the index has and the table has not is gone with the next snapshot.
        with sqlite3.connect(index) as db:
            (ghost,) = [db.execute("INSERT INTO documents VALUES ('ghost')").lastrowid]
            db.execute("INSERT INTO source_row VALUES ('ghost', ?, '{}', 0)", [ghost])
        source.execute("DELETE dbo.orders WHERE id = 1", "DELETE dbo.outbox WHERE id < 9")
        ask(pipe.config(), ["dbo.orders"], 60)
        with indexing(where, index), relaying(where):
            publisher.until(pipe.is_caught_up, "the new snapshot is out")
            publisher.until(lambda: not found(index, "ghost"), "the index has it whole")
            source.execute(f"INSERT dbo.outbox VALUES (99, 7, '{where.prefix}-out', 'last')")
            source.scan()
            publisher.until(lambda: relayed(where) == [*wanted, "last"], "none is sent again")
        assert found(index, "first") == []
        assert len(found(index, "paid")) == 18

        process = audit_log(where, audit)
        wait_until(lambda: len(logged(audit)) == 1 + 2 * 18 + 1 + 18, "everything is logged")
        process.kill()
        process.wait(30)

    lines = logged(audit)
    assert len({event for event, *_ in lines}) == len(lines)
    assert lines[0][2:] == ("r", "dbo.orders", "null", json.dumps({"id": 1, "note": "first"}))
    changes = [line for line in lines if line[2] != "r"]
    assert [op for _, _, op, *_ in changes] == ["c", "u"] * 18 + ["d"]
    positions = [position for position, _ in source.change_rows("dbo_orders")]
    assert [lsn for _, lsn, *_ in changes] == [str(one.commit_lsn) for one in positions]
