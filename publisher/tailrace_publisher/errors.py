"""Every error of the publisher: what went wrong, where, and what to do about it.

Each class says two things of itself:

- ``retryable``: whether waiting helps. One loop in the daemon retries those, with backoff and a log
  line; everything else stops the daemon loudly.
- ``of_one_table``: whether it concerns one table alone when it comes while that table is handled.
  That is the default, because what nobody thought of must not end the other tables; an error that
  concerns all of them says so.

Errors of libraries are translated at the rim, by code (SQLSTATE, native error number, Kafka error
code), never by their text.

A publisher that has published before has shown that its configuration is right. From then on it
also retries those errors of the source which ``may_heal``: that is every one but those that only a
change of statements, permissions, passwords or options mends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from tailrace_schemas.lsn import Lsn
from tailrace_schemas.topics import TableName, TopicNames

_NEVER_HEALS: Final = frozenset({207, 208, 916})
"""Invalid column or object name: a statement of ours does not fit the database. And a login that
has no user in the database."""


class PublisherError(Exception):
    """Base of all errors that the publisher raises on purpose.

    Attributes:
        retryable: whether waiting helps.
        of_one_table: whether it concerns one table alone when it comes while that one is handled.
        of_events: whether it is about events that cannot be published (``on_bad_event``).
        waited_for_s: seconds for which waiting may help; None for as long as it takes.
    """

    retryable: ClassVar[bool] = False
    of_events: ClassVar[bool] = False
    waited_for_s: ClassVar[float | None] = None
    of_one_table: ClassVar[bool] = True

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help where the same configuration has worked before."""
        return self.retryable


class ConfigError(PublisherError):
    """The configuration is not usable; names every wrong option at once.

    Attributes:
        problems: one sentence per wrong option: option, value, bounds and fix.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("configuration: " + "; ".join(self.problems))


class PreflightError(PublisherError):
    """The source is not ready to be published; names every problem at once.

    Attributes:
        problems: one sentence per problem, with the statement or grant that fixes it.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("the source is not ready: " + "; ".join(self.problems))


class StartRefused(PublisherError):
    """The changes do not go back to where the configuration wants to begin, or on to there.

    Attributes:
        problems: one sentence per table or option, with the LSN that would do.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("publisher.start: " + "; ".join(self.problems))


class SnapshotsIncomplete(PublisherError):
    """Not every table is out where only snapshots were asked for (snapshot.mode: initial_only).

    Attributes:
        tables: those that were stopped; the log and their checkpoints say what for.
    """

    of_one_table = False

    def __init__(self, tables: Sequence[TableName]) -> None:
        self.tables = tuple(tables)
        super().__init__(
            "the snapshots are out but for tables that were stopped: "
            + ", ".join(map(str, self.tables))
            + "; mend their causes (table_stopped in the log) and ask for them: tailrace snapshot"
        )


class SourceError(PublisherError):
    """SQL Server did not do what was asked.

    Attributes:
        sqlstate: five characters of the ODBC diagnostic record, empty when the error is ours.
        number: SQL Server's native error number, 0 when there is none.
    """

    heals: ClassVar[bool] = True

    def __init__(self, message: str, *, sqlstate: str = "", number: int = 0) -> None:
        self.sqlstate = sqlstate
        self.number = number
        super().__init__(message)

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help: of what the source says, mostly."""
        return self.heals and self.number not in _NEVER_HEALS


class SourceUnavailable(SourceError):
    """The server cannot be reached, or broke the connection off: waiting may help."""

    retryable = True
    of_one_table = False


class SourceBusy(SourceError):
    """A deadlock, a lock timeout or a query timeout: the same statement may succeed next time."""

    retryable = True
    of_one_table = False


