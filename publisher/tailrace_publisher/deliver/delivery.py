"""Delivery of encoded rows in Kafka transactions that also hold checkpoint and progress.

Theory of operation. A transaction begins with the first rows after a commit. Its data is flushed
first, so that the delivery reports give the offsets of *this* transaction; then the progress record
with the ledger and the changed checkpoints follow in the same transaction, and it is committed.

librdkafka speaks the transaction protocol without KIP-890's per-transaction epochs, where a delayed
request may touch a later transaction. So the ledger in the progress record proves delivery, not
trust in the client.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Final

from tailrace_publisher.deliver.delivery_topics import DeliveryTopics
from tailrace_publisher.deliver.fixed_records import Checkpoints, FixedRecords, Message
from tailrace_publisher.deliver.kafka_errors import undelivered
from tailrace_publisher.deliver.ledger import LARGE_BYTES, PartitionLedger
from tailrace_publisher.deliver.options import DeliveryOptions
from tailrace_publisher.deliver.partitioning import as_written
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.deliver.producer_options import queue_settings
from tailrace_publisher.deliver.progress_records import progress_records
from tailrace_publisher.deliver.sent import Sent
from tailrace_publisher.deliver.tombstones import with_tombstones
from tailrace_publisher.deliver.topics import TopicSpec
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import DeliveryRejected, OutcomeUnknown, PublisherError
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter
from tailrace_schemas.records.progress import PUBLISHER_HEADER, Progress
from tailrace_schemas.records.schema_changes import SchemaChange
from tailrace_schemas.records.transactions import Boundary

__all__ = ["Checkpoints", "KafkaDelivery"]

_NOT_STARTED: Final = "the delivery is not started or was closed: call start"
_HEADERS_BYTES: Final = 10_000  # of a dead letter


class KafkaDelivery:
    """Delivers encoded rows in Kafka transactions; one per transactional id at a time.

    Args:
        topics: where to, and of which database.
        options: see DeliveryOptions.
    """

    def __init__(self, topics: DatabaseTopics, options: DeliveryOptions) -> None:
        self._target = topics
        self._names = topics.names
        self._options = options
        self._topics = DeliveryTopics(topics, options)
        self._records: FixedRecords | None = None
        self._producer: TransactionalProducer | None = None
        self._sent = Sent(self._names.dead_letters)
        self._signed = [(PUBLISHER_HEADER, f"{socket.gethostname()}:{os.getpid()}".encode())]

    @property
    def rows_in_transaction(self) -> int:
        """Events sent since the last commit."""
        return self._sent.rows

    @property
    def bytes_in_transaction(self) -> int:
        """Bytes of their values."""
        return self._sent.bytes

    @property
    def age_s(self) -> float | None:
        """Seconds since the open Kafka transaction began; None without one."""
        return None if self._producer is None else self._producer.age_s

    def start(self) -> None:
        """Create checkpoint and progress topics and fence the producer before.

        Raises:
            KafkaUnavailable: no broker answered; calling again may help.
            RegistryError: the registry did not take the fixed records' schemas.
            DeliveryRejected: the brokers refuse us.
            CheckpointRetentionTooShort: the checkpoint topic does not keep its records.
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
        """Create the topics that do not exist; give how many partitions each has.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers refused a topic, or one that holds events is gone.
            TopicCompacted: one that the ledger speaks of is compacted.
        """
        return self._topics.ensure(specs)

    def largest_event(self, topic: str) -> int:
        """Bytes that key and value of an event may have together, before they are compressed."""
        return self._topics.largest_event(topic)

    def send(self, encoded: EncodedRows) -> None:
        """Queue events and dead letters, beginning a transaction when none is open.

        The partition is crc32 of the key's Avro payload modulo the number of partitions, however it
        is written; the frame is left out, so that a new version of the key's schema does not move
        keys. Events without key go to partition 0: any other choice would lose their order.

        Raises:
            KafkaUnavailable: the queue stays full: the brokers take nothing.
            RecordTooLarge: a record is larger than the producer may send.
            DeliveryRejected: its topic was never ensured.
            OutcomeUnknown, PublisherReplaced: the producer is used up.
        """
        if encoded.letters:
            self._send_letters(list(encoded.letters.values()))
            encoded = encoded.events()
        if not len(encoded):
            return
        count = self._topics.partitions(encoded.topic)
        producer = self._started()
        producer.begin()
        encoded, partitions = as_written(encoded, count, self._options.partitioner)
        self._sent.add(encoded, partitions)
        keys: Sequence[bytes | None] = encoded.keys
        values: Sequence[bytes | None] = encoded.values
        if encoded.deletes and self._options.tombstones and keys[encoded.deletes[0]] is not None:
            keys, values, partitions = with_tombstones(encoded, partitions)
        reports = self._sent.ledger.reports(encoded.topic, partitions, values)
        headers = None if encoded.serializer is None else encoded.serializer.headers
        messages_of = zip(keys, values, partitions, strict=True)
        producer.produce(encoded.topic, messages_of, reports, headers)

    def send_boundaries(self, boundaries: Sequence[Boundary]) -> None:
        """Queue begins and ends of source transactions, beside the events that they speak of.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: as :meth:`send`.
        """
        if boundaries:
            messages = self._encoders().boundaries(boundaries)
            self._send_beside(self._names.transaction, messages)

    def send_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Queue schema changes, before the first event of theirs.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: as :meth:`send`.
        """
        messages = self._encoders().schema_changes(changes)
        self._send_beside(self._names.ddl(self._target.database), messages)

    def _send_letters(self, letters: Sequence[DeadLetter]) -> None:
        producer = self._started()
        producer.begin()
        topic = self._names.dead_letters
        most = self.largest_event(topic) - _HEADERS_BYTES
        for letter in letters:
            value = letter.value()
            if value is not None and len(value) + len(letter.key or b"") > most:
                value = None  # its headers say which row it is
            report = self._sent.letters.on_delivery
            producer.produce_one(topic, letter.key, value, 0, letter.headers(), report)
        self._sent.rows += len(letters)

    def _send_beside(self, topic: str, messages: Iterable[Message]) -> None:
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
        snapshotting: Sequence[str] = (),
        again: Set[str] = frozenset(),
        checkpoints: Checkpoints,
    ) -> Progress:
        """Commit what was sent together with its progress record and the checkpoints.

        With nothing sent it is the heartbeat: a transaction of the progress record alone, which
        also is how a fenced publisher learns that it is one.

        Args:
            after_lsn: the last closed LSN of the record before.
            closed_lsn: everything up to it is out once this is committed.
            closed_commit_ms: its commit time, milliseconds UTC.
            closed: false inside a source transaction that goes on in the next Kafka transaction.
            snapshotting: data topics of tables that are not part of the cut yet.
            again: those of them that the record before names, too, and that begin anew here.
            checkpoints: the records that changed; None takes one away, also one of another form, by
                its key as it is in the topic.

        Returns:
            The progress record that was committed.

        Raises:
            DeliveryTimeout, KafkaUnavailable: not committed; start again from the checkpoint.
            OutcomeUnknown: perhaps committed; start again from the checkpoint, read back.
            DeliveryRejected, TopicRefused: not committed, and it would be refused again.
            PublisherReplaced: not committed; another publisher has taken over.
        """
        producer = self._started()
        producer.begin()
        if self._sent.rows:
            producer.flush(self._sent.failure)
        try:
            partitions = self._sent.ledger.progress()
        except PublisherError:
            self.close()
            raise
        progress = Progress(
            shard=self._target.shard.number,
            server=self._target.server,
            database=self._target.database,
            after_lsn=str(after_lsn),
            closed_lsn=str(closed_lsn),
            closed_commit_ms=closed_commit_ms,
            closed=closed,
            published_ms=self._target.kafka.clock.now_ms(),
            partitions=partitions,
            snapshotting=list(snapshotting),
            shards=self._target.shard.map.shards,
        )
        self._send_progress(producer, progress, again)
        if checkpoints:
            messages = self._encoders().checkpoints(checkpoints)
            producer.produce(self._names.offsets, messages, {})
        producer.commit()
        self._reset()
        return progress

    def abort(self) -> None:
        """Throw away what was sent since the last commit; nothing happens when that is nothing.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: the producer cannot be used again;
                what was sent never becomes visible.
        """
        self._reset()
        if self._producer is not None:
            self._producer.abort()

    def close(self) -> None:
        """Abort an open transaction as far as that is possible and let the producer go."""
        self._reset()
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _send_progress(
        self, producer: TransactionalProducer, progress: Progress, again: Set[str]
    ) -> None:
        """Queue the transaction's progress, in several records where one would be too large.

        Raises:
            RecordTooLarge: the brokers do not take it.
            DeliveryRejected: it cannot be made small enough.
            DeliveryError, PublisherReplaced: see :meth:`commit`.
        """
        topic, partition = self._names.progress, self._target.partition
        encode, bytes_max = self._encoders().progress, self._topics.progress_bytes_max
        try:
            records = progress_records(progress, encode, bytes_max, again)
        except DeliveryRejected:
            self.close()
            raise
        for record in records:
            if len(records) == 1 and len(record) <= LARGE_BYTES:
                producer.produce(topic, [(None, record, partition)], {}, self._signed)
                continue
            # One after the other: the brokers' limit is of a batch. Refused, the commit alone would
            # fail, in other words, and be tried for ever.
            sent = PartitionLedger(topic, partition)
            messages = [(None, record, partition)]
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
