"""Options of the Kafka cluster, for Spark's consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from tailrace_service.options.kafka import KafkaOptions
from tailrace_service.options.sections import SecretUnreadable
from tailrace_sink.errors import ConfigError


class KafkaConfig(KafkaOptions):
    """The Kafka cluster that holds the topics."""

    RESERVED: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("bootstrap.servers", "isolation.level", "group.id", "auto.offset.reset"),
        "the promise of exact cuts rests on it",
    )

    request_timeout_s: float = Field(
        default=15.0,
        ge=1.0,
        le=600.0,
        description="Seconds until a broker that does not answer counts as unavailable; 1 to 600."
        " The sink then waits and tries again.",
    )
    poll_timeout_s: float = Field(
        default=10.0,
        ge=0.5,
        le=600.0,
        description="Seconds an executor waits for records that the ledger names; 0.5 to 600."
        " Lower: fails on a slow broker. Higher: lost records are noticed later.",
    )

    consumer_group: str = Field(
        default="",
        description="Consumer group under which the sink commits how far the lake is in the"
        " progress topic, for the publisher's option lakes and for tools that show the lag of a"
        " group. Each lake needs a name of its own. Empty: nothing is committed. Requires Read on"
        " the group.",
    )

    def further_options(self) -> dict[str, str]:
        """Read the further options with their secrets.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        try:
            return self.read_extra()
        except SecretUnreadable as error:
            raise ConfigError([str(error)]) from error