class SourceBehind(SourceError):
    """The connection that reads change rows sees less than the one that planned the window.

    They are at different replicas: a page would end early and look like the last one. Nothing has
    moved, and starting again asks both anew.

    Attributes:
        instance: the capture instance whose page was refused.
        seen: newest LSN that the connection sees; None when it sees none.
        needed: the window's end.
    """

    retryable = True
    of_one_table = False

    def __init__(self, instance: str, seen: Lsn | None, needed: Lsn) -> None:
        self.instance = instance
        self.seen = seen
        self.needed = needed
        super().__init__(
            f"capture instance {instance}: change rows up to {needed} are to be read, but the"
            f" reading connection sees them up to {seen} (sys.fn_cdc_get_max_lsn): it is at a"
            " replica that is behind the one of the other connection. It is tried again; if it"
            " lasts, let source.host name one replica, or set source.application_intent: ReadWrite"
        )


class SnapshotTooLarge(SourceError):
    """A table without columns that tell its rows apart does not fit into one chunk.

    Attributes:
        table: the table.
        rows: rows that were read until then.
        size_max: bytes that it may take in memory.
    """

    heals = False

    def __init__(self, table: TableName, rows: int, size_max: int) -> None:
        self.table = table
        self.rows = rows
        self.size_max = size_max
        super().__init__(
            f"table {table} has no primary key, and no unique index over columns that are NOT NULL"
            f" is named for its capture instance: its snapshot must be read at once, and {rows} of"
            f" its rows took more than snapshot.memory_mb ({size_max // 1_000_000} MB). Give it a"
            " primary key or such an index and enable a capture instance with it"
            " (sys.sp_cdc_enable_table @index_name), or raise snapshot.memory_mb, or let it begin"
            " with the changes from now on (snapshot.mode: no_data)"
        )


class LoginRefused(SourceError):
    """User or password are wrong, or the account may not log in."""

    heals = False
    of_one_table = False


class DatabaseUnknown(SourceError):
    """The database does not exist, or the login may not open it.

    A server says the same of a database that it is moving, restoring or attaching.
    """

    of_one_table = False


class EncryptionRefused(SourceError):
    """Server and client do not agree on TLS, or the certificate is not trusted."""

    of_one_table = False


class PermissionMissing(SourceError):
    """A statement was refused for want of a permission."""

    heals = False


class StillStopped(SourceError):
    """A table was stopped before this start, and nothing says that it could go on now.

    Attributes:
        kind: class of the error that it was stopped for; empty where it is not known.
        reason: its text.
    """

    heals = False

    def __init__(self, reason: str | None) -> None:
        self.kind, _, self.reason = (
            reason or ": not known, an earlier version did not keep it"
        ).partition(": ")
        super().__init__(self.reason)


class TableRenamed(SourceError):
    """A table that was published has another name now (sp_rename, ALTER SCHEMA .. TRANSFER).

    Attributes:
        was: under which it was published.
        now: what it is called.
    """

    heals = False

    def __init__(self, was: TableName, now: TableName) -> None:
        self.was = was
        self.now = now
        super().__init__(
            f"table {now} is the one that was published as {was} (the same object id): under its"
            " new name it would get a new topic. Give it its old name again; or go on under the"
            " old topic with tables.on_rename: keep_topic; or take a snapshot into a new topic:"
            f" tailrace snapshot '{now.schema}.{now.table}'"
        )


class PositionExpired(SourceError):
    """Change rows behind our position are gone before they were read: a gap.

    Attributes:
        instance: the capture instance.
        requested: LSN from which rows are still needed.
        minimum: lowest LSN that the capture instance holds; None where it is not known yet.
        disabled: instances that held the rows and were disabled; empty when cleanup took them.
    """

    heals = False

    def __init__(
        self, instance: str, requested: Lsn, minimum: Lsn | None, disabled: Sequence[str] = ()
    ) -> None:
        self.instance = instance
        self.requested = requested
        self.minimum = minimum
        self.disabled = tuple(disabled)
        begins = (
            f"holds its table's changes from {minimum} on"
            if minimum is not None
            else "was disabled, and no other is recognised by the capture process yet"
        )
        text = (
            f"capture instance {instance}: rows after {requested} are needed but its change table"
            f" starts at {minimum} (sys.fn_cdc_get_min_lsn): the cleanup job has removed rows that"
            " were never published. Take a new snapshot of its table (tailrace snapshot, or"
            " snapshot.on_gap: snapshot),"
            " and raise the retention with sys.sp_cdc_change_job @job_type = N'cleanup',"
            " @retention = <minutes>"
        )
        if disabled:
            text = (
                f"capture instance {instance}: rows after {requested} are needed but it {begins}:"
                f" {', '.join(disabled)} was disabled (sys.sp_cdc_disable_table) before its rows"
                " up to there were published. Take a new snapshot of its table (tailrace snapshot,"
                " or snapshot.on_gap: snapshot), and disable an older instance only when"
                " the closed LSN (tailrace status) is behind the newer one's start"
            )
        super().__init__(text)


