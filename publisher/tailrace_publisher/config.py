"""The publisher's options: unit, default, bounds, and what happens at both ends.

Built with :meth:`PublisherConfig.load` from one mapping (the command line merges file, environment
and flags into it), so that every wrong option is reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from tailrace_publisher.column_options import ColumnsConfig
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.event_options import OnBadEvent, UnavailableValues
from tailrace_publisher.form_options import (
    ConnectTypesOption,
    EventFormOption,
    JsonDecimalsOption,
    SerializationOption,
    check_event_options,
)
from tailrace_publisher.kafka_options import KafkaConfig
from tailrace_publisher.shard_options import ShardsConfig
from tailrace_publisher.skip_options import SkipConfig
from tailrace_publisher.snapshot_options import SnapshotConfig, SnapshotMode
from tailrace_publisher.source_options import SourceConfig
from tailrace_publisher.start_options import StartConfig
from tailrace_schemas.event_forms import EventForm, EventShape
from tailrace_schemas.options import (
    HttpCertificate,
    HttpKey,
    RegistryConfig,
    Section,
    TableSelection,
    problems,
)
from tailrace_schemas.serializations import JsonDecimals, Serialization
from tailrace_schemas.shards import ShardMap
from tailrace_schemas.topic_templates import TopicTemplate, is_plain_name
from tailrace_schemas.topics import TableName, TopicNames
from tailrace_schemas.tracing_options import TracingConfig


class OnRename(StrEnum):
    """What becomes of a table that has another name than the one it was published under."""

    STOP = "stop"
    KEEP_TOPIC = "keep_topic"


class Surrogates(StrEnum):
    """What becomes of a text that holds half a surrogate pair."""

    FAIL = "fail"
    REPLACE = "replace"
    NULL = "null"


class Compatibility(StrEnum):
    """What a new version of a schema must be compatible with, as registries name it."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class CapturedTables(TableSelection):
    """Which tables are published: those that match include and do not match exclude.

    A pattern of include that is a plain name must be captured.
    """

    on_rename: OnRename = Field(
        default=OnRename.STOP,
        description="What becomes of a published table that was renamed at the source, which is"
        " noticed when the catalog is read (at a start, and behind DDL): stop (default) leaves it"
        " out, loudly, because a topic under its new name would begin in the middle; keep_topic"
        " goes on under the topic, the subjects and the name that it had, by which the other"
        " options mean it, too. A table that takes over the old name begins with a snapshot.",
    )

    def plain_names(self) -> list[str]:
        """The include patterns that name one table: those tables must be captured."""
        return list(filter(is_plain_name, self.include))


def templates_of(names: Mapping[str, str]) -> tuple[TopicTemplate, ...]:
    """The option topic_names, checked.

    Raises:
        ValueError: what is wrong with one of them.
    """
    return tuple(_template(pattern, template) for pattern, template in names.items())


@lru_cache(maxsize=1024)
def _template(pattern: str, template: str) -> TopicTemplate:
    """Checked once: the names of a configuration's topics are asked for table by table."""
    return TopicTemplate(pattern, template)


Columns = Annotated[list[str], Field(min_length=1)]


