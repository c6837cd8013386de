"""Options of the Kafka cluster, as Spark's consumers take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tailrace_service.options.sections import (
    SecretUnreadable,
    Section,
    given_once,
    leave_alone,
    read_extra,
)
from tailrace_sink.errors import ConfigError


class KafkaConfig(Section):
    """The Kafka cluster that holds the topics."""

    bootstrap: str = Field(min_length=1, description="Comma-separated host:port of some brokers.")
    extra: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Further options of the Java consumer, e.g. security.protocol, sasl.jaas.config"
        " and ssl.*; they may not name what the sink sets itself. Never logged.",
    )
    extra_files: dict[str, Path] = Field(
        default_factory=dict,
        description="The same, each from a file: option to path, e.g. sasl.password, whose value is"
        " the file's first line. Read whenever the program connects anew.",
    )
    request_timeout_s: float = Field(
        default=15.0,
        ge=1.0,
        le=600.0,
        description="Seconds until a broker that does not answer counts as unavailable; 1 to 600,"
        " default 15. The sink then waits and tries again.",
    )
    poll_timeout_s: float = Field(
        default=10.0,
        ge=0.5,
        le=600.0,
        description="Seconds an executor waits for records that the ledger promises; 0.5 to 600,"
        " default 10. Too low fails on a slow broker, too high notices lost records late.",
    )

    @field_validator("extra", "extra_files")
    @classmethod
    def _nothing_protected(cls, extra: dict[str, Any]) -> dict[str, Any]:
        protected = ("bootstrap.servers", "isolation.level", "group.id", "auto.offset.reset")
        leave_alone(extra, protected, "the promise of exact cuts rests on it")
        return extra

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        given_once(self.extra, self.extra_files)
        return self

    def further_options(self) -> dict[str, str]:
        """The further options with their secrets, for the consumers only.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        try:
            return read_extra(self.extra, self.extra_files)
        except SecretUnreadable as error:
            raise ConfigError([str(error)]) from error