class CaptureInstanceGone(SourceError):
    """A capture instance that is being read was disabled.

    Starting again reads the catalog again; a table without a capture instance is then left out,
    loudly, and the others go on.

    Attributes:
        instance: the capture instance.
    """

    retryable = True
    of_one_table = False

    def __init__(self, instance: str, message: str = "") -> None:
        self.instance = instance
        super().__init__(
            message
            or f"capture instance {instance} is gone (sys.sp_cdc_disable_table): enable the table"
            " again with sys.sp_cdc_enable_table and take a new snapshot of it, or leave it out"
            " with tables.exclude"
        )


class DatabaseReplaced(SourceError):
    """The database was restored or replaced: its LSNs do not continue those already published."""

    heals = False
    of_one_table = False


class LsnWentBack(SourceError):
    """The newest LSN of the database is older than our position: it was restored or replaced."""

    heals = False
    of_one_table = False


class ReplicaBehind(SourceError):
    """A readable secondary has not redone yet what was published: waiting helps, if not forever.

    It may be that the primary was restored, and the secondary with it.
    """

    waited_for_s = 3600.0
    retryable = True
    of_one_table = False


class OrderUnknown(SourceError):
    """A transaction moves keys among rows, and its change rows do not tell in which order.

    Attributes:
        table: database.schema.table.
        position: of the delete whose order is not known.
    """

    heals = False

    def __init__(self, table: str, position: str) -> None:
        self.table = table
        self.position = position
        super().__init__(
            f"table {table}, position {position}: a transaction moves keys from row to row, and"
            " without command ids nobody can tell whether this delete comes before the insert of"
            " its key or behind it. Take a new snapshot of the table (tailrace snapshot); read"
            " change tables themselves (source.read_mode: direct), which have __$command_id on"
            " every server that Microsoft still mends"
        )


class UnsupportedSchemaChange(SourceError):
    """A column changed in a way that events cannot follow."""

    heals = False


class TableFailed(PublisherError):
    """One table cannot go on; the others can.

    Attributes:
        table: the table.
        cause: what it cannot go on for.
    """

    of_one_table = False

    def __init__(self, table: TableName, cause: Exception) -> None:
        self.table = table
        self.cause = cause
        super().__init__(f"table {table}: {cause}")


class UnexpectedTableError(PublisherError):
    """Something that nobody foresaw happened while one table was read or encoded.

    Attributes:
        doing: what was being done, and where.
        cause: the exception.
    """

    def __init__(self, doing: str, cause: Exception) -> None:
        self.doing = doing
        self.cause = cause
        super().__init__(
            f"{doing}: {type(cause).__name__}: {cause}. This is a fault of Tailrace: please report"
            " it with the log's traceback (unexpected_error). Until then capture the table without"
            " the column, or leave the table out with tables.exclude"
        )


class ColumnsRefused(PublisherError):
    """The options of columns cannot be meant for a table as it is now.

    Attributes:
        problems: one sentence per column: table, column, option and what to do.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class SchemaRefused(PublisherError):
    """The schema registry refused a schema for good; the text names the subject and the fix."""

    of_events = True


class EncodeError(PublisherError):
    """A value does not fit its Avro type: never a silent NULL.

    Attributes:
        table: database.schema.table.
        column: name of the column.
        position: text form of the change's position.
        brief: the reason without any value, where it is the value of one event that does not fit;
            None where the change table is damaged.
    """

    of_events = True

    def __init__(
        self, table: str, column: str, position: str, reason: str, brief: str | None = None
    ) -> None:
        self.table = table
        self.column = column
        self.position = position
        self.brief = brief
        super().__init__(f"table {table}, column {column}, position {position}: {reason}")


class DeliveryError(PublisherError):
    """Kafka did not take what was sent.

    Attributes:
        code: Kafka's error code, 0 when there is none.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        self.code = code
        super().__init__(message)


