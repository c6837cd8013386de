"""The sink's options: unit, default, bounds, and what happens at both ends.

Built with :meth:`SinkConfig.load` from one mapping (the command line merges file, environment and
flags into it), so that every wrong option is reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.options.sections import problems
from tailrace_service.registry.options import RegistryConfig
from tailrace_service.tracing.options import TracingConfig
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.options.kafka_options import KafkaConfig
from tailrace_sink.options.layout_options import LayoutOptions
from tailrace_sink.options.modes import BadRecords, DeleteMode, TableFormats
from tailrace_sink.options.retention import Retention, retention_path, with_former_option
from tailrace_sink.options.s3_options import S3Options, hadoop_address, is_s3

_KEPT_CUTS: Final = {TableFormats.DELTA: 20_000, TableFormats.ICEBERG: 500}
"""1,000 snapshots of an Iceberg table slow a load by 0.07 s and a commit by 0.25 s (ADR 0110)."""


def dead_letters_path(lake: str) -> str:
    """Return the path of a lake's dead letters."""
    return f"{lake}/_tailrace/dead_letters"


class SinkConfig(LayoutOptions):
    """All options of one sink: one prefix, one lake, one Spark application."""

    removed: ClassVar[Mapping[str, str]] = {
        "shards": "one publisher has all tables of a database. Fix: remove it"
    }
    kafka: KafkaConfig
    registry: RegistryConfig
    prefix: str = Field(description="First part of every topic name; letters, digits and '-'.")
    lake: str = Field(
        min_length=1,
        description="Folder of the lake: an absolute path, or a URI that Spark's Hadoop file"
        " systems know (s3://, abfss://, gs://, hdfs://). Tables are <lake>/<database>/<schema>/"
        "<table>.",
    )
    s3: S3Options = Field(default_factory=S3Options)
    checkpoint_location: str | None = Field(
        default=None,
        description="Spark's checkpoint of the progress stream; default <lake>/_tailrace/"
        "checkpoint. It may be lost: the lake's log knows where to resume.",
    )
    delete_mode: DeleteMode = Field(
        default=DeleteMode.HARD,
        description="hard removes deleted rows; soft keeps them with _cdc_op = 'd'.",
    )
    on_bad_record: BadRecords = Field(
        default=BadRecords.STOP_TABLE,
        description="Treatment of a record that cannot be decoded or whose writer schema is lost."
        " stop-table: only its table stops, at the cut before the record, until a new snapshot."
        " dead-letter: the record is stored once in the Delta table <lake>/_tailrace/dead_letters,"
        " and its table continues without it. fail: the sink ends. If records are missing, or are"
        " not those that the publisher counted, the table stops under dead-letter too.",
    )
    changes_per_batch: int = Field(
        default=1_000_000,
        ge=1,
        le=1_000_000_000,
        description="Changes after which a cut of the log and a batch of the tables end, at the"
        " next closed LSN; 1 to 1000000000. Lower: more and smaller commits. Higher: a larger"
        " shuffle on the executors' disks. A batch that has started keeps the bound with which it"
        " was planned.",
    )
    bytes_per_batch: int = Field(
        default=1024 * 1024 * 1024,
        ge=1,
        le=1024**4,
        description="The same in bytes of values, by the publisher's ledger; 1 to 1099511627776 (1"
        " TiB). A larger transaction is applied as a whole, table by table, on the executors'"
        " disks. A larger snapshot is applied in parts.",
    )
    bulk_changes: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000_000,
        description="Number of changes from which a cut goes straight from Kafka into the tables,"
        " without a copy in the log; 0 to 1000000000; 0 copies every cut. Snapshots and backlogs"
        " are applied faster. Such a cut is readable from its commit row on, and changes() refuses"
        " its range. Lower: more of the cuts. Higher: changes() covers larger transactions.",
    )
    local_changes_max: int = Field(
        default=5_000,
        ge=0,
        le=1_000_000,
        description="Changes of a batch up to which all tables are read at once, through the"
        " driver; 0 to 1000000. Larger batches are read table by table. Lower: small batches take"
        " longer. Higher: more memory of the driver.",
    )
    local_bytes_max: int = Field(
        default=32 * 1024 * 1024,
        ge=0,
        le=1024 * 1024 * 1024,
        description="The same in bytes of values; 0 to 1073741824 (1 GiB). The driver holds several"
        " copies at once.",
    )
    request_snapshots: bool = Field(
        default=True,
        description="Request a new snapshot from the publisher, through the signals topic, for a"
        " table that lacks changes: it was excluded for a while, Kafka deleted changes, or they are"
        " not those that the publisher counted. At most once an hour for each table. false: the"
        " table stays out of the lake's cuts until somebody runs tailrace snapshot.",
    )
    merge_pool: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Tables written at once; 1 to 64. Higher: more memory, and a gain only with"
        " enough cores.",
    )
    trigger_interval_s: float = Field(
        default=0.0,
        ge=0.0,
        le=86_400.0,
        description="Least seconds between micro-batches; 0 to 86400. 0: at once.",
    )
    retention: Retention = Field(default_factory=Retention)
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Further Spark settings, e.g. spark.driver.memory, or spark.hadoop.* for object"
        " stores. They override the sink's own and those of spark-submit. spark.jars are added to"
        " the sink's own. spark.master defaults to that of spark-submit, else to local[*].",
    )
    apply_attempts: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Attempts at a batch that fails inside Spark before the sink ends; 1 to 1000."
        " Waiting for Kafka or the registry does not count.",
    )
    retry_backoff_max_s: float = Field(
        default=30.0,
        ge=0.01,
        le=3600.0,
        description="Longest pause between attempts, in seconds; 0.01 to 3600; pauses start at 0.25"
        " and double.",
    )
    hang_s: float = Field(
        default=600.0,
        ge=10.0,
        le=86_400.0,
        description="Seconds without a step or the end of a Spark task after which a running cut or"
        " batch counts as hanging; 10 to 86400. /health and /ready then answer 503 and name it."
        " Lower: a sink in a single long task is restarted. Higher: a hang is noticed later.",
    )
    tracing: TracingConfig = Field(default_factory=TracingConfig)

    @model_validator(mode="before")
    @classmethod
    def _former_options(cls, options: Any) -> Any:
        return with_former_option(options)

    @field_validator("prefix")
    @classmethod
    def _usable_prefix(cls, prefix: str) -> str:
        return TopicNames(prefix).prefix

    @field_validator("lake")
    @classmethod
    def _is_path(cls, lake: str) -> str:
        if "`" in lake:
            raise ValueError("a lake address must not contain a backtick")
        if not lake.startswith("/") and "://" not in lake:
            raise ValueError(
                "give an absolute path or a URI; names of a catalog (catalog.schema) are not"
                " supported yet"
            )
        return hadoop_address(lake).rstrip("/") or "/"

    @field_validator("checkpoint_location")
    @classmethod
    def _hadoop_checkpoint(cls, location: str | None) -> str | None:
        return None if location is None else hadoop_address(location)

    @model_validator(mode="after")
    def _one_store(self) -> Self:
        if self.iceberg is not None and self.iceberg.is_in_s3 and not is_s3(self.lake):
            raise ValueError("iceberg: tables in S3 need a lake in S3, whose options reach both")
        return self

    @property
    def topics(self) -> TopicNames:
        """Topic names under the prefix."""
        return TopicNames(self.prefix)

    @property
    def bound(self) -> Bound:
        """Bound of a cut of the log and of a batch of the tables."""
        return Bound(self.changes_per_batch, self.bytes_per_batch)

    def is_bulk(self, count: int) -> bool:
        """Whether a cut of so many changes goes straight from Kafka into the tables."""
        return 0 < self.bulk_changes <= count

    def fits_driver(self, count: int, size: int) -> bool:
        """Whether so many changes, of so many bytes, are few enough to pass through the driver."""
        return count <= self.local_changes_max and size <= self.local_bytes_max

    @property
    def store(self) -> S3Options | None:
        """Options of the lake's store; None unless the lake is in S3."""
        return self.s3 if is_s3(self.lake) else None

    def storage_options(self) -> dict[str, str]:
        """Return what deltalake and Polars open the lake with; empty unless it is in S3.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        return {} if self.store is None else self.store.storage_options()

    def session_settings(self) -> dict[str, str]:
        """Return the settings of Spark for the lake's store, and those of the section ``spark``.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        return (self.s3.hadoop() if is_s3(self.lake) else {}) | self.spark

    @property
    def commits_path(self) -> str:
        """Path of the commit table."""
        return f"{self.lake}/_tailrace/commits"

    @property
    def kept_cuts(self) -> int:
        """Newest cuts that stay readable, as far as days allow."""
        return self.retention.cuts or _KEPT_CUTS[self.format]

    @property
    def retention_path(self) -> str:
        """Path of the file with the oldest kept cut."""
        return retention_path(self.lake)

    @property
    def log_path(self) -> str:
        """Path of the log."""
        return f"{self.lake}/_tailrace/log"

    @property
    def dead_letters_path(self) -> str:
        """Path of the table of records that could not be applied."""
        return dead_letters_path(self.lake)

    @property
    def names_path(self) -> str:
        """Path of the table of names in the catalog."""
        return f"{self.lake}/_tailrace/names"

    @property
    def schemas_path(self) -> str:
        """Folder of the writer schemas."""
        return f"{self.lake}/_tailrace/schemas"

    @property
    def intent_path(self) -> str:
        """Path of the files that record which batch has started, without the sink's epoch."""
        return f"{self.lake}/_tailrace/intent"

    @property
    def progress_checkpoint(self) -> str:
        """Spark's checkpoint location of the progress stream."""
        return self.checkpoint_location or f"{self.lake}/_tailrace/checkpoint"

    @classmethod
    def load(cls, options: Mapping[str, Any]) -> SinkConfig:
        """Validate a mapping of options.

        Raises:
            ConfigError: names every wrong option with its value and its fix.
        """
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            raise ConfigError(problems(error, cls)) from None
