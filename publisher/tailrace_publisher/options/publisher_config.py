"""The publisher's options: unit, default, bounds, and what happens at both ends.

Built with :meth:`PublisherConfig.load` from one mapping (the command line merges file, environment
and flags into it), so that every wrong option is reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.alongside import SchemaChangesOption, TransactionMetadataOption
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.options.events import (
    OnBadEvent,
    OnBadEventOption,
    Surrogates,
    SurrogatesOption,
    UnavailablePlaceholderOption,
    UnavailableValues,
    UnavailableValuesOption,
)
from tailrace_publisher.options.forms import (
    ConnectTypesOption,
    EventFormOption,
    JsonDecimalsOption,
    SerializationOption,
    check_event_options,
)
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.pace import (
    HeartbeatSOption,
    LingerMsOption,
    MbPerTransactionOption,
    MemoryMbOption,
    PageRowsOption,
    PollIntervalMsOption,
    RowsPerTransactionOption,
    WindowTransactionsOption,
)
from tailrace_publisher.options.shards import ShardsConfig
from tailrace_publisher.options.skipped_changes import SkipConfig
from tailrace_publisher.options.snapshots import SnapshotConfig, SnapshotMode
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.options.start import StartConfig
from tailrace_publisher.options.tables import CapturedTables, TopicNamesOption, templates_of
from tailrace_schemas.events.forms import EventForm, EventShape
from tailrace_schemas.events.serializations import JsonDecimals, Serialization
from tailrace_schemas.records.shards import ShardMap
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_service.options.sections import (
    problems,
)
from tailrace_service.registry.options import RegistryConfig
from tailrace_service.tracing.options import TracingConfig


class Compatibility(StrEnum):
    """What a new version of a schema must be compatible with, as registries name it."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


Columns = Annotated[list[str], Field(min_length=1)]


class PublisherConfig(EndpointOptions):
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
    topic_names: TopicNamesOption = Field(default_factory=dict)
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
    surrogates: SurrogatesOption = Surrogates.FAIL
    on_bad_event: OnBadEventOption = OnBadEvent.STOP_TABLE
    unavailable_values: UnavailableValuesOption = UnavailableValues.MARK
    unavailable_placeholder: UnavailablePlaceholderOption = "__debezium_unavailable_value"
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
    transaction_metadata: TransactionMetadataOption = False
    schema_changes: SchemaChangesOption = False
    schema_compatibility: Compatibility | None = Field(
        default=None,
        description="Compatibility mode that the registry is given for the subjects of data topics,"
        " keys and values: NONE, BACKWARD, FORWARD, FULL, or one of the last three with"
        " _TRANSITIVE; default: the registry's own are left alone (Confluent's refuses what is not"
        " BACKWARD, Apicurio's nothing, unless it was told). Columns that are added or"
        " dropped are compatible in every mode; a type that changes mostly is in none but NONE: its"
        " table then stops, with the differences, before the first event of that version.",
    )
    page_rows: PageRowsOption = 2_000
    window_transactions: WindowTransactionsOption = 20_000
    rows_per_transaction: RowsPerTransactionOption = 40_000
    mb_per_transaction: MbPerTransactionOption = 64
    memory_mb: MemoryMbOption = 256
    linger_ms: LingerMsOption = 150
    poll_interval_ms: PollIntervalMsOption = 500
    heartbeat_s: HeartbeatSOption = 10.0
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
