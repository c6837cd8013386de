"""The options of the Kafka cluster that both daemons have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tailrace_service.options.sections import Section, read_secret


class KafkaOptions(Section):
    """The Kafka cluster, and how a client connects to it."""

    RESERVED: ClassVar[Mapping[str, str]] = {}
    """Client options that may not be given: name to the reason."""

    bootstrap: str = Field(min_length=1, description="Comma-separated host:port of some brokers.")
    extra: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Further options of the Kafka client, e.g. security.protocol, sasl.* and ssl.*:"
        " librdkafka's of the publisher, the Java consumer's of the sink. They may not name what"
        " the daemon sets itself. Never logged.",
    )
    extra_files: dict[str, Path] = Field(
        default_factory=dict,
        description="The same, each from a file: option to path, e.g. sasl.password, whose value is"
        " the file's first line. Read whenever the program connects again.",
    )

    @field_validator("extra", "extra_files")
    @classmethod
    def _not_reserved(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for why in dict.fromkeys(cls.RESERVED.values()):
            given = sorted(name for name in extra if cls.RESERVED.get(name) == why)
            if given:
                raise ValueError(f"remove {', '.join(given)}: {why}")
        return extra

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        both = sorted(self.extra.keys() & self.extra_files.keys())
        if both:
            raise ValueError(f"give {', '.join(both)} in one of extra and extra_files")
        return self

    def read_extra(self) -> dict[str, str]:
        """Read the further options with their secrets, for the clients only.

        Raises:
            SecretUnreadable: a file cannot be read.
        """
        given = {name: value.get_secret_value() for name, value in self.extra.items()}
        return given | {
            name: read_secret(f"kafka.extra_files.{name}", file)
            for name, file in self.extra_files.items()
        }