class KafkaUnavailable(DeliveryError):
    """No broker answers: waiting may help. Nothing was in doubt."""

    retryable = True
    of_one_table = False


class TokenUnavailable(KafkaUnavailable):
    """The function of kafka.oauth_callback raised: waiting may help, as its service may be away."""


class DeliveryTimeout(DeliveryError):
    """A transaction did not finish in time: abandon the producer and start from the checkpoint."""

    retryable = True
    of_one_table = False


class DeliveryRejected(DeliveryError):
    """A broker refused records for good: too large, not authorized, a topic of another shape."""


class TopicRefused(DeliveryRejected):
    """A topic takes nothing from us: no authorization, or it is gone.

    Attributes:
        topic: the data topic, so that its table can be told.
    """

    def __init__(self, message: str, *, topic: str, code: int) -> None:
        self.topic = topic
        super().__init__(message, code=code)


class TopicCompacted(TopicRefused):
    """A data topic is compacted, and the configuration does not say that it may be."""

    def __init__(self, topic: str, policy: str) -> None:
        super().__init__(
            f"topic {topic} has cleanup.policy={policy}: compaction takes events away that the"
            " ledger counts, so neither can be proven that nothing is missing nor can the lake"
            " follow. Keep all events: kafka-configs --alter --entity-type topics --entity-name"
            f" {topic} --add-config cleanup.policy=delete, and take a new snapshot of the table;"
            " or, for subscribers of another kind only, set publisher.kafka.allow_compaction: true",
            topic=topic,
            code=0,
        )


class RecordTooLarge(TopicRefused):
    """An event is larger than the producer or its topic allows."""

    of_events = True


class OutcomeUnknown(DeliveryError):
    """A commit may or may not have happened: only the checkpoint, read back, tells."""

    retryable = True
    of_one_table = False


class CheckpointError(PublisherError):
    """The checkpoint cannot be read or does not fit this publisher."""

    of_one_table = False


class CheckpointUnavailable(CheckpointError):
    """The checkpoint could not be read to its end in time: waiting may help."""

    retryable = True


class CheckpointForgets(CheckpointError):
    """The checkpoint topic's settings let records expire that a later start needs.

    Attributes:
        topic: the checkpoint topic.
        settings: those that make it forget.
    """

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self.topic = topic
        self.settings = dict(settings)
        found = ", ".join(f"{name}={value}" for name, value in settings.items())
        super().__init__(
            f"topic {topic} forgets checkpoints ({found}): a table that does not change is written"
            " there once, and must be found at every later start. Set its cleanup.policy:"
            f" kafka-configs --alter --entity-type topics --entity-name {topic}"
            " --add-config cleanup.policy=compact"
        )


class CheckpointLost(CheckpointError):
    """There is no checkpoint, though progress records say that the database was published.

    Attributes:
        progress_offset: offset of the newest progress record of this server and database.
        closed_lsn: its closed LSN: everything up to there is out.
    """

    def __init__(self, topics: TopicNames, database: str, offset: int, closed_lsn: Lsn) -> None:
        self.progress_offset = offset
        self.closed_lsn = closed_lsn
        super().__init__(
            f"topic {topics.offsets} holds no checkpoint of database {database}, but topic"
            f" {topics.progress} says that it was published up to {closed_lsn} (offset {offset}):"
            " the checkpoint was lost, by a disk, by deleting the topic or by its cleanup.policy."
            " Going on would leave a gap without a word. Bring the topic back, or accept the loss:"
            " tailrace accept-checkpoint-loss, which takes new snapshots of all tables"
        )


class ShardsDiffer(CheckpointError):
    """The topics are divided into shards in another way than the configuration says."""


class ReshardRefused(CheckpointError):
    """What is published cannot be divided anew, or not now; says what to do first."""


class LeaseLost(CheckpointError):
    """Another publisher with the same transactional id has taken over: this one must end."""
