"""What the progress topic says was published, and whether an operator accepted a lost checkpoint.

A checkpoint and its progress record are written in one Kafka transaction. So progress records of a
database without a checkpoint mean that the checkpoint was lost. An operator accepts that by a
signal which names the newest progress record: once the publisher has gone on there is a newer one,
and the signal counts no more, whatever else is lost later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from tailrace_publisher.checkpoint.partition import PATIENCE_S, end_of, partition_reader
from tailrace_publisher.encode.records import RecordDecoder
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.ports import KafkaAccess
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, Progress
from tailrace_schemas.records.signals import AcceptedLoss, read_signal

_log = structlog.get_logger(__name__)

_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True)
class Published:
    """The newest progress record of a database.

    Attributes:
        offset: where it is in the progress topic.
        closed_lsn: everything up to it is out.
        closed_commit_ms: its commit time, milliseconds UTC.
        snapshotting: topics of tables that are not part of the cut.
    """

    offset: int
    closed_lsn: Lsn
    closed_commit_ms: int | None = None
    snapshotting: tuple[str, ...] = ()

    def accepted(self, server: str, database: str) -> AcceptedLoss:
        """The signal that accepts the loss of the checkpoint that came with this record."""
        return AcceptedLoss(server, database, self.offset, str(self.closed_lsn))


def newest_published(topics: DatabaseTopics, patience_s: float = PATIENCE_S) -> Published | None:
    """The newest progress record of a database; None when it was never published.

    The topic must exist. It is read backwards, so that a long one costs nothing where there is one.

    Args:
        topics: of the database.
        patience_s: seconds without a further record after which to give up.

    Raises:
        CheckpointUnavailable: it could not be read in time.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema cannot be had.
    """
    kafka, topic = topics.kafka, topics.names.progress
    decoder = RecordDecoder(PROGRESS_SCHEMA, topics.registry)
    end = end_of(kafka, topic, patience_s, topics.partition)
    with partition_reader(kafka, topic, partition=topics.partition) as reader:
        begin = reader.begin(patience_s)
        while end > begin:
            start = max(begin, end - _BLOCK)
            newest = None
            for message in reader.read(start, end, patience_s):
                try:
                    progress = Progress.from_record(decoder.decode(message.value() or b""))
                except (TypeError, ValueError, KeyError) as error:
                    raise CheckpointError(
                        f"topic {topic} holds a foreign record: {error}"
                    ) from error
                if (progress.server, progress.database) == (topics.server, topics.database):
                    newest = Published(
                        message.offset(),
                        Lsn.parse(progress.closed_lsn),
                        progress.closed_commit_ms,
                        tuple(progress.snapshotting),
                    )
            if newest is not None:
                return newest
            end = start
    return None


def accepting_offset(kafka: KafkaAccess, topic: str, wanted: AcceptedLoss) -> int | None:
    """Find the offset of the signal that accepts a lost checkpoint; None when there is none.

    Args:
        kafka: the brokers.
        topic: the signals topic; it must exist.
        wanted: what is to be accepted.

    Raises:
        CheckpointUnavailable: the topic could not be read.
    """
    found = None
    with partition_reader(kafka, topic) as reader:
        for message in reader.read_all(PATIENCE_S):
            try:
                signal = read_signal(message.value())
            except ValueError:
                continue  # told by whoever takes the signals
            if signal == wanted:
                found = int(message.offset())
    return found
