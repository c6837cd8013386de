"""Messages of an outbox: each insert once, in order, in the transaction of its event."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tailrace.reading.committed import committed_messages
from tailrace.reading.topics import consumer_of
from tailrace_publisher.errors import PreflightError
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed

pytestmark = pytest.mark.kafka

OUTBOX: dict[str, Any] = {"outbox": {r"dbo\.outbox": {}}}
CREATE = (
    "CREATE TABLE dbo.outbox (id uniqueidentifier PRIMARY KEY DEFAULT NEWID(),"
    " aggregatetype varchar(50), aggregateid varchar(50), type varchar(max), payload nvarchar(max))"
)


def written(number: int, route: str = "order") -> str:
    """An insert whose payload has the number."""
    payload = json.dumps({"n": number, "text": "é"}, ensure_ascii=False)
    return (
        "INSERT dbo.outbox (aggregatetype, aggregateid, type, payload)"
        f" VALUES ('{route}', '{number % 3}', 'Created', N'{payload}')"
    )


def messages(pipe: Pipe) -> dict[str, list[Any]]:
    """Committed messages by topic, each partition's in its order."""
    begin = f"{pipe.topics.prefix}.outbox."
    consumer = consumer_of(pipe.topics.bootstrap)
    topics = {
        name: len(topic.partitions)
        for name, topic in consumer.list_topics(timeout=10).topics.items()
        if name.startswith(begin)
    }
    consumer.close()
    found: dict[str, list[Any]] = {topic: [] for topic in topics}
    for message in committed_messages(pipe.topics.bootstrap, topics):
        found[str(message.topic())].append(message)
    return found


@pytest.mark.slow("a publisher is killed at three steps, and starts again")
def test_each_insert_is_one_message_in_order_wherever_the_publisher_is_killed(
    pipe: Pipe, tmp_path: Path
):
    source = pipe.source
    source.execute(CREATE, "CREATE TABLE dbo.orders (id int PRIMARY KEY)", written(99))
    source.enable("outbox")
    source.enable("orders")
    options = pipe.options(**OUTBOX, page_rows=2, rows_per_transaction=3, linger_ms=0)
    live_until_killed(options, "heartbeat")
    for number in range(12):
        route = "order" if number % 4 else "Order.Line"
        source.transaction(f"INSERT dbo.orders VALUES ({number})", written(number, route))
    source.execute("UPDATE dbo.outbox SET type = 'Sent'", "DELETE dbo.outbox")
    source.scan()
    live_until_killed(options, "sent", 2)
    live_until_killed(options, "committed", 2)
    live_until_killed(options, "before_commit", 1)
    with Running(pipe.config(**OUTBOX)) as publisher:
        publisher.until(pipe.is_caught_up, "it continues")

    found = messages(pipe)
    prefix = f"{pipe.topics.prefix}.outbox."
    assert set(found) == {f"{prefix}order", f"{prefix}Order_x002E_Line"}
    of_key: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    events = {e.position.to_bytes().hex(): e for e in pipe.topics.changes(source.name, "outbox")}
    for topic, of_topic in found.items():
        for message in of_topic:
            headers = {name: value.decode() for name, value in message.headers()}
            event = events[headers.pop("tailrace.position")].as_envelope["after"]
            assert headers == {"id": str(event["id"]), "eventType": "Created"}
            assert message.value() == event["payload"].encode()
            of_key[topic, message.key()].append(json.loads(message.value())["n"])
    assert sorted(n for numbers in of_key.values() for n in numbers) == list(range(12))
    assert all(numbers == sorted(numbers) for numbers in of_key.values())
    for table in ("outbox", "orders"):
        pipe.assert_exactly_once(table)
    audited = invoke(pipe, tmp_path, "audit", **OUTBOX)
    assert audited.exit_code == 0, audited.output


LARGE = random.Random(7).randbytes(2500).hex()
"""Random, so that compression does not make it small again."""


@pytest.mark.parametrize(
    ("bad", "code", "fix"),
    [
        (written(2).replace("'Created'", f"'{LARGE}'"), "MSG_SIZE_TOO_LARGE", "max.message.bytes"),
        (written(2).replace("'2'", "NULL"), "INVALID_RECORD", "a compacted topic"),
    ],
)
def test_a_message_that_brokers_refuse_stops_the_outbox_alone(
    pipe: Pipe, bad: str, code: str, fix: str
):
    source = pipe.source
    admin = AdminClient({"bootstrap.servers": pipe.topics.bootstrap})
    limits = {"max.message.bytes": "2000", "cleanup.policy": "compact"}
    topic = NewTopic(f"{pipe.topics.prefix}.outbox.order", 2, 1, config=limits)
    admin.create_topics([topic])[topic.topic].result(30)
    source.execute(CREATE, "CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    source.enable("orders")
    source.enable("outbox")
    with Running(pipe.config(**OUTBOX)) as publisher:
        publisher.until(pipe.is_caught_up, "it has started")
        source.execute(written(1))
        publisher.until(pipe.is_caught_up, "the first message is sent")
        source.transaction("INSERT dbo.orders VALUES (1)", bad)
        publisher.until(lambda: pipe.is_caught_up(gone=["outbox"]), "the others continue")
        (stopped,) = publisher.told("table_stopped")

    assert re.search(f"{topic.topic}.*{code}.*Fix: .*{fix}", stopped["reason"])
    assert [json.loads(m.value())["n"] for of in messages(pipe).values() for m in of] == [1]
    pipe.assert_exactly_once("orders")


def test_a_first_start_names_columns_that_an_outbox_lacks(pipe: Pipe):
    pipe.source.execute("CREATE TABLE dbo.outbox (id int PRIMARY KEY, payload int)")
    pipe.source.enable("outbox")

    options: dict[str, Any] = {
        "outbox": {r"dbo\.outbox": {"headers": {}}, "dbo.none": {}},
        "skip": {"operations": {"dbo.outbox": ["c"]}},
    }
    with Running(pipe.config(**options)) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    for text in (
        "outbox: table dbo.outbox, option route: column aggregatetype is not captured. Fix:",
        "option key: column aggregateid is not captured",
        "outbox: table dbo.none is not published",
        "outbox: table dbo.outbox: skip.operations leaves out its inserts",
    ):
        assert text in str(error)
