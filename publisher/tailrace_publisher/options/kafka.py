"""Options of the Kafka cluster, and of the topics that the publisher creates there."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.oauth_tokens import OAuthTokens
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.kafka import KafkaOptions
from tailrace_service.options.sections import SecretUnreadable, Section, check_patterns, matches


class Partitioner(StrEnum):
    """The hash that chooses the partition of an event by its key."""

    CRC32 = "crc32"
    MURMUR2 = "murmur2"


class TopicRule(Section):
    """Partitions and settings of some tables' topics, when they are created."""

    partitions: int | None = Field(
        default=None, ge=1, le=10_000, description="Instead of kafka.partitions; 1 to 10000."
    )
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="In addition to kafka.topic_settings, which they override.",
    )


class KafkaConfig(KafkaOptions):
    """The Kafka cluster to which events are published."""

    RESERVED: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("transactional.id", "enable.idempotence", "acks", "bootstrap.servers"),
            "exactly-once delivery sets it",
        ),
        "transaction.timeout.ms": "it is the option kafka.transaction_timeout_s",
    }

    oauth_callback: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
        description="Function that returns tokens for brokers with SASL/OAUTHBEARER, as"
        " package.module:function; default none. It gets the text of sasl.oauthbearer.config and"
        " returns (token, expires_at), the latter in seconds since 1970, optionally with principal"
        " and SASL extensions. The publisher and every command that connects to the brokers import"
        " its module. It requires security.protocol and sasl.mechanism: OAUTHBEARER in"
        " kafka.extra. Without it librdkafka can fetch tokens: sasl.oauthbearer.method: oidc in"
        " kafka.extra.",
    )
    partitions: int = Field(
        default=4,
        ge=1,
        le=10_000,
        description="Partitions of a data topic when it is created; 1 to 10000. One gives a total"
        " order per table, many let consumers share the work. Partitions added later stop a table"
        " with a key until a new snapshot is requested.",
    )
    replication_factor: int | None = Field(
        default=None,
        ge=1,
        le=32,
        description="Copies of every topic when it is created; 1 to 32; default (null): the"
        " brokers' default.replication.factor. Use 3 in production. With 3 and more, new topics get"
        " min.insync.replicas=2, unless the brokers' own default is higher, so that commits survive"
        " the loss of a disk. With 2 they get the brokers' default, because 2 of 2 would stop the"
        " publisher whenever one broker restarts. Existing topics are not changed; one copy is"
        " logged as a warning.",
    )
    topic_settings: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of data topics when they are created, e.g. retention.ms; default:"
        " none, which leaves them to the brokers. Existing topics are not changed.",
    )
    topic_rules: dict[str, TopicRule] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " {partitions, settings} of the topics of these tables when they are created. The first"
        " matching pattern counts; what it leaves out is as for all. settings are e.g. retention.ms"
        " or min.insync.replicas. Existing topics are not changed.",
    )
    progress_retention_days: int | None = Field(
        default=30,
        ge=1,
        le=3650,
        description="Days for which a new progress topic retains a record; 1 to 3650, null for"
        " ever; more if topic_settings or topic_rules retain data longer. Lower: less disk, but a"
        " sink that was away for longer continues with new snapshots of all tables, and tailrace"
        " audit leaves out events whose record is gone. Higher: a record of each commit stays that"
        " long. An existing topic is not changed.",
    )
    partitioner: Partitioner = Field(
        default=Partitioner.CRC32,
        description="What chooses the partition of a key: crc32 of the key's own bytes; murmur2 of"
        " all bytes, the schema's id included, as the default partitioner of Java's producer (and"
        " Debezium) does: it costs a few microseconds an event, and a new version of the key's"
        " schema moves keys to other partitions. Another one than before moves keys, too: the order"
        " of a key's events is then that of their positions only.",
    )
    allow_compaction: bool = Field(
        default=False,
        description="Whether data topics may have cleanup.policy=compact; if not, such a topic"
        " stops its table, alone, with an error. Compaction keeps the newest event of a key and"
        " removes others that the ledger counts. So true is for subscribers that want the newest"
        " state only: tailrace audit says 'not provable' of such topics, and the sink stops their"
        " tables as soon as compaction overtakes it.",
    )
    start_timeout_s: float = Field(
        default=10.0,
        ge=1.0,
        le=300.0,
        description="Seconds to wait for brokers at a start, until it is logged and retried; 1 to"
        " 300. Lower: slow brokers never answer in time. Higher: a missing broker is logged late.",
    )
    transaction_timeout_s: float = Field(
        default=300.0,
        ge=10.0,
        le=3600.0,
        description="Seconds after which the brokers abort an open transaction; 10 to 3600. At most"
        " transaction.max.timeout.ms of the brokers (900 s by default). A transaction is committed"
        " at a third of it, also inside a source transaction. Lower: a source that stalls for"
        " longer costs a retry. Higher: read_committed consumers wait that long after a publisher"
        " died and was not restarted.",
    )
    commit_timeout_s: float = Field(
        default=60.0,
        ge=1.0,
        le=3600.0,
        description="Seconds until a transaction's outcome counts as unknown; 1 to 3600. Then the"
        " producer is replaced and the checkpoint read back.",
    )

    @field_validator("topic_rules")
    @classmethod
    def _compile(cls, rules: dict[str, TopicRule]) -> dict[str, TopicRule]:
        check_patterns(rules)
        return rules

    @model_validator(mode="after")
    def _compacted_only_where_allowed(self) -> Self:
        for pattern, rule in self.topic_rules.items():
            if "compact" in rule.settings.get("cleanup.policy", "") and not self.allow_compaction:
                raise ValueError(
                    f"topic_rules {pattern!r}: cleanup.policy=compact needs allow_compaction: true"
                )
        return self

    def topic_rule(self, table: TableName) -> TopicRule:
        """Return partitions and settings of a table's topic when it is created."""
        name = f"{table.schema}.{table.table}"
        found = next((r for p, r in self.topic_rules.items() if matches([p], name)), TopicRule())
        return TopicRule(
            partitions=found.partitions or self.partitions,
            settings={**self.topic_settings, **found.settings},
        )

    @model_validator(mode="after")
    def _callback_is_asked(self) -> Self:
        if self.oauth_callback is None:
            return self
        given = {name: value.get_secret_value() for name, value in self.extra.items()}
        mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))
        if mechanism.upper() != "OAUTHBEARER":
            raise ValueError(
                "oauth_callback needs sasl.mechanism: OAUTHBEARER. Fix: set it in extra"
            )
        if given.get("sasl.oauthbearer.method", "").lower() == "oidc":
            raise ValueError(
                "give one of oauth_callback and sasl.oauthbearer.method: oidc: with the latter"
                " librdkafka fetches the tokens"
            )
        return self

    def librdkafka_options(self) -> dict[str, Any]:
        """Return the further options with their secrets, for the clients only.

        All are texts except ``oauth_cb``, which is present with oauth_callback.

        Raises:
            ConfigError: the file of a secret cannot be read, or oauth_callback is not usable.
            TokenUnavailable: oauth_callback raised an exception.
        """
        try:
            options: dict[str, Any] = self.read_extra()
        except SecretUnreadable as error:
            raise ConfigError([str(error)]) from error
        if self.oauth_callback is not None:
            config = options.get("sasl.oauthbearer.config", "")
            tokens = OAuthTokens(self.oauth_callback, config)
            tokens.first()
            options["oauth_cb"] = tokens
        return options

    @property
    def transaction_timeout_ms(self) -> int:
        """The option transaction_timeout_s in milliseconds."""
        return round(self.transaction_timeout_s * 1000)

    def connection(self) -> dict[str, Any]:
        """Return the brokers' addresses and credentials; raises what librdkafka_options does."""
        return {"bootstrap.servers": self.bootstrap, **self.librdkafka_options()}
