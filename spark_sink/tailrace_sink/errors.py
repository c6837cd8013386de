"""Every error of the sink: what went wrong, where, and what to do about it.

Each class declares ``retryable``: the run loop tries those again, with a growing pause and a log
line; everything else stops the sink loudly. Errors of Spark's JVM are translated in one place
(``jvm_errors``) by the class names in their chain of causes, never by their text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

SNAPSHOT_HELPS: Final = "(tailrace snapshot)"
"""What an error's text says where something of a table is gone, and a new snapshot mends it."""


EXCLUDED: Final = "excluded by configuration"
"""Why a table is out of the cuts that the configuration leaves out."""


class SinkError(Exception):
    """Base of all errors that the sink raises on purpose."""

    retryable: ClassVar[bool] = False


class ConfigError(SinkError):
    """The configuration is not usable; names every wrong option at once.

    Attributes:
        problems: one sentence per wrong option: option, value, bounds and fix.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("configuration: " + "; ".join(self.problems))


class TableError(SinkError):
    """What concerns one table, whatever the others do: it stops alone and leaves the lake's cuts.

    A new snapshot brings it back.
    """


class KafkaUnavailable(SinkError):
    """No broker answers, or the progress topic does not exist yet: waiting helps."""

    retryable = True


class TopicUnknown(KafkaUnavailable):
    """The brokers do not know a topic: they have just started, or it was deleted."""


class ApplyFailed(SinkError):
    """Spark could not carry out a step of a batch; tried again a bounded number of times.

    Attributes:
        step: what was being done, with its table.
        cause_classes: Java classes of the chain of causes, outermost first.
    """

    retryable = True

    def __init__(self, step: str, reason: str, cause_classes: Sequence[str] = ()) -> None:
        self.step = step
        self.reason = reason
        self.cause_classes = tuple(cause_classes)
        super().__init__(f"{step} failed: {reason}")


class ChangesLost(SinkError):
    """Kafka no longer holds offsets that the lake still needs: retention overtook the sink.

    The table stops alone and leaves the lake's cuts; a new snapshot brings it back.
    """

    def __init__(self, step: str, reason: str) -> None:
        self.step = step
        super().__init__(
            f"{step}: the topics no longer hold changes that the lake needs ({reason}); raise their"
            f" retention, and take a new snapshot of the table {SNAPSHOT_HELPS}"
        )


class ProgressTruncated(SinkError):
    """The progress topic no longer holds records that come next: the log is opened again.

    It then goes on behind them (``late_beginning``).
    """

    retryable = True


class TopicGone(SinkError):
    """A topic was deleted before the lake had all of it.

    The table stops alone; a new snapshot brings it back.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} was deleted, with changes that the lake needs; take a new snapshot"
            f" of its table {SNAPSHOT_HELPS}, which makes it anew"
        )


class TopicMadeAnew(TableError):
    """A topic begins anew below offsets that the lake has: it was deleted and made again.

    The table stops alone; a new snapshot brings it back.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} was deleted and made again: changes that it held may never have come;"
            f" take a new snapshot of its table {SNAPSHOT_HELPS}"
        )


class LedgerMismatch(TableError):
    """A topic holds other changes than the ledger counted when they were written.

    The table stops alone; a new snapshot brings it back.

    Attributes:
        table: database.schema.table.
        topic: its topic.
        partition: the first one that differs; None when only the whole topic's number is known.
        expected: number of changes and sum of their position hashes, by the ledger.
        found: the same in the topic.
    """

    def __init__(
        self,
        table: str,
        topic: str,
        partition: int | None,
        expected: tuple[int, int | None],
        found: tuple[int, int | None],
    ) -> None:
        self.table = table
        self.topic = topic
        self.partition = partition
        self.expected = expected
        self.found = found
        where = f"topic {topic}" + ("" if partition is None else f" partition {partition}")
        held = f"{found[0]} changes where the publisher counted {expected[0]}"
        if found[0] == expected[0]:
            held = (
                f"{found[0]} changes, but others than the publisher counted (sum of position hashes"
                f" {found[1]} instead of {expected[1]})"
            )
        super().__init__(
            f"table {table}: {where} holds {held}: records were removed (compaction or retention)"
            " or written by somebody else; give the topic cleanup.policy=delete with enough"
            f" retention, and take a new snapshot of its table {SNAPSHOT_HELPS}"
        )


class ProgressGap(SinkError):
    """A progress record does not join on to the one before it.

    Attributes:
        shard: the publisher shard.
        expected_lsn: closed_lsn of the record before.
        found_lsn: after_lsn of the record.
    """

    def __init__(self, shard: int, expected_lsn: str, found_lsn: str, offset: int) -> None:
        self.shard = shard
        self.expected_lsn = expected_lsn
        self.found_lsn = found_lsn
        super().__init__(
            f"progress of shard {shard} jumps from LSN {expected_lsn} to {found_lsn} at offset"
            f" {offset}: the changes between were never published here; check the publisher's"
            " checkpoint topic, and start from a new snapshot into a new lake address"
        )


class LsnWentBackwards(SinkError):
    """The source's log is not the one that the lake follows (a database was restored)."""

    def __init__(self, shard: int, known_lsn: str, found_lsn: str, offset: int) -> None:
        self.shard = shard
        self.known_lsn = known_lsn
        self.found_lsn = found_lsn
        super().__init__(
            f"progress of shard {shard} goes back from LSN {known_lsn} to {found_lsn} at offset"
            f" {offset}: the source was restored or replaced; publish it under another prefix, into"
            " another lake address"
        )


