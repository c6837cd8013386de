"""Every row exactly once to a read_committed consumer, whatever happens to producer and broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tailrace_compose.local.broker import KafkaBroker
from tailrace_publisher.checkpoint import read_checkpoints
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.errors import (
    CheckpointUnavailable,
    DeliveryRejected,
    DeliveryTimeout,
    ForeignRecords,
    KafkaUnavailable,
    OutcomeUnknown,
    PublisherReplaced,
)
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.deliver.delivering import (
    Table,
    checkpoint_at,
    commit,
    delivering,
    next_row,
    read_committed,
    row_numbers,
    topics_of,
)

pytestmark = pytest.mark.kafka


@pytest.fixture
def schemas(registry: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry) as client:
        yield client


@pytest.fixture
def topics() -> TopicNames:
    return TopicNames(f"t{uuid.uuid4().hex[:12]}")


@pytest.fixture
def table(schemas: SchemaRegistry, topics: TopicNames) -> Table:
    return Table(schemas, topics)


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("own"), is_short_lived=True)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def own_broker(module_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """A broker that nobody else uses: to be stopped and killed, and left running.

    If it does not answer after a test, the end of its output says why, and the next has another.
    """
    try:
        yield module_broker
    finally:
        if module_broker.pid is not None:
            os.kill(module_broker.pid, signal.SIGCONT)
        deadline = time.monotonic() + 30
        while not module_broker.answers():
            if time.monotonic() > deadline:
                output = module_broker.log_tail()
                module_broker.kill()
                module_broker.start()
                pytest.fail(f"the broker does not answer any more:\n{output}")
            threading.Event().wait(0.2)


def published(bootstrap: str, table: Table) -> list[int]:
    return sorted(row_numbers(table.registry, read_committed(bootstrap, table.topic)))


def test_an_aborted_transaction_is_never_seen(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with delivering(kafka, topics, schemas, table) as delivery:
        delivery.send(table.rows(0, 30))
        assert delivery.rows_in_transaction == 30
        delivery.abort()
        assert delivery.rows_in_transaction == 0
        assert next_row(kafka, topics, schemas) == 0
        delivery.send(table.rows(0, 20))
        delivery.send(table.rows(20, 40))
        commit(delivery, 0, 40)
        delivery.abort()  # nothing is open: nothing happens
        delivery.send(table.rows(40, 50))

    assert next_row(kafka, topics, schemas) == 40
    assert published(kafka, table) == list(range(40))


def test_a_killed_publisher_goes_on_where_it_had_committed(
    kafka: str, registry: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    arguments = [
        "-m",
        "tests.pipeline.deliver.delivering",
        "program",
        kafka,
        registry,
        topics.prefix,
    ]
    with subprocess.Popen(
        [sys.executable, *arguments, "25", "90"], stdout=subprocess.PIPE, text=True
    ) as publisher:
        assert publisher.stdout is not None
        assert publisher.stdout.readline() == "sent\n"
        publisher.send_signal(signal.SIGKILL)

    with delivering(kafka, topics, schemas, table) as delivery:
        start = next_row(kafka, topics, schemas)
        assert start == 25
        delivery.send(table.rows(start, 60))
        commit(delivery, start, 60)

    assert published(kafka, table) == list(range(60))


def test_a_fenced_publisher_commits_nothing_more(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with (
        delivering(kafka, topics, schemas, table) as zombie,
        delivering(kafka, topics, schemas, table) as other,
    ):
        zombie.send(table.rows(0, 10))
        with pytest.raises(PublisherReplaced, match="another publisher"):
            commit(zombie, 0, 10)
        with pytest.raises(OutcomeUnknown, match="start"):
            zombie.send(table.rows(0, 10))
        other.send(table.rows(0, 20))
        commit(other, 0, 20)

    assert published(kafka, table) == list(range(20))


@pytest.mark.parametrize("attempt", range(3))
def test_a_publisher_that_is_fenced_while_it_sends_says_so(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table, attempt: int
) -> None:
    """Behind a fatal error produce says "fatal error", and nothing of its cause."""
    with delivering(kafka, topics, schemas, table) as zombie:
        zombie.send(table.rows(0, 10))
        producer = zombie._producer
        assert producer is not None
        with delivering(kafka, topics, schemas, table):
            pause = threading.Event()

            def messages() -> Iterator[tuple[bytes | None, bytes | None, int]]:
                for _ in range(60_000):
                    yield None, b"value", 0
                    pause.wait(0.001)

            with pytest.raises(PublisherReplaced, match="another publisher"):
                producer.produce(table.topic, messages(), {})
    assert published(kafka, table) == []


def test_an_idle_publisher_learns_by_its_heartbeat_that_it_was_fenced(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with delivering(kafka, topics, schemas, table) as zombie:
        commit(zombie, 0, 0)
        with delivering(kafka, topics, schemas, table), pytest.raises(PublisherReplaced):
            commit(zombie, 0, 0)


def stop_broker_at_commit(
    monkeypatch: pytest.MonkeyPatch, broker: KafkaBroker, resume_after_s: float | None
) -> None:
    """Stop the broker with a signal between the flush and the commit of the next transaction."""
    pid = broker.pid
    assert pid is not None
    committing = TransactionalProducer.commit

    def stop_then_commit(self: TransactionalProducer) -> None:
        monkeypatch.undo()
        os.kill(pid, signal.SIGSTOP)
        if resume_after_s is not None:
            threading.Timer(resume_after_s, os.kill, (pid, signal.SIGCONT)).start()
        committing(self)

    monkeypatch.setattr(TransactionalProducer, "commit", stop_then_commit)


def test_a_commit_that_timed_out_is_resumed(
    own_broker: KafkaBroker,
    topics: TopicNames,
    schemas: SchemaRegistry,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bootstrap = own_broker.bootstrap_servers
    with delivering(bootstrap, topics, schemas, table) as delivery:
        delivery.send(table.rows(0, 30))
        stop_broker_at_commit(monkeypatch, own_broker, resume_after_s=2.5)
        commit(delivery, 0, 30)
        delivery.send(table.rows(30, 50))
        commit(delivery, 30, 50)

    assert published(bootstrap, table) == list(range(50))


@pytest.mark.slow("a commit times out, and the broker may be started again")
@pytest.mark.parametrize("kill", [False, True], ids=["resumed", "killed"])
def test_after_a_commit_in_doubt_the_checkpoint_tells(
    own_broker: KafkaBroker,
    topics: TopicNames,
    schemas: SchemaRegistry,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    kill: bool,
) -> None:
    bootstrap = own_broker.bootstrap_servers
    pid = own_broker.pid
    assert pid is not None
    with delivering(bootstrap, topics, schemas, table, commit_timeout_s=5.0) as delivery:
        delivery.send(table.rows(0, 20))
        commit(delivery, 0, 20)
        delivery.send(table.rows(20, 40))
        stop_broker_at_commit(monkeypatch, own_broker, resume_after_s=None)
        with pytest.raises(OutcomeUnknown, match="may or may not be committed"):
            commit(delivery, 20, 40)
    if kill:
        own_broker.kill()
        own_broker.start()
    else:
        os.kill(pid, signal.SIGCONT)

    # A controller that was held fences its broker, which a busy machine lists again late: 60 s were
    # too few beside four starting workers.
    with delivering(bootstrap, topics, schemas, table, start_timeout_s=240.0) as delivery:
        start = next_row(bootstrap, topics, schemas)
        assert start in {20, 40}, "all or nothing"
        delivery.send(table.rows(start, 60))
        commit(delivery, start, 60)

    assert published(bootstrap, table) == list(range(60))


def test_a_broker_that_stops_in_mid_stream_is_waited_for(
    own_broker: KafkaBroker, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    bootstrap = own_broker.bootstrap_servers
    pid = own_broker.pid
    assert pid is not None
    with delivering(bootstrap, topics, schemas, table) as delivery:
        delivery.send(table.rows(0, 10))
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(2.5, os.kill, (pid, signal.SIGCONT)).start()
        delivery.send(table.rows(10, 20))
        commit(delivery, 0, 20)
        assert published(bootstrap, table) == list(range(20))


@pytest.mark.slow("a delivery times out, and the broker is started again")
def test_records_that_cannot_be_delivered_in_time_are_not_committed(
    own_broker: KafkaBroker, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    bootstrap = own_broker.bootstrap_servers
    with delivering(bootstrap, topics, schemas, table, commit_timeout_s=5.0) as delivery:
        delivery.send(table.rows(0, 10))
        commit(delivery, 0, 10)
        own_broker.stop()
        delivery.send(table.rows(10, 20))
        with pytest.raises(DeliveryTimeout, match="records were not delivered"):
            commit(delivery, 10, 20)
    own_broker.start()

    assert next_row(bootstrap, topics, schemas) == 10
    assert published(bootstrap, table) == list(range(10))


def test_no_broker_at_the_start(topics: TopicNames, schemas: SchemaRegistry) -> None:
    with (
        pytest.raises(KafkaUnavailable),
        delivering("127.0.0.1:1", topics, schemas, start_timeout_s=1.0),
    ):
        pass


def test_a_checkpoint_behind_a_foreign_open_transaction_is_not_overlooked(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    def read(deadline_s: float) -> int:
        found = read_checkpoints(topics_of(kafka, topics, schemas), deadline_s)
        assert found.database is not None
        return found.database.signals_offset or 0

    with delivering(kafka, topics, schemas, table) as delivery:
        commit(delivery, 0, 10)
        foreign = Producer(
            {"bootstrap.servers": kafka, "transactional.id": f"foreign-{topics.prefix}"}
        )
        foreign.init_transactions(20)
        foreign.begin_transaction()
        foreign.produce(topics.offsets, b"x", b"y", 0)
        foreign.flush(20)
        commit(delivery, 10, 20)
        with pytest.raises(CheckpointUnavailable, match="another producer has a transaction open"):
            read(5.0)
        foreign.abort_transaction(20)
        assert read(60.0) == 20


def test_only_the_newest_checkpoint_of_ones_own_database_counts(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with delivering(kafka, topics, schemas, table) as delivery:
        for number in (10, 20, 30):
            commit(delivery, 0, number)
    mine = read_checkpoints(topics_of(kafka, topics, schemas), 60.0)
    assert mine.database == checkpoint_at(30)
    assert read_checkpoints(topics_of(kafka, topics, schemas, "other"), 60.0).is_empty


def test_a_record_too_large_is_refused_by_name_and_nothing_is_committed(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with delivering(kafka, topics, schemas, table) as delivery:
        delivery.send(table.rows(0, 5))
        with pytest.raises(DeliveryRejected, match=r"max.message.bytes") as caught:
            delivery.send(table.rows(5, 6, "x" * 17_000_000))
        assert table.topic in str(caught.value)
        assert not caught.value.retryable
    with delivering(kafka, topics, schemas, table):
        assert next_row(kafka, topics, schemas) == 0
    assert published(kafka, table) == []


def test_nothing_is_published_of_a_transaction_with_foreign_records(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with delivering(kafka, topics, schemas, table, partitions=1) as delivery:
        delivery.send(table.rows(0, 5))
        assert delivery._producer is not None
        delivery._producer.flush()
        foreign = Producer({"bootstrap.servers": kafka})
        foreign.produce(table.topic, b"not ours", b"k", 0)
        foreign.flush(20)
        delivery.send(table.rows(5, 10))
        with pytest.raises(ForeignRecords, match="another producer writes to this topic"):
            commit(delivery, 0, 10)
    assert [m.value for m in read_committed(kafka, table.topic)] == [b"not ours"]


def test_a_topic_that_was_never_ensured_is_refused(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    with (
        delivering(kafka, topics, schemas) as delivery,
        pytest.raises(DeliveryRejected, match="ensure_topics"),
    ):
        delivery.send(table.rows(0, 1))


def test_a_full_queue_is_waited_for_and_nothing_changes_places(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    small = {"queue.buffering.max.messages": "50"}
    with delivering(kafka, topics, schemas, table, partitions=1, extra=small) as delivery:
        delivery.send(table.rows(0, 1500))
        commit(delivery, 0, 1500)
    messages = read_committed(kafka, table.topic)
    assert row_numbers(schemas, messages) == list(range(1500))


def test_a_queue_that_stays_full_means_that_kafka_is_unavailable(
    own_broker: KafkaBroker, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    bootstrap = own_broker.bootstrap_servers
    pid = own_broker.pid
    assert pid is not None
    small = {"queue.buffering.max.messages": "50"}
    with delivering(
        bootstrap, topics, schemas, table, extra=small, commit_timeout_s=1.0
    ) as delivery:
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(KafkaUnavailable, match="queue stayed full"):
            delivery.send(table.rows(0, 200))
        os.kill(pid, signal.SIGCONT)
    with delivering(bootstrap, topics, schemas, table):
        assert next_row(bootstrap, topics, schemas) == 0
    assert published(bootstrap, table) == []


def test_a_transaction_that_the_broker_aborted_for_its_age_is_no_lost_lease(
    kafka: str, topics: TopicNames, schemas: SchemaRegistry, table: Table
) -> None:
    """The broker answers as if another publisher had taken over; the age tells them apart."""
    with delivering(
        kafka, topics, schemas, table, partitions=1, transaction_timeout_ms=1000
    ) as delivery:
        delivery.send(table.rows(0, 10))
        assert delivery._producer is not None
        delivery._producer.flush()
        wait_until_no_transaction_is_open(kafka, table.topic)
        with pytest.raises(DeliveryTimeout, match="the brokers abort after 1 s") as caught:
            commit(delivery, 0, 10)
        assert caught.value.retryable
    assert published(kafka, table) == []


def wait_until_no_transaction_is_open(bootstrap: str, topic: str) -> None:
    """Wait for a round of the broker, which aborts old transactions every second (fix_kafka)."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    where = TopicPartition(topic, 0)
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    deadline = time.monotonic() + 60
    ends = [0, 1]
    while ends[0] != ends[1]:
        assert time.monotonic() < deadline, "the transaction stays open"
        ends = [
            admin.list_offsets({where: newest}, isolation_level=level)[where].result(20).offset
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        threading.Event().wait(0.2)
