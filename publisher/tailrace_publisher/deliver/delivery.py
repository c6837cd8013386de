"""Delivery of encoded rows in Kafka transactions that also hold checkpoint and progress.

Theory of operation. A transaction begins with the first rows after a commit. Its data is flushed
first, so that the delivery reports give the offsets of *this* transaction; then the progress record
with the ledger and the changed checkpoints follow in the same transaction, and it is committed.

librdkafka speaks the transaction protocol without KIP-890's per-transaction epochs, where a delayed
request may touch a later transaction. So the ledger in the progress record proves delivery, not
trust in the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tailrace_publisher.deliver.kafka_errors import undelivered
from tailrace_publisher.deliver.ledger import Ledger, PartitionLedger
from tailrace_publisher.deliver.partitioning import as_written
from tailrace_publisher.deliver.producer import (
    TransactionalProducer,
    last_indexes,
    queue_settings,
)
from tailrace_publisher.deliver.progress_records import largest_record, progress_records
from tailrace_publisher.deliver.topic_settings import (
    check_keeps_newest,
    check_not_compacted,
    retention_limits,
    tell_durability,
    tell_retention,
)
from tailrace_publisher.deliver.topics import TopicAdmin, TopicSpec, require_partitions
from tailrace_publisher.encode.records import CheckpointEncoder, RecordEncoder, registered
from tailrace_publisher.encode.rows import EncodedRows
from tailrace_publisher.errors import DeliveryRejected, OutcomeUnknown, PublisherError
from tailrace_publisher.kafka_options import Partitioner
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.checkpoint import (
    CheckpointKey,
    DatabaseCheckpoint,
    TableCheckpoint,
)
from tailrace_schemas.dead_letters import DeadLetter
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.progress import ONE_SHARD_SCHEMA, PROGRESS_SCHEMA, Progress
from tailrace_schemas.schema_changes import (
    SCHEMA_CHANGE_KEY_SCHEMA,
    SCHEMA_CHANGE_SCHEMA,
    SchemaChange,
)
from tailrace_schemas.topics import key_subject, value_subject
from tailrace_schemas.transactions import BOUNDARY_KEY_SCHEMA, BOUNDARY_SCHEMA, Boundary

_NOT_STARTED: Final = "the delivery is not started or was closed: call start"
_COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
_LARGE_BYTES: Final = 100_000  # from here on each record is reported: a broker may refuse it
_HEADERS_BYTES: Final = 10_000  # of a dead letter
_KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}


_BOUNDARY_SCHEMAS: Final = (BOUNDARY_KEY_SCHEMA, BOUNDARY_SCHEMA)
_CHANGE_SCHEMAS: Final = (SCHEMA_CHANGE_KEY_SCHEMA, SCHEMA_CHANGE_SCHEMA)
Checkpoints = Mapping[CheckpointKey | bytes, DatabaseCheckpoint | TableCheckpoint | None]


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """How to talk to Kafka.

    Attributes:
        transactional_id: stable per publisher; whoever starts with it fences the one before.
        replication_factor: copies of topics that are created; None leaves it to the brokers.
        tombstones: whether deletes are followed by a record with a null value.
        commit_timeout_s: until an unfinished transaction counts as failed or unknown.
        start_timeout_s: longest wait for brokers at the start.
        transaction_timeout_ms: after which the brokers abort a transaction by themselves; must
            exceed the longest one.
        queue_bytes: messages that wait to be sent may take so much memory.
        transactions: whether there is a topic of begin and end of transactions.
        schema_changes: whether there is a topic of schema changes.
        dead_letters: whether events that cannot be published go to a topic of their own.
        topic_settings: of these three.
        partitioner: what chooses the partition of a key.
    """

    transactional_id: str
    replication_factor: int | None = None
    tombstones: bool = True
    commit_timeout_s: float = 60.0
    start_timeout_s: float = 30.0
    transaction_timeout_ms: int = 300_000
    queue_bytes: int = 128_000_000
    transactions: bool = False
    schema_changes: bool = False
    dead_letters: bool = False
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    partitioner: Partitioner = Partitioner.CRC32


class KafkaDelivery:
    """Delivers encoded rows in Kafka transactions; one per transactional id at a time.

    Args:
        topics: where to, and of which database.
        options: see DeliveryOptions.
    """

    def __init__(self, topics: DatabaseTopics, options: DeliveryOptions) -> None:
        self._target = topics
        self._topics = topics.names
        self._options = options
        self._shards = topics.shard.map.shards
        self._partition = topics.partition
        self._producer: TransactionalProducer | None = None
        self._partitions: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._records: dict[str, RecordEncoder] = {}
        self._checkpoints: CheckpointEncoder | None = None
        self._progress_bytes_max = largest_record(topics.kafka.options, {})
        self._ledger = Ledger()
        self._letters = PartitionLedger(self._topics.dead_letters, 0)
        self._rows = 0
        self._bytes = 0

    @property
    def rows_in_transaction(self) -> int:
        """Events sent since the last commit."""
        return self._rows

    @property
    def bytes_in_transaction(self) -> int:
        """Bytes of their values."""
        return self._bytes

    def start(self) -> None:
        """Create checkpoint and progress topics and fence the producer before.

        Raises:
            KafkaUnavailable: no broker answered; calling again may help.
            RegistryError: the registry did not take the fixed records' schemas.
            DeliveryRejected: the brokers refuse us.
            CheckpointForgets: the checkpoint topic does not keep its records.
        """
        self.ensure_topics(
            [
                TopicSpec(self._topics.offsets, self._shards, _COMPACTED),
                TopicSpec(self._topics.progress, self._shards, _KEPT),
                *self._topics_beside(),
            ]
        )
        own = [self._topics.offsets, self._topics.progress]
        require_partitions(self._partitions, own, self._shards)
        self._check_settings()
        registry = self._target.registry
        self._checkpoints = CheckpointEncoder(registry, self._topics.offsets)
        for subject, schema in self._schemas():
            self._records[schema["name"]] = registered(registry, subject, schema)
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

    def ensure_topics(self, specs: Sequence[TopicSpec]) -> None:
        """Create the topics that do not exist; one that does keeps its partitions.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers refused a topic, or one that holds events is gone.
            TopicCompacted: one that the ledger speaks of is compacted.
        """
        admin = self._admin()
        found = admin.ensure(specs)
        ledgered = {spec.name for spec in specs if spec.is_ledgered}
        asked = list(found) if self._options.dead_letters else sorted(ledgered)
        for topic, settings in admin.settings(asked).items():
            if topic in ledgered:
                check_not_compacted(topic, settings)
            self._largest[topic] = largest_record(self._target.kafka.options, settings)
        self._partitions.update(found)

    def largest_event(self, topic: str) -> int:
        """Bytes that key and value of an event may have together, before they are compressed."""
        return self._largest.get(topic) or largest_record(self._target.kafka.options, {})

    def send(self, encoded: EncodedRows) -> None:
        """Queue events and dead letters, beginning a transaction when none is open.

        The partition is crc32 of the key's Avro payload modulo the number of partitions, however it
        is written; the frame is left out, so that a new version of the key's schema does not move
        keys. Events without key go to partition 0: any other choice would lose their order.

        Raises:
            KafkaUnavailable: the queue stays full: the brokers take nothing.
            RecordTooLarge: a record is larger than the producer may send.
            DeliveryRejected: its topic was never ensured.
            OutcomeUnknown, LeaseLost: the producer is used up.
        """
        if encoded.letters:
            self._send_letters(list(encoded.letters.values()))
            encoded = encoded.events()
        if not len(encoded):
            return
        count = self._partitions.get(encoded.topic)
        if count is None:
            raise DeliveryRejected(f"topic {encoded.topic}: ensure_topics was not asked for it")
        producer = self._started()
        producer.begin()
        encoded, partitions = as_written(encoded, count, self._options.partitioner)
        self._ledger.add(encoded, partitions)
        self._rows += len(encoded)
        self._bytes += encoded.size
        keys: Sequence[bytes | None] = encoded.keys
        values: Sequence[bytes | None] = encoded.values
        if encoded.deletes and self._options.tombstones and keys[encoded.deletes[0]] is not None:
            keys, values, partitions = _with_tombstones(encoded, partitions)
        reports = {
            index: self._ledger.entry(encoded.topic, partition).on_delivery
            for partition, index in last_indexes(partitions).items()
        }
        for partition, messages in Counter(partitions).items():
            entry = self._ledger.entry(encoded.topic, partition)
            if entry.messages == 0:
                reports[partitions.index(partition)] = entry.on_delivery
            entry.messages += messages
        if max(map(len, encoded.values)) > _LARGE_BYTES:
            for index, value in enumerate(values):
                if value is not None and len(value) > _LARGE_BYTES:
                    entry = self._ledger.entry(encoded.topic, partitions[index])
                    reports[index] = entry.on_delivery
        headers = None if encoded.serializer is None else encoded.serializer.headers
        messages_of = zip(keys, values, partitions, strict=True)
        producer.produce(encoded.topic, messages_of, reports, headers)

    def send_boundaries(self, boundaries: Sequence[Boundary]) -> None:
        """Queue begins and ends of source transactions, beside the events that they speak of.

        Raises:
            KafkaUnavailable, OutcomeUnknown, LeaseLost: as :meth:`send`.
        """
        if boundaries:
            self._send_beside(self._topics.transaction, _BOUNDARY_SCHEMAS, boundaries)

    def send_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Queue schema changes, before the first event of theirs.

        Raises:
            KafkaUnavailable, OutcomeUnknown, LeaseLost: as :meth:`send`.
        """
        self._send_beside(self._topics.ddl(self._target.database), _CHANGE_SCHEMAS, changes)

    def _send_letters(self, letters: Sequence[DeadLetter]) -> None:
        producer = self._started()
        producer.begin()
        topic = self._topics.dead_letters
        most = self.largest_event(topic) - _HEADERS_BYTES
        for letter in letters:
            value = letter.value()
            if value is not None and len(value) + len(letter.key or b"") > most:
                value = None  # its headers say which row it is
            report = self._letters.on_delivery
            producer.produce_one(topic, letter.key, value, 0, letter.headers(), report)
        self._rows += len(letters)

    def _send_beside(
        self,
        topic: str,
        schemas: tuple[dict[str, Any], dict[str, Any]],
        records: Sequence[Boundary | SchemaChange],
    ) -> None:
        producer = self._started()
        producer.begin()
        key, value = (self._records[schema["name"]].encode for schema in schemas)
        messages = [(key(r.to_key()), value(r.to_record()), 0) for r in records]
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
            LeaseLost: not committed; another publisher has taken over.
        """
        producer = self._started()
        producer.begin()
        if self._rows:
            producer.flush(self._failure)
        try:
            partitions = self._ledger.progress()
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
            shards=self._shards,
        )
        self._send_progress(producer, progress, again)
        if checkpoints:
            encoder = self._encoder()
            messages = [
                (
                    key if isinstance(key, bytes) else encoder.key(key),
                    encoder.value(record),
                    self._partition,
                )
                for key, record in checkpoints.items()
            ]
            producer.produce(self._topics.offsets, messages, {})
        producer.commit()
        self._reset()
        return progress

    def abort(self) -> None:
        """Throw away what was sent since the last commit; nothing happens when that is nothing.

        Raises:
            KafkaUnavailable, OutcomeUnknown, LeaseLost: the producer is used up; what was sent will
                still never be visible.
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
            DeliveryError, LeaseLost: see :meth:`commit`.
        """
        topic = self._topics.progress
        encode = self._records["Progress"].encode
        try:
            records = progress_records(progress, encode, self._progress_bytes_max, again)
        except DeliveryRejected:
            self.close()
            raise
        for record in records:
            if len(records) == 1 and len(record) <= _LARGE_BYTES:
                producer.produce(topic, [(None, record, self._partition)], {})
                continue
            # One after the other: the brokers' limit is of a batch. Refused, the commit alone would
            # fail, in other words, and be tried for ever.
            sent = PartitionLedger(topic, self._partition)
            messages = [(None, record, self._partition)]
            producer.produce(topic, messages, {0: sent.on_delivery})
            producer.flush(
                lambda sent=sent: (  # type: ignore[misc]
                    undelivered(topic, sent.partition, sent.failure)
                    if sent.failure is not None
                    else None
                )
            )

    def _topics_beside(self) -> list[TopicSpec]:
        """What is published beside the data, each in one partition: in the order of the source."""
        options, names = self._options, []
        if options.transactions:
            names.append(self._topics.transaction)
        if options.schema_changes:
            names.append(self._topics.ddl(self._target.database))
        specs = [TopicSpec(name, 1, options.topic_settings) for name in names]
        if options.dead_letters:
            settings = {**_KEPT, **options.topic_settings}
            specs.append(TopicSpec(self._topics.dead_letters, 1, settings))
        return specs

    def _schemas(self) -> list[tuple[str, dict[str, Any]]]:
        """The fixed records' schemas, by subject; but the checkpoint's."""
        topics = self._topics
        found = [
            (
                value_subject(topics.progress),
                ONE_SHARD_SCHEMA if self._shards == 1 else PROGRESS_SCHEMA,
            ),
        ]
        if self._options.transactions:
            found.append((key_subject(topics.transaction), BOUNDARY_KEY_SCHEMA))
            found.append((value_subject(topics.transaction), BOUNDARY_SCHEMA))
        if self._options.schema_changes:
            topic = topics.ddl(self._target.database)
            found.append((key_subject(topic), SCHEMA_CHANGE_KEY_SCHEMA))
            found.append((value_subject(topic), SCHEMA_CHANGE_SCHEMA))
        return found

    def _admin(self) -> TopicAdmin:
        return TopicAdmin(
            self._target.kafka, self._options.replication_factor, self._options.start_timeout_s
        )

    def _check_settings(self) -> None:
        """Look at how checkpoint and progress are kept.

        Raises:
            CheckpointForgets: the checkpoint topic does not keep its records.
        """
        names = [self._topics.offsets, self._topics.progress]
        admin = self._admin()
        settings = admin.settings(names)
        if self._topics.offsets in settings:
            check_keeps_newest(self._topics.offsets, settings[self._topics.offsets])
        progress = settings.get(self._topics.progress, {})
        if retention_limits(progress):
            data = admin.existing(lambda name: self._topics.table_of(name) is not None)
            tell_retention(self._topics.progress, progress, admin.settings(data))
        self._progress_bytes_max = largest_record(self._target.kafka.options, progress)
        tell_durability(admin.copies(names), settings)

    def _failure(self) -> PublisherError | None:
        entry = self._letters if self._letters.failure else self._ledger.failed()
        if entry is None:
            return None
        return undelivered(entry.topic, entry.partition, entry.failure)

    def _encoder(self) -> CheckpointEncoder:
        if self._checkpoints is None:
            raise OutcomeUnknown(_NOT_STARTED)
        return self._checkpoints

    def _started(self) -> TransactionalProducer:
        if self._producer is None:
            raise OutcomeUnknown(_NOT_STARTED)
        return self._producer

    def _reset(self) -> None:
        self._ledger = Ledger()
        self._letters = PartitionLedger(self._topics.dead_letters, 0)
        self._rows = 0
        self._bytes = 0


def _with_tombstones(
    encoded: EncodedRows, partitions: Sequence[int]
) -> tuple[list[bytes | None], list[bytes | None], list[int]]:
    """Put a null value with the same key behind every delete."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    targets: list[int] = []
    done = 0
    for index in encoded.deletes:
        keys += encoded.keys[done : index + 1]
        values += encoded.values[done : index + 1]
        targets += partitions[done : index + 1]
        keys.append(encoded.keys[index])
        values.append(None)
        targets.append(partitions[index])
        done = index + 1
    keys += encoded.keys[done:]
    values += encoded.values[done:]
    targets += partitions[done:]
    return keys, values, targets
