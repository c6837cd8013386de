"""Where the topics of one database are, and what is read of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.subscribe.errors import ArgumentRefused, OptionRefused
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry

FIXED: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_WHY: Final[Mapping[str, str]] = {
    "isolation.level": "events of aborted transactions would be read: no order and no exactly once",
    "enable.auto.commit": "offsets would be committed before you have handled their events",
    "enable.auto.offset.store": "offsets would be committed before you have handled their events",
    "auto.offset.reset": "events that retention removed would be skipped in silence",
    "enable.partition.eof": "the end of a partition would not be noticed",
}
_SCHEMES: Final = ("http://", "https://")
_OURS: Final[Mapping[str, str]] = {
    "group.id": "pass group= to subscribe",
    "bootstrap.servers": "it is the first argument of Feed",
}


@dataclass(frozen=True)
class Feed:
    """The topics of one database.

    Attributes:
        bootstrap: comma-separated host:port of some brokers.
        registry: URL of the registry's Confluent API, or a client with its own authentication.
        prefix: the publisher's option ``prefix``; of several databases, with the database's name.
            The names themselves where the publisher has templates (``topic_names``).
        kafka: further librdkafka options of the connection, such as ``security.protocol``.

    Raises:
        ValueError: the prefix is not usable.
        ArgumentRefused: an address has another form.
        OptionRefused: an option of ``kafka`` would break the order.
    """

    bootstrap: str
    registry: str | SchemaRegistry
    prefix: str | TopicNames
    kafka: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the options before anything connects."""
        _ = self.names
        if not self.bootstrap or "http" in self.bootstrap.partition("://")[0]:
            raise ArgumentRefused(
                f"brokers {self.bootstrap!r} are no addresses of Kafka. Fix: write host:port, such"
                " as localhost:9092; commas separate several"
            )
        if isinstance(self.registry, str) and not self.registry.startswith(_SCHEMES):
            raise ArgumentRefused(
                f"registry {self.registry!r} is no URL. Fix: begin it with http:// or https://"
            )
        for name, value in self.kafka.items():
            if name in _OURS:
                raise OptionRefused(f"kafka option {name} is not yours to set: {_OURS[name]}")
            if name in FIXED and str(value).lower() != str(FIXED[name]).lower():
                raise OptionRefused(
                    f"kafka option {name}={value} is refused: {_WHY[name]}. Fix: leave it out; it"
                    f" is {str(FIXED[name]).lower()}"
                )

    @property
    def names(self) -> TopicNames:
        """The names of the topics."""
        return TopicNames(self.prefix) if isinstance(self.prefix, str) else self.prefix