class ForeignRecord(SinkError):
    """A record in one of our topics is not what the contract says."""


class SchemaUnknown(TableError):
    """Neither the lake nor the registry has a writer schema that the ledger names.

    The table stops alone; a new snapshot brings it back.

    Attributes:
        topic: whose events are written with it.
        schema_id: its id.
    """

    def __init__(self, topic: str, schema_id: int, reason: str) -> None:
        self.topic = topic
        self.schema_id = schema_id
        super().__init__(
            f"topic {topic}: the registry does not have schema {schema_id} ({reason}): it was"
            " deleted before the lake had it; register it again, and take a new snapshot of the"
            f" table {SNAPSHOT_HELPS}"
        )


class EventFormUnread(TableError):
    """The publisher was told to write events in another form than the sink reads.

    The table stops alone. A new snapshot does not help as long as its events have that form.

    Attributes:
        topic: whose events have it.
        found: the publisher's options that say so, with their values.
    """

    def __init__(self, topic: str, found: str) -> None:
        self.topic = topic
        self.found = found
        super().__init__(
            f"topic {topic}: its events have the publisher's {found}, and the sink reads"
            " event_form: debezium with serialization: avro only; publish for the lake under a"
            " prefix of its own, with event_form: debezium and serialization: avro"
        )


class TopicNameUnread(TableError):
    """The publisher was told to name topics otherwise than the sink finds their tables by.

    The table stops alone. A new snapshot does not help as long as its topic has that name.

    Attributes:
        topic: the topic.
        table: whose events it has.
    """

    def __init__(self, topic: str, table: str) -> None:
        self.topic = topic
        self.table = table
        super().__init__(
            f"topic {topic} has the events of table {table}, named by the publisher's topic_names,"
            " and the sink reads default names only; publish for the lake under a prefix of its"
            " own, without topic_names"
        )


class BadRecord(TableError):
    """A record of a data topic that is no change of its table.

    The table stops alone, at the cut before; with ``sink.on_bad_record: dead-letter`` the record is
    put aside instead.

    Attributes:
        table: database.schema.table.
        topic: where it is.
        partition: its partition.
        offset: its offset.
        reason: what is wrong with it.
    """

    def __init__(
        self, table: str, place: tuple[str, int, int], reason: str, also: str | None = None
    ) -> None:
        self.table = table
        self.topic, self.partition, self.offset = place
        self.reason = reason
        super().__init__(
            f"table {table}: the record of topic {self.topic} partition {self.partition} offset"
            f" {self.offset} is no change of it: {reason}; mend who wrote it, and take a new"
            f" snapshot of the table {SNAPSHOT_HELPS}; or set sink.on_bad_record to dead-letter to"
            " put such records aside" + ("" if also is None else f" ({also})")
        )


class BadRecordRefused(SinkError):
    """A record that cannot be applied, where ``sink.on_bad_record`` is ``fail``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"sink.on_bad_record is fail: {reason}")


class TableExcluded(TableError):
    """The configuration leaves a table out: what comes meanwhile is missing from it."""

    def __init__(self) -> None:
        super().__init__(EXCLUDED)


class UnsupportedSchemaChange(TableError):
    """A change of the source table that the lake table cannot follow without losing values.

    The table stops alone and leaves the lake's cuts; a new snapshot brings it back.

    Attributes:
        table: database.schema.table.
        column: the column, or empty when it is about the key.
    """

    def __init__(self, table: str, column: str, problem: str, fix: str) -> None:
        self.table = table
        self.column = column
        super().__init__(f"table {table}{f', column {column}' if column else ''}: {problem}; {fix}")


class LakeTableChanged(TableError):
    """Somebody else altered a lake table so that the sink cannot write to it.

    The table stops alone; a new snapshot makes it anew.

    Attributes:
        table: database.schema.table.
        column: the columns, or empty when nothing tells which they are.
    """

    def __init__(self, table: str, column: str, problem: str) -> None:
        self.table = table
        self.column = column
        super().__init__(
            f"table {table}{f', column {column}' if column else ''} of the lake was altered by"
            f" somebody else: {problem}; take a new snapshot of the source table (tailrace"
            " snapshot), which then replaces the lake's table"
        )


class AppendSkipped(TableError):
    """A lake table has a later batch than the one that was to be appended: nothing was written.

    The table stops alone.

    Attributes:
        location: of the table.
        batch: the batch to append.
        found: the newest one that the table has; None when it has none.
    """

    def __init__(self, location: str, batch: int, found: int | None) -> None:
        self.location = location
        self.batch = batch
        self.found = found
        super().__init__(
            f"lake table {location} has batch {found}, so Delta would not append batch {batch}: the"
            " table is another lake's, or the commit table was reset; move it away, and take a new"
            " snapshot of its source table (tailrace snapshot)"
        )


class LakeTaken(SinkError):
    """Another sink writes to the same lake: exactly one may."""

    def __init__(self, lake: str, known_batch: int, found_batch: int) -> None:
        super().__init__(
            f"lake {lake} is at batch {found_batch}, this sink left it at {known_batch}: another"
            " sink writes to it; stop one of the two"
        )