class PublisherConfig(Section):
    """All options of the publishers of one database, under one prefix."""

    source: SourceConfig
    kafka: KafkaConfig
    registry: RegistryConfig
    prefix: str = Field(
        description="First part of every topic name; letters, digits, '.', '_' and '-', a letter or"
        " digit first. With dots it must not begin with another publisher's prefix and a dot."
    )
    server_name: str = Field(
        default="",
        description="Logical name of the server in source.name and in checkpoints; default: the"
        " prefix. Changing it starts anew, with a new snapshot.",
    )
    topic_names: dict[str, str] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the names of these tables' topics, e.g. '{prefix}.{schema}.{table}'; the first pattern"
        " that matches counts; default '{prefix}.{database}.{schema}.{table}'. A name begins with"
        " {prefix} and tells its table: it has {schema} and {table}, unless the pattern is one"
        " table's name ('dbo\\.orders') or begins with a schema's ('dbo\\..*'). Two tables in one"
        " topic are refused. The sink reads the default names only. Another name than before"
        " begins an empty topic: its table stops until tailrace snapshot.",
    )
    tables: CapturedTables = Field(default_factory=CapturedTables)
    message_keys: dict[str, Columns] = Field(
        default_factory=dict,
        description="schema.table to the columns of its event key, for tables without a primary"
        " key or unique index, or to override it.",
    )
    lossless_columns: dict[str, Columns] = Field(
        default_factory=dict,
        description="schema.table to its time(7) and datetime2(7) columns that are to be carried"
        " as text with all seven digits; others are cut to microseconds.",
    )
    columns: ColumnsConfig = Field(default_factory=ColumnsConfig)
    skip: SkipConfig = Field(default_factory=SkipConfig)
    surrogates: Surrogates = Field(
        default=Surrogates.FAIL,
        description="What becomes of text that holds half a surrogate pair, which SQL Server stores"
        " and no event can: fail (default) stops the table, naming column and position; replace"
        " puts U+FFFD in the place of each half; null publishes NULL instead of the value. The last"
        " two are told once per column, and key columns stop their table whatever it says.",
    )
    on_bad_event: OnBadEvent = Field(
        default=OnBadEvent.STOP_TABLE,
        description="What becomes of an event that cannot be published: a value that its column's"
        " type does not hold, or more bytes than the producer or the topic allows. stop-table"
        " (default) stops its table, by name, and the others go on; fail ends the publisher, which"
        " meets it again at each start; dead-letter goes on without the event and puts it into"
        " <prefix>.dead_letters (one partition, kept for ever unless kafka.topic_settings say"
        " otherwise) in the same Kafka transaction: the topic and the lake lack a change then, and"
        " tailrace_dead_letters_total counts it. A schema that the registry refuses is no event's"
        " fault: dead-letter stops its table, fail ends the publisher.",
    )
    unavailable_values: UnavailableValues = Field(
        default=UnavailableValues.MARK,
        description="What an event has where the change table does not hold a large value, because"
        " an update left it alone (and of text, ntext and image in deletes). mark (default): NULL,"
        " and the column's name in source.unavailable; placeholder: unavailable_placeholder, and"
        " the name as before, by which the sink goes; reselect: the value that the source has now,"
        " selected by the table's primary key or unique index, which costs a round trip per ten"
        " updates. It may be newer than the event. Where the row is gone or locked, the value NULL,"
        " or the table has no such key, it is marked.",
    )
    unavailable_placeholder: str = Field(
        default="__debezium_unavailable_value",
        min_length=1,
        max_length=1000,
        description="Text of unavailable_values: placeholder; binary columns have its UTF-8 bytes,"
        " hierarchyid, geometry and geography stay NULL. 1 to 1000 characters, default Debezium's.",
    )
    event_form: EventFormOption = EventForm.DEBEZIUM
    serialization: SerializationOption = Serialization.AVRO
    json_decimals: JsonDecimalsOption = JsonDecimals.BASE64
    connect_types: ConnectTypesOption = False
    tombstones: bool = Field(
        default=True,
        description="Follow each delete by a record with its key and a null value (a tombstone);"
        " default true. It is for subscribers that keep the newest value of each key, such as"
        " Kafka Streams, ksqlDB and JDBC sinks: it is how they learn that the key is gone,"
        " and in a compacted topic (kafka.allow_compaction) it lets the key be forgotten. The sink"
        " and tailrace audit need none and count none.",
    )
    transaction_metadata: bool = Field(
        default=False,
        description="Publish begin and end of each source transaction, with its events per table,"
        " to <prefix>.transaction (one partition), and give each event its transaction's id (the"
        " commit LSN), its number in it, and its number in it among those of its table; default"
        " false. Both are in the Kafka transaction of the events. Rows of snapshots are in none. It"
        " costs time per event; switched on inside a large transaction, its rest is counted alone."
        " Not with shards: each would count its own tables only.",
    )
    schema_changes: bool = Field(
        default=False,
        description="Publish DDL of published tables, and hand-overs to newer capture instances, to"
        " <prefix>.<database>.ddl (one partition): text, table, LSN, and the events' columns before"
        " and after; default false. Each is out before the first event of its version, and in the"
        " Kafka transaction that keeps that it is. What is before the LSN that a first start"
        " begins with is not told.",
    )
    schema_compatibility: Compatibility | None = Field(
        default=None,
        description="Compatibility mode that the registry is given for the subjects of data topics,"
        " keys and values: NONE, BACKWARD, FORWARD, FULL, or one of the last three with"
        " _TRANSITIVE; default: the registry's own are left alone (Confluent's refuses what is not"
        " BACKWARD, Apicurio's nothing, unless it was told). Columns that are added or"
        " dropped are compatible in every mode; a type that changes mostly is in none but NONE: its"
        " table then stops, with the differences, before the first event of that version.",
    )
    page_rows: int = Field(
        default=2_000,
        ge=1,
        le=100_000,
        description="Change rows per page; 1 to 100000, default 2000. Less costs round trips; more"
        " costs memory, of which there are four pages, and is worth it where the server is some"
        " milliseconds away (10000). Where rows are large, or many tables have news, a page has"
        " fewer: memory_mb bounds it.",
    )
    window_transactions: int = Field(
        default=20_000,
        ge=1,
        le=100_000,
        description="Source transactions per poll at most; 1 to 100000, default 20000. Between two"
        " polls nothing is read, so few are slow in catching up; of many, only the commit times are"
        " held in memory. A poll takes fewer where they are large: those of about 500,000 rows.",
    )
    rows_per_transaction: int = Field(
        default=40_000,
        ge=1,
        le=10_000_000,
        description="Rows from which on a Kafka transaction is closed at the next end of a source"
        " transaction; 1 to 10000000, default 40000. A source transaction with more rows spans"
        " several. Fewer make brokers and readers work more in catching up; otherwise linger_ms"
        " closes it before.",
    )
    mb_per_transaction: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="The same in megabytes of events: whichever comes first; 1 to 10000, default"
        " 64. Readers of committed events wait for the whole of a Kafka transaction, and brokers"
        " abort one that takes longer than kafka.transaction_timeout_s.",
    )
    memory_mb: int = Field(
        default=256,
        ge=16,
        le=1_000_000,
        description="Megabytes for change rows in memory, however large their values are; 16 to"
        " 1000000, default 256. Half is for the pages of all capture instances together: they get"
        " fewer rows where rows are large. Half is for events that wait to be sent. A page has at"
        " least one row, so a value must fit; the process takes about 100 MB beside it. Too low"
        " makes many round trips of tables with large values.",
    )
    linger_ms: int = Field(
        default=150,
        ge=0,
        le=60_000,
        description="Milliseconds a Kafka transaction may wait for more rows; 0 to 60000, default"
        " 150. 0 commits every source transaction by itself, which loads the brokers. Where commits"
        " take long it waits longer while more is known to come: four times as long as the last"
        " one took, up to a second; and a second behind a backlog of more than a window.",
    )
    poll_interval_ms: int = Field(
        default=500,
        ge=1,
        le=600_000,
        description="Longest pause between two polls, in milliseconds; 1 to 600000, default 500."
        " Behind news it is 10 ms, and grows by half with each poll that finds none. It adds to the"
        " capture job's own interval (5 s by default).",
    )
    heartbeat_s: float = Field(
        default=10.0,
        ge=0.1,
        le=3600.0,
        description="Seconds between progress records of an idle publisher; 0.1 to 3600, default"
        " 10. They keep the lag known and let a fenced publisher notice it.",
    )
    capture_stall_s: float = Field(
        default=60.0,
        ge=1.0,
        le=86_400.0,
        description="Age of the newest log scan session, in seconds, from which on the capture"
        " job counts as stopped; 1 to 86400, default 60.",
    )
    retry_backoff_max_s: float = Field(
        default=30.0,
        ge=0.01,
        le=3600.0,
        description="Longest pause between attempts while a part is unavailable, in seconds; 0.01"
        " to 3600, default 30; pauses start at 0.25 and double.",
    )
    pause_max_h: float = Field(
        default=24.0,
        ge=0.001,
        le=8760.0,
        description="Hours after which a pause of the publisher (tailrace pause) ends by itself;"
        " 0.001 to 8760, default 24. Keep it below the retention of the change tables (72 hours by"
        " default): what cleanup takes before it is published is lost to the stream.",
    )
    snapshot: SnapshotConfig = Field(default_factory=SnapshotConfig)
    start: StartConfig = Field(default_factory=StartConfig)
    shards: ShardsConfig = Field(default_factory=ShardsConfig)
    tracing: TracingConfig = Field(default_factory=TracingConfig)
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of the HTTP endpoint: /metrics for Prometheus, /health, /ready, /status,"
        " and POST of what can be asked for (/snapshot, /pause, /resume, /stop-table, ...); 0 takes"
        " a free one; default: none is opened.",
    )
    metrics_host: str = Field(
        default="127.0.0.1",
        description="Address the HTTP endpoint listens on; default 127.0.0.1. 0.0.0.0 lets other"
        " machines and containers read /metrics, /health and /ready, which ask for no password; the"
        " rest needs http_token_file then.",
    )
    http_token_file: Path | None = Field(
        default=None,
        description="File whose first line is the token (16 characters or more) that /status and"
        " every POST ask for, as Authorization: Bearer ...; default none: they are answered on a"
        " loopback address only.",
    )
    http_certificate: HttpCertificate = None
    http_key: HttpKey = None

    @field_validator("prefix")
    @classmethod
    def _usable_prefix(cls, prefix: str) -> str:
        return TopicNames(prefix).prefix

    @field_validator("topic_names")
    @classmethod
    def _usable_templates(cls, names: dict[str, str]) -> dict[str, str]:
        templates_of(names)
        return names

    @model_validator(mode="after")
    def _default_server_name(self) -> Self:
        if not self.server_name:
            object.__setattr__(self, "server_name", self.prefix)
        return self

    @model_validator(mode="after")
    def _start_is_without_snapshot(self) -> Self:
        mode = self.snapshot.mode
        if self.start.given and mode in {SnapshotMode.INITIAL_ONLY, SnapshotMode.ALWAYS}:
            raise ValueError(
                f"start.{self.start.given[0]} begins without a snapshot, snapshot.mode:"
                f" {mode.value} with one: leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _events_fit_together(self) -> Self:
        check_event_options(
            self.event_shape,
            self.json_decimals,
            connect_types=self.connect_types,
            transaction_metadata=self.transaction_metadata,
        )
        return self

    @model_validator(mode="after")
    def _one_counts_a_transaction(self) -> Self:
        if self.transaction_metadata and self.shards.count > 1:
            raise ValueError(
                "transaction_metadata: true numbers the events of a source transaction, and with"
                f" shards.count: {self.shards.count} no publisher has all of them: leave one of"
                " them out"
            )
        return self

    @property
    def event_shape(self) -> EventShape:
        """What the events are, and how they are written."""
        return EventShape(self.event_form, self.serialization)

    @property
    def pages_bytes(self) -> int:
        """What the pages of all capture instances together may take in memory."""
        return self.memory_mb * 1_000_000 // 2

    @property
    def queue_bytes(self) -> int:
        """What the events that wait to be sent may take in memory."""
        return self.memory_mb * 1_000_000 - self.pages_bytes

    @property
    def bytes_per_transaction(self) -> int:
        """The option mb_per_transaction in bytes."""
        return self.mb_per_transaction * 1_000_000

    @property
    def topics(self) -> TopicNames:
        """The topic names under the prefix."""
        templates = templates_of(self.topic_names)
        return TopicNames(self.prefix, templates, self.source.database)

    @property
    def shard_map(self) -> ShardMap:
        """The map of shards that the options ask for, as the first of its topics.

        Raises:
            ValueError: a pinned table can have no topic.
        """
        database, names = self.source.database, self.topics
        pinned = {
            names.data(TableName(database, *table.split(".", 1))): shard
            for table, shard in self.shards.pinned.items()
        }
        return ShardMap(1, self.shards.count, pinned)

    @property
    def transactional_id(self) -> str:
        """Stable per prefix and database: whoever takes it fences the one before."""
        return f"tailrace-{self.prefix}-{self.source.database}"

    @classmethod
    def load(cls, options: Mapping[str, Any]) -> PublisherConfig:
        """Check a mapping of options.

        Raises:
            ConfigError: names every wrong option, its value, and what would be right.
        """
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            raise ConfigError(problems(error)) from None
