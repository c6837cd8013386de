"""The ledger in the progress records, audited from the topics alone; and memory."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections import Counter, defaultdict

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.audit.audit import audit
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.deliver.delivering import (
    Message,
    Table,
    commit,
    decoded,
    delivering,
    position_of,
    read_committed,
    row_numbers,
)
from tests.property.oracle import position_sum

pytestmark = pytest.mark.kafka


def position_in(event: dict[str, object]) -> ChangePosition:
    source = event["source"]
    assert isinstance(source, dict)
    return ChangePosition(
        Lsn.parse(source["commit_lsn"]),
        source["command_id"],
        Lsn.parse(source["change_lsn"]),
        Operation(source["operation"]),
    )


def test_the_ledger_accounts_for_every_record(kafka: str, registry: str) -> None:
    topics = TopicNames(f"t{uuid.uuid4().hex[:12]}")
    with SchemaRegistry(registry) as schemas:
        flights, planes = Table(schemas, topics), Table(schemas, topics, "planes")
        with delivering(kafka, topics, schemas, flights, planes) as delivery:
            delivery.send(flights.rows(0, 100))
            delivery.send(flights.rows(100, 250))
            delivery.send(planes.rows(0, 3))
            commit(delivery, 0, 250)
            delivery.send(flights.rows(250, 400))
            delivery.abort()  # leaves records and a marker that the ledger must not count
            commit(delivery, 250, 250)  # heartbeat
            delivery.send(planes.rows(3, 50))
            commit(delivery, 250, 300)

        messages: dict[tuple[str, int], list[Message]] = defaultdict(list)
        for table in (flights, planes):
            for message in read_committed(kafka, table.topic):
                messages[message.topic, message.partition].append(message)
        records = [decoded(schemas, m.value or b"") for m in read_committed(kafka, topics.progress)]

        assert [len(record["partitions"]) > 0 for record in records] == [True, False, True]
        positions = []
        for record in records:
            for entry in record["partitions"]:
                where = (entry["topic"], entry["partition"])
                first, after = entry["first_offset"], entry["next_offset"]
                inside = [m for m in messages[where] if first <= m.offset < after]
                messages[where] = [m for m in messages[where] if m not in inside]
                assert [m.offset for m in inside] == list(range(first, after))
                events = [m for m in inside if m.value is not None]
                found = [position_in(decoded(schemas, m.value or b"")) for m in events]
                assert found == sorted(found), "in order within a partition"
                assert entry["count"] == len(events)
                assert entry["position_hash"] == position_sum([p.to_bytes() for p in found])
                ids = {int.from_bytes((m.value or b"")[1:5], "big") for m in events}
                assert entry["schema_ids"] == sorted(ids)
                assert entry["bytes"] == sum(len(m.value or b"") for m in events)
                ops = Counter(decoded(schemas, m.value or b"")["op"] for m in events)
                names = {"r": "reads", "c": "creates", "u": "updates", "d": "deletes"}
                assert entry["operations"] == {name: ops[op] for op, name in names.items()}
                positions += [(entry["topic"], position) for position in found]
        assert not any(messages.values()), "no record outside the ledger"
        expected = [(flights.topic, position_of(n)) for n in range(250)]
        expected += [(planes.topic, position_of(n)) for n in range(50)]
        assert sorted(positions) == sorted(expected)

        found = audit(kafka, topics, schemas)
        assert found.problems.texts == []
        assert {name: topic.events for name, topic in found.topics.items()} == {
            flights.topic: 250,
            planes.topic: 50,
        }


def test_the_audit_finds_what_somebody_else_did(kafka: str, registry: str) -> None:
    topics = TopicNames(f"t{uuid.uuid4().hex[:12]}")
    with SchemaRegistry(registry) as schemas:
        table = Table(schemas, topics)
        with delivering(kafka, topics, schemas, table) as delivery:
            delivery.send(table.rows(0, 30))
            commit(delivery, 0, 30)
            foreign = Producer({"bootstrap.servers": kafka})
            copied = read_committed(kafka, table.topic)[0]
            foreign.produce(table.topic, copied.value, partition=copied.partition)
            foreign.produce(table.topic, b"not an event", partition=copied.partition)
            foreign.flush(10)
            delivery.send(table.rows(30, 60))
            commit(delivery, 30, 60)

        problems = audit(kafka, topics, schemas).problems
        assert problems.count == 2
        assert "no progress record accounts for" in problems.texts[0]
        assert "not one of our events" in problems.texts[1]

        nothing = audit(kafka, TopicNames("nosuch"), schemas)
        assert (nothing.records, nothing.topics) == (0, {})


def test_tombstones_follow_deletes_in_the_same_partition(kafka: str, registry: str) -> None:
    topics = TopicNames(f"t{uuid.uuid4().hex[:12]}")
    with SchemaRegistry(registry) as schemas:
        table = Table(schemas, topics)
        with delivering(kafka, topics, schemas, table) as delivery:
            delivery.send(table.rows(0, 21))
            progress = commit(delivery, 0, 21)
        by_offset = {(m.partition, m.offset): m for m in read_committed(kafka, table.topic)}
        deletes = [
            m for m in by_offset.values() if m.value and decoded(schemas, m.value)["op"] == "d"
        ]
        assert len(deletes) == 3
        for delete in deletes:
            behind = by_offset[delete.partition, delete.offset + 1]
            assert (behind.key, behind.value) == (delete.key, None)
        assert sum(entry.count for entry in progress.partitions) == 21
        assert sum(e.next_offset - e.first_offset for e in progress.partitions) == 24


def test_without_tombstones(kafka: str, registry: str) -> None:
    topics = TopicNames(f"t{uuid.uuid4().hex[:12]}")
    with SchemaRegistry(registry) as schemas:
        table = Table(schemas, topics)
        with delivering(kafka, topics, schemas, table, tombstones=False) as delivery:
            delivery.send(table.rows(0, 21))
            commit(delivery, 0, 21)
        assert len(read_committed(kafka, table.topic)) == 21


@pytest.mark.slow("200,000 messages are produced")
def test_memory_stays_bounded_in_one_large_transaction(kafka: str, registry: str) -> None:
    prefix = f"t{uuid.uuid4().hex[:12]}"
    arguments = ["-m", "tests.pipeline.deliver.delivering", "large", kafka, registry, prefix]
    done = subprocess.run(
        [sys.executable, *arguments, "200000", "2000"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    before_kb, after_kb = map(int, done.stdout.split())
    # The full queue is 100,000 messages of 0.7 kB; all 200,000 rows would be 150 MB and more.
    assert after_kb - before_kb < 110_000
    assert after_kb < 250_000


def test_progress_larger_than_its_topic_allows_is_split_within_the_transaction(
    kafka: str, registry: str
) -> None:
    topics = TopicNames(f"t{uuid.uuid4().hex[:12]}")
    admin = AdminClient({"bootstrap.servers": kafka})
    settings = {"max.message.bytes": "3000", "compression.type": "uncompressed"}
    (made,) = admin.create_topics([NewTopic(topics.progress, 1, 1, config=settings)]).values()
    made.result(10)
    with SchemaRegistry(registry) as schemas:
        tables = [Table(schemas, topics, f"flights{number}") for number in range(3)]
        plain = {"extra": {"compression.type": "none"}}
        with delivering(kafka, topics, schemas, *tables, partitions=20, **plain) as delivery:
            for table in tables:
                delivery.send(table.rows(0, 400))
            commit(delivery, 0, 400)
            delivery.send(tables[0].rows(400, 410))
            commit(delivery, 400, 410)

        records = [decoded(schemas, m.value or b"") for m in read_committed(kafka, topics.progress)]
        found = audit(kafka, topics, schemas)

    assert len(records) > 2
    assert [record["closed"] for record in records[-2:]] == [True, True]
    assert not any(record["closed"] for record in records[:-2])
    parts = [(p["topic"], p["partition"]) for r in records[:-1] for p in r["partitions"]]
    assert len(parts) == len(set(parts)) == 60
    touched = records[-1]["partitions"]  # by ten rows of one table
    assert {entry["topic"] for entry in touched} == {tables[0].topic}
    assert sum(entry["count"] for entry in touched) == 10 >= len(touched)
    assert found.problems.texts == []
    assert sum(topic.events for topic in found.topics.values()) == 1210


def test_an_audit_begins_where_the_progress_topic_does(kafka: str, registry: str) -> None:
    topics = TopicNames(f"t{uuid.uuid4().hex[:12]}")
    with SchemaRegistry(registry) as schemas:
        table = Table(schemas, topics)
        with delivering(kafka, topics, schemas, table) as delivery:
            for start in range(0, 100, 20):
                delivery.send(table.rows(start, start + 20))
                commit(delivery, start, start + 20)
        kept = read_committed(kafka, topics.progress)[2:]
        admin = AdminClient({"bootstrap.servers": kafka})
        begin = [TopicPartition(topics.progress, 0, kept[0].offset)]
        (removed,) = admin.delete_records(begin).values()
        removed.result(10)

        found = audit(kafka, topics, schemas)
        begins_ms = decoded(schemas, kept[0].value or b"")["published_ms"]
        ids = row_numbers(schemas, read_committed(kafka, table.topic))

    assert found.problems.texts == []
    assert found.records == 3
    assert found.from_lsn == str(position_of(39).commit_lsn)
    assert found.begins_ms == begins_ms
    assert found.topics[table.topic].events == 60
    # Markers of transactions have offsets, too.
    assert found.topics[table.topic].unproven >= sum(number < 40 for number in ids) == 40
