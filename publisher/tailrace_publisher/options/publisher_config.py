"""The publisher's options: unit, default, bounds, and the effect of lower and higher values.

:meth:`PublisherConfig.load` builds it from one mapping, into which the command line merges file,
environment and flags. So every wrong option is reported together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.cleanup import CleanupConfig, CleanupWait
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.options.events import EventOptions
from tailrace_publisher.options.fleet import FleetConfig, default_group
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.outbox import OutboxConfig
from tailrace_publisher.options.pace import PaceOptions
from tailrace_publisher.options.skipped_changes import SkipConfig
from tailrace_publisher.options.snapshots import SnapshotConfig, SnapshotMode
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.options.start import StartConfig
from tailrace_publisher.options.tables import CapturedTables, DropAfter, templates_of
from tailrace_schemas.topics.name_patterns import spelled_as
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_service.options.sections import check_patterns, matches, problems
from tailrace_service.registry.options import RegistryConfig
from tailrace_service.tracing.options import TracingConfig

Columns = Annotated[list[str], Field(min_length=1)]


class PublisherConfig(EventOptions, PaceOptions, EndpointOptions):
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
        " prefix. Another name starts from scratch, with a new snapshot.",
    )
    topic_names: dict[str, str] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the names of these tables' topics, e.g. '{prefix}.{schema}.{table}'; the first pattern"
        " that matches counts; default '{prefix}.{database}.{schema}.{table}'. A name begins with"
        " {prefix} and identifies its table: it has {schema} and {table}, unless the pattern is one"
        " table's name ('dbo\\.orders') or begins with a schema's ('dbo\\..*'). Two tables in one"
        " topic are refused. The sink reads the default names only. A changed name starts an empty"
        " topic: its table stops until tailrace snapshot.",
    )
    tables: CapturedTables = Field(default_factory=CapturedTables)
    message_keys: dict[str, Columns] = Field(
        default_factory=dict,
        description="schema.table to the columns of its event key, for tables without a primary"
        " key or unique index, or to override it.",
    )
    lossless_columns: dict[str, Columns] = Field(
        default_factory=dict,
        description="schema.table to its time(7) and datetime2(7) columns to publish as text with"
        " all seven digits; others are cut to microseconds.",
    )
    columns: ColumnsConfig = Field(default_factory=ColumnsConfig)
    skip: SkipConfig = Field(default_factory=SkipConfig)
    snapshot: SnapshotConfig = Field(default_factory=SnapshotConfig)
    start: StartConfig = Field(default_factory=StartConfig)
    cleanup: CleanupConfig = Field(default_factory=CleanupConfig)
    lakes: list[str] = Field(
        default_factory=list,
        description="Consumer groups of the sinks whose lakes are waited for, each as in the"
        " sink's option kafka.consumer_group. Used by cleanup.wait_for: lake and"
        " tables.drop_after: lake. Requires Describe on these groups.",
    )
    outbox: dict[str, OutboxConfig] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the options of an outbox; the first pattern that matches counts. Each insert into such a"
        " table is also published as a message: one record of the topic that a column names, with a"
        " key, a value and headers from columns, in the Kafka transaction of its event. Deletes and"
        " rows of snapshots send none (docs/outbox.md). The table itself is published as any other;"
        " to leave it out of the lake, use sink.tables.exclude.",
    )
    fleet: FleetConfig = Field(default_factory=FleetConfig)
    tracing: TracingConfig = Field(default_factory=TracingConfig)

    removed: ClassVar[Mapping[str, str]] = {
        "shards": "one publisher has all tables of a database. Fix: remove it; fleet.join shares"
        " databases among publishers (docs/scaling.md)"
    }

    @field_validator("prefix")
    @classmethod
    def _usable_prefix(cls, prefix: str) -> str:
        return TopicNames(prefix).prefix

    @field_validator("outbox")
    @classmethod
    def _outboxes(cls, outboxes: dict[str, OutboxConfig]) -> dict[str, OutboxConfig]:
        check_patterns(outboxes)
        return outboxes

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
                f"start.{self.start.given[0]} starts without a snapshot, snapshot.mode:"
                f" {mode.value} with one. Fix: remove one of the two"
            )
        return self

    @model_validator(mode="after")
    def _names_lakes(self) -> Self:
        if self.waits_for_lakes and not self.lakes:
            raise ValueError(
                f"lakes is empty, and {' and '.join(self.waits_for_lakes)} waits for lakes. Fix:"
                " list the kafka.consumer_group of each sink in lakes"
            )
        return self

    def lossless_of(self, table: TableName) -> Sequence[str]:
        """Return the columns of a table that are published with all seven digits."""
        spelled = spelled_as(table.in_database, self.lossless_columns)
        return () if spelled is None else self.lossless_columns[spelled]

    def outbox_of(self, table: TableName) -> OutboxConfig | None:
        """Return the options of a table's messages; None if it is no outbox."""
        found = (o for p, o in self.outbox.items() if matches([p], table.in_database))
        return next(found, None)

    @property
    def waits_for_lakes(self) -> list[str]:
        """The options by which the publisher waits for lakes."""
        waits = {
            "cleanup.wait_for: lake": self.cleanup.wait_for is CleanupWait.LAKE,
            "tables.drop_after: lake": self.tables.drop_after is DropAfter.LAKE,
        }
        return [option for option, is_given in waits.items() if is_given]

    @property
    def source_changes(self) -> list[str]:
        """The options by which the publisher changes the source, for which it needs db_owner."""
        changes = {
            "tables.schema_change: rotate": self.tables.may_rotate,
            f"cleanup.wait_for: {self.cleanup.wait_for.value}": self.cleanup.is_on,
        }
        return [option for option, is_given in changes.items() if is_given]

    @property
    def fleet_group(self) -> str:
        """The consumer group whose members share the databases."""
        return self.fleet.group or default_group(self.prefix)

    @property
    def topics(self) -> TopicNames:
        """The topic names under the prefix."""
        templates = templates_of(self.topic_names)
        return TopicNames(self.prefix, templates, self.source.database)

    @classmethod
    def load(cls, options: Mapping[str, Any]) -> PublisherConfig:
        """Check a mapping of options.

        Raises:
            ConfigError: names every wrong option, its value, and what would be right.
        """
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            raise ConfigError(problems(error, cls)) from None
