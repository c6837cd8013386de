"""Delivery of encoded rows in Kafka transactions that also hold checkpoint and progress.

Theory of operation. A transaction begins with the first rows after a commit. Its data is flushed
first, so that the delivery reports give the offsets of *this* transaction. Then the progress record
with the ledger and the changed checkpoints follow in the same transaction, and it is committed.

librdkafka speaks the transaction protocol without KIP-890's per-transaction epochs, so a delayed
request may touch a later transaction. Therefore the ledger in the progress record proves delivery,
not trust in the client.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tailrace_publisher.deliver.delivery_topics import DeliveryTopics
from tailrace_publisher.deliver.fixed_records import Checkpoints, FixedRecords, Message
from tailrace_publisher.deliver.kafka_errors import undelivered
from tailrace_publisher.deliver.ledger import LARGE_BYTES, PartitionLedger
from tailrace_publisher.deliver.options import DeliveryOptions
from tailrace_publisher.deliver.outbox_messages import OutboxMessages
from tailrace_publisher.deliver.partitioning import as_written
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.deliver.producer_options import queue_settings
from tailrace_publisher.deliver.progress_records import progress_records
from tailrace_publisher.deliver.sent import Sent
from tailrace_publisher.deliver.topics import TopicSpec
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import DeliveryRejected, OutcomeUnknown, PublisherError
from tailrace_publisher.options.broker_waits import UNKNOWN_TOPIC_S
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter
from tailrace_schemas.records.progress import PUBLISHER_HEADER, PatchedColumns, Progress
from tailrace_schemas.records.schema_changes import SchemaChange
from tailrace_schemas.records.transactions import Boundary
from tailrace_schemas.topics.topic_names import TableName

__all__ = ["Checkpoints", "KafkaDelivery"]

_NOT_STARTED: Final = "the delivery is not started or was closed. Fix: call start"
_HEADERS_BYTES: Final = 10_000  # of a dead letter


class KafkaDelivery:
    """Delivers encoded rows in Kafka transactions; one per transactional id at a time."""

    def __init__(self, topics: DatabaseTopics, options: DeliveryOptions) -> None:
        self._target = topics
        self._names = topics.names
        self._options = options
        self._topics = DeliveryTopics(topics, options)
        self._records: FixedRecords | None = None
        self._producer: TransactionalProducer | None = None
        self._sent = Sent(self._names.dead_letters)
        self._outboxes = OutboxMessages(self._topics.ensure, options.partitioner)
        self._signed = [(PUBLISHER_HEADER, f"{socket.gethostname()}:{os.getpid()}".encode())]

    @property
    def rows_in_transaction(self) -> int:
        """Events sent since the last commit."""
        return self._sent.rows

    @property
    def bytes_in_transaction(self) -> int:
        """Bytes of the events' values sent since the last commit."""
        return self._sent.bytes

    @property
    def age_s(self) -> float | None:
        """Seconds since the open Kafka transaction began; None without one."""
        return None if self._producer is None else self._producer.age_s

    def start(self) -> None:
        """Create the checkpoint and progress topics, and fence the previous producer.

        Raises:
            KafkaUnavailable: no broker answered; calling again may help.
            RegistryError: the registry did not accept the fixed records' schemas.
            DeliveryRejected: the brokers refuse this publisher.
            CheckpointRetentionTooShort: the checkpoint topic does not retain its records.
        """
        self._topics.ensure_own()
        self._records = FixedRecords(self._target, self._options)
        kafka = self._target.kafka
        queue = queue_settings(self._options.queue_bytes, kafka.options)
        producer = TransactionalProducer(
            replace(kafka, options=queue | dict(kafka.options)),
            self._options.transactional_id,
            self._options.transaction_timeout_ms,
            self._options.commit_timeout_s,
        )
        producer.init_transactions(self._options.start_timeout_s)
        self._producer = producer

    def ensure_topics(self, specs: Sequence[TopicSpec]) -> dict[str, int]:
        """Create missing topics; return the number of partitions of each topic.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers refused a topic, or one that holds events is gone.
            TopicCompacted: a topic that the ledger counts is compacted.
        """
        return self._topics.ensure(specs)

    def largest_event(self, topic: str) -> int:
        """Return the bytes that an event's key and value may have together, uncompressed."""
        return self._topics.largest_event(topic)

    def send(self, encoded: EncodedRows) -> None:
        """Queue events and dead letters; begin a transaction if none is open.

        The partition is crc32 of the key's Avro payload modulo the number of partitions, whatever
        the serialization. The frame is left out, so that a new version of the key's schema does not
        move keys. Events without a key go to partition 0: any other choice would lose their order.

        Raises:
            KafkaUnavailable: the queue stays full because the brokers accept nothing.
            RecordTooLarge: a record is larger than the producer may send.
            DeliveryRejected: the topic was never ensured.
            OutcomeUnknown, PublisherReplaced: the producer is unusable.
            SendingFailed: the table is an outbox, and a message cannot be sent.
        """
        if encoded.letters:
            self._send_letters(list(encoded.letters.values()))
            encoded = encoded.events()
        if not len(encoded):
            return
        count = self._topics.partitions(encoded.topic)
        producer = self._started()
        producer.begin()
        self._outboxes.send(producer, encoded, self._sent.messages)
        encoded, partitions = as_written(encoded, count, self._options.partitioner)
        self._sent.send(producer, encoded, partitions, tombstones=self._options.tombstones)

    def send_boundaries(self, boundaries: Sequence[Boundary]) -> None:
        """Queue the begin and end of source transactions, next to their events.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: as :meth:`send`.
        """
        if boundaries:
            messages = self._encoders().boundaries(boundaries)
            self._send_records(self._names.transaction, messages)

    def send_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Queue schema changes, each before its first event.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: as :meth:`send`.
        """
        messages = self._encoders().schema_changes(changes)
        self._send_records(self._names.ddl(self._target.database), messages)

    def _send_letters(self, letters: Sequence[DeadLetter]) -> None:
        producer = self._started()
        producer.begin()
        topic = self._names.dead_letters
        most = self.largest_event(topic) - _HEADERS_BYTES
        for letter in letters:
            value = letter.value()
            if value is not None and len(value) + len(letter.key or b"") > most:
                value = None  # the headers identify the row
            report = self._sent.letters.on_delivery
            producer.produce_one(topic, letter.key, value, 0, letter.headers(), report)
        self._sent.rows += len(letters)

    def _send_records(self, topic: str, messages: Iterable[Message]) -> None:
        producer = self._started()
        producer.begin()
        producer.produce(topic, messages, {})

    def commit(
        self,
        *,
        after_lsn: Lsn,
        closed_lsn: Lsn,
        closed_commit_ms: int | None,
        closed: bool,
        snapshotting: Iterable[TableName] = (),
        again: Iterable[TableName] = (),
        patched: Mapping[TableName, Sequence[str]] = MappingProxyType({}),
        checkpoints: Checkpoints,
    ) -> Progress:
        """Commit what was sent, together with its progress record and the checkpoints.

        If nothing was sent, the transaction holds the progress record alone and is the heartbeat. A
        fenced publisher also learns from it that it was replaced.

        Args:
            after_lsn: the closed LSN of the previous record.
            closed_lsn: everything up to it is published. This is true once the commit is done.
            closed_commit_ms: its source commit time, milliseconds UTC. None if unknown.
            closed: false if a source transaction continues in the next Kafka transaction.
            snapshotting: tables outside the cut, those that are gone included: readers would take
                a table that is named no more as complete.
            again: those that the previous record also names, and that start again here.
            patched: tables of which a patch ends here, with its columns.
            checkpoints: the changed records. None deletes one, also one of another form, by its key
                as in the topic.

        Returns:
            The progress record that was committed.

        Raises:
            DeliveryTimeout, KafkaUnavailable: not committed; start again from the checkpoint.
            OutcomeUnknown: perhaps committed; read the checkpoint back and start from it.
            DeliveryRejected, TopicRefused: not committed, and a retry would be refused too.
            PublisherReplaced: not committed; another publisher has taken over.
        """
        producer = self._started()
        producer.begin()
        if self._sent.rows:
            self._flush(producer)
        try:
            partitions = self._sent.ledger.progress()
        except PublisherError:
            self.close()
            raise
        progress = Progress(
            shard=0,
            server=self._target.server,
            database=self._target.database,
            after_lsn=str(after_lsn),
            closed_lsn=str(closed_lsn),
            closed_commit_ms=closed_commit_ms,
            closed=closed,
            published_ms=self._target.kafka.clock.now_ms(),
            partitions=partitions,
            snapshotting=list(dict.fromkeys(self._topics_of(snapshotting))),
            patched=[
                PatchedColumns(topic, list(columns))
                for table, columns in patched.items()
                for topic in self._topics_of([table])
            ],
        )
        self._send_progress(producer, progress, frozenset(self._topics_of(again)))
        if checkpoints:
            messages = self._encoders().checkpoints(checkpoints)
            producer.produce(self._names.offsets, messages, {})
        producer.commit()
        self._reset()
        return progress

    def _flush(self, producer: TransactionalProducer) -> None:
        """Wait for delivery; while it lasts, ask the brokers whether a topic was deleted.

        Raises:
            DeliveryTimeout: one may be. It would hold up all tables until the timeout.
            PublisherError: any error of :meth:`TransactionalProducer.flush`.
        """
        clock = self._target.kafka.clock
        asked = clock.monotonic()

        def failure() -> PublisherError | None:
            nonlocal asked
            found = self._sent.failure()
            waiting = self._sent.ledger.waiting()
            if found is None and waiting and clock.monotonic() - asked >= UNKNOWN_TOPIC_S:
                found = self._topics.doubt(waiting)
                asked = clock.monotonic()
            return found

        producer.flush(failure, self._sent.ledger.waiting)

    def abort(self) -> None:
        """Discard what was sent since the last commit, if anything.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: the producer cannot be used again;
                what was sent never becomes visible.
        """
        self._reset()
        if self._producer is not None:
            self._producer.abort()

    def close(self) -> None:
        """Abort an open transaction as far as possible, and drop the producer."""
        self._reset()
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _topics_of(self, tables: Iterable[TableName]) -> Iterator[str]:
        for table in tables:
            with suppress(ValueError):  # it cannot have a topic, so nobody reads one
                yield self._names.data(table)

    def _send_progress(
        self, producer: TransactionalProducer, progress: Progress, again: Set[str]
    ) -> None:
        """Queue the transaction's progress, in several records if one would be too large.

        Raises:
            RecordTooLarge: the brokers refuse its size.
            DeliveryRejected: the records cannot be small enough.
            DeliveryError, PublisherReplaced: see :meth:`commit`.
        """
        topic = self._names.progress
        encode, bytes_max = self._encoders().progress, self._topics.progress_bytes_max
        try:
            records = progress_records(progress, encode, bytes_max, again)
        except DeliveryRejected:
            self.close()
            raise
        for record in records:
            if len(records) == 1 and len(record) <= LARGE_BYTES:
                producer.produce(topic, [(None, record, 0)], {}, self._signed)
                continue
            # One by one, because the brokers limit the size of a batch. Without a flush here only
            # the commit would fail, without the reason, and be retried for ever.
            sent = PartitionLedger(topic, 0)
            messages = [(None, record, 0)]
            producer.produce(topic, messages, {0: sent.on_delivery}, self._signed)
            producer.flush(
                lambda sent=sent: (  # type: ignore[misc]
                    undelivered(topic, sent.partition, sent.failure)
                    if sent.failure is not None
                    else None
                )
            )

    def _encoders(self) -> FixedRecords:
        if self._records is None:
            raise OutcomeUnknown(_NOT_STARTED)
        return self._records

    def _started(self) -> TransactionalProducer:
        if self._producer is None:
            raise OutcomeUnknown(_NOT_STARTED)
        return self._producer

    def _reset(self) -> None:
        self._sent = Sent(self._names.dead_letters)
