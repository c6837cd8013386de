"""What the progress topic proves was published, and whether an operator accepted a lost checkpoint.

A checkpoint and its progress record are written in one Kafka transaction. So progress records of a
database without a checkpoint prove that the checkpoint was lost. An operator accepts that by a
signal that names the newest progress record. Once the publisher has continued, there is a newer
record. The signal then no longer counts, whatever is lost later.

A checkpoint topic may also lose only its end: after an unclean election of a leader, or with a disk
that was restored. Then the newest progress record is after the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.checkpoint.partition import end_of, partition_reader
from tailrace_publisher.encode.records import RecordDecoder
from tailrace_publisher.errors import CheckpointError, CheckpointLost
from tailrace_publisher.options.broker_waits import PATIENCE_S
from tailrace_publisher.ports import KafkaAccess
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, Progress
from tailrace_schemas.records.signals import AcceptedLoss, read_signal

_log = structlog.get_logger(__name__)

_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True)
class Published:
    """The newest progress record of a database.

    Attributes:
        offset: its offset in the progress topic.
        closed_lsn: everything up to it is published.
        closed_commit_ms: source commit time, milliseconds UTC.
        is_inside: whether it counts events of a source transaction that it does not close.
    """

    offset: int
    closed_lsn: Lsn
    closed_commit_ms: int | None = None
    snapshotting: tuple[str, ...] = ()
    is_inside: bool = False

    def is_after(self, own: DatabaseCheckpoint) -> bool:
        """Return whether more was published than the database's own record says.

        Both are written in one transaction, so the record has lost its end. Of a source transaction
        that spans several Kafka transactions, only the loss of all its records is noticed.
        """
        if self.closed_lsn == own.closed_lsn:
            return self.is_inside and is_closed(own.position)
        return self.closed_lsn > own.closed_lsn

    def accepted(self, server: str, database: str) -> AcceptedLoss:
        """Return the signal that accepts the loss of the checkpoint committed with this record."""
        return AcceptedLoss(server, database, self.offset, str(self.closed_lsn))


def newest_published(
    topics: DatabaseTopics,
    patience_s: float = PATIENCE_S,
    *,
    before: int | None = None,
    block: int = _BLOCK,
) -> Published | None:
    """Return the newest progress record of a database; None if it was never published.

    The topic's length does not matter if it has such a record. See :func:`progress_backwards`, also
    for the arguments and for what it raises.
    """
    for records in progress_backwards(topics, patience_s, before=before, block=block):
        offset, progress = records[-1]
        return Published(
            offset,
            Lsn.parse(progress.closed_lsn),
            progress.closed_commit_ms,
            tuple(progress.snapshotting),
            not progress.closed and bool(progress.partitions),
        )
    return None


def check_whole(
    topics: DatabaseTopics, own: DatabaseCheckpoint, published: Published | None
) -> None:
    """Check that the database's own record is the newest that was written.

    Raises:
        CheckpointLost: a progress record is newer.
    """
    if published is not None and published.is_after(own):
        names, database, found = topics.names, topics.database, own.closed_lsn
        raise CheckpointLost(names, database, published.offset, published.closed_lsn, found)


def progress_backwards(
    topics: DatabaseTopics,
    patience_s: float = PATIENCE_S,
    *,
    before: int | None = None,
    block: int = _BLOCK,
) -> Iterator[list[tuple[int, Progress]]]:
    """Yield the progress records of a database in blocks, the newest block first.

    The topic must exist. Within a block, which is never empty, the oldest record is first; each
    comes with its offset.

    Args:
        patience_s: seconds without a further record until it gives up.
        before: offset at which to end, at most the end of the topic; None: the end.
        block: number of offsets that are read at once.

    Raises:
        CheckpointUnavailable: the topic could not be read in time.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema is not available.
    """
    for records in _backwards(topics, patience_s, before, block):
        own = [
            (offset, progress)
            for offset, progress in records
            if (progress.server, progress.database) == (topics.server, topics.database)
        ]
        if own:
            yield own


def others_published(
    topics: DatabaseTopics, patience_s: float = PATIENCE_S, *, block: int = _BLOCK
) -> set[str]:
    """Return other databases of the server that the newest progress records are of.

    A checkpoint topic that lost its records does not show them. See :func:`progress_backwards` for
    the arguments, and for what it requires and raises.
    """
    newest = next(_backwards(topics, patience_s, None, block), [])
    found = {progress.database for _, progress in newest if progress.server == topics.server}
    return found - {topics.database}


def _backwards(
    topics: DatabaseTopics, patience_s: float, before: int | None, block: int
) -> Iterator[list[tuple[int, Progress]]]:
    """Yield the progress records of all databases, as :func:`progress_backwards` does."""
    kafka, topic = topics.kafka, topics.names.progress
    decoder = RecordDecoder(PROGRESS_SCHEMA, topics.registry)
    end = end_of(kafka, topic, patience_s) if before is None else before
    with partition_reader(kafka, topic) as reader:
        begin = reader.begin(patience_s)
        while end > begin:
            start = max(begin, end - block)
            records = []
            for message in reader.read(start, end, patience_s):
                try:
                    progress = Progress.from_record(decoder.decode(message.value() or b""))
                except (TypeError, ValueError, KeyError) as error:
                    raise CheckpointError(
                        f"topic {topic} holds a foreign record: {error}"
                    ) from error
                records.append((int(message.offset()), progress))
            yield records
            end = start


def accepting_offset(kafka: KafkaAccess, topic: str, wanted: AcceptedLoss) -> int | None:
    """Find the offset of the signal that accepts a lost checkpoint; None if there is none.

    Args:
        topic: the signals topic, which must exist.
        wanted: the signal to find.

    Raises:
        CheckpointUnavailable: the topic could not be read.
    """
    found = None
    with partition_reader(kafka, topic) as reader:
        for message in reader.read_all(PATIENCE_S):
            try:
                signal = read_signal(message.value())
            except ValueError:
                continue  # the reader of signals logs it
            if signal == wanted:
                found = int(message.offset())
    return found
