"""What was sent since the last commit: events and dead letters, and whether they were delivered."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_publisher.deliver.kafka_errors import undelivered
from tailrace_publisher.deliver.ledger import Ledger, PartitionLedger
from tailrace_publisher.deliver.outbox_messages import MessageReports
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.deliver.tombstones import with_tombstones
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import OutcomeUnknown, PublisherError


class Sent:
    """The contents of one Kafka transaction.

    Args:
        dead_letters: topic of the dead letters.

    Attributes:
        letters: the ledger of the dead letters, which no progress record names.
        messages: the delivery reports of messages of outboxes.
        rows: events and dead letters.
        bytes: of the events' values.
    """

    def __init__(self, dead_letters: str) -> None:
        self.ledger = Ledger()
        self.letters = PartitionLedger(dead_letters, 0)
        self.messages = MessageReports()
        self.rows = 0
        self.bytes = 0

    def send(
        self,
        producer: TransactionalProducer,
        encoded: EncodedRows,
        partitions: Sequence[int],
        *,
        tombstones: bool,
    ) -> None:
        """Queue events in an open transaction, and count them.

        Args:
            encoded: with the bytes that are sent.
            partitions: one for each event.
            tombstones: whether one follows each delete.

        Raises:
            DeliveryError, PublisherReplaced: as :meth:`TransactionalProducer.produce`.
        """
        self.ledger.add(encoded, partitions)
        self.rows += len(encoded)
        self.bytes += encoded.size
        keys: Sequence[bytes | None] = encoded.keys
        values: Sequence[bytes | None] = encoded.values
        if encoded.deletes and tombstones and keys[encoded.deletes[0]] is not None:
            keys, values, partitions = with_tombstones(encoded, partitions)
        reports = self.ledger.reports(encoded.topic, partitions, values)
        headers = None if encoded.serializer is None else encoded.serializer.headers
        messages = zip(keys, values, partitions, strict=True)
        producer.produce(encoded.topic, messages, reports, headers)

    def failure(self) -> PublisherError | None:
        """Return why something cannot be delivered, as a report says; None if nothing failed.

        If the brokers refuse one partition of a transaction, librdkafka purges the records of the
        others. So a known cause counts before an unknown one, whichever was reported first.
        """
        letters = [] if self.letters.failure is None else [self.letters]
        found = [
            *(undelivered(e.topic, e.partition, e.failure) for e in self.ledger.failed() + letters),
            *self.messages.failures(),
        ]
        known = (error for error in found if not isinstance(error, OutcomeUnknown))
        return next(known, found[0] if found else None)
