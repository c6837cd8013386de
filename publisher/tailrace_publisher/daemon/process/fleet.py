"""Which databases this process publishes: all of them, or those that the fleet's group assigns.

A revoked database ends like the whole publisher ends on a signal. What was sent is committed as far
as it was read, and the next publisher continues from there. The database is given away even if its
publisher does not end in time: then the next one fences it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from typing import Final, Protocol

import structlog

from tailrace_publisher.daemon.process.fleet_group import FleetGroup, member_options
from tailrace_publisher.daemon.process.one_database import OneDatabase
from tailrace_publisher.deliver.topics import TopicAdmin, offsets_spec
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.ports import Ports, Stop
from tailrace_publisher.runtime import kafka_access
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)

_LEAVE_S: Final = 30.0
"""How long to wait for a revoked database's publisher before it is given away. Longer than most
commits, and much shorter than max.poll.interval.ms, after which the group removes this member."""


class Assignment(Protocol):
    """Decides which databases are published here."""

    def look(self, wait_s: float) -> None:
        """Take and leave databases as it is decided, and let time pass.

        Raises:
            PublisherError: an error that waiting does not cure.
        """

    def close(self) -> None:
        """Leave all databases; their publishers may still end."""


class Everything:
    """All databases are published here."""

    def __init__(self, databases: Sequence[OneDatabase], ports: Ports, stop: Stop) -> None:
        self._databases = databases
        self._clock = ports.clock
        self._stop = stop
        self._has_begun = False

    def look(self, wait_s: float) -> None:
        """Take all databases once."""
        if not self._has_begun:
            self._has_begun = True
            for one in self._databases:
                one.take()
        self._clock.wait(wait_s, self._stop)

    def close(self) -> None:
        """Ask all publishers to end."""
        for one in self._databases:
            one.end()


class Fleet:
    """The databases are shared with other members of a consumer group.

    Args:
        databases: at least one; the options of the first are those of the membership.
    """

    def __init__(self, databases: Sequence[OneDatabase], ports: Ports, stop: Stop) -> None:
        self._by_topic = {one.runtime.config.topics.offsets: one for one in databases}
        self._config = databases[0].runtime.config
        self._ports = ports
        self._stop = stop
        self._backoff = Backoff(self._config.retry_backoff_max_s)
        self._group: FleetGroup | None = None

    def look(self, wait_s: float) -> None:
        """Poll the group; if it cannot be reached, leave all databases and join again later.

        Raises:
            PublisherError: an error that waiting does not cure.
        """
        try:
            if self._group is None:
                self._group = self._join()
            self._group.look(wait_s)
        except PublisherError as error:
            self.close()
            if not error.retryable:
                _log.error("publisher_failed", error=type(error).__name__, reason=str(error))
                raise
            for one in self._by_topic.values():
                one.group_failed(error)
            _log.warning("retrying", error=type(error).__name__, reason=str(error))
            self._ports.clock.wait(self._backoff.next_s(), self._stop)
        # Joining proves nothing: every attempt joins.
        if any(one.has_published for one in self._by_topic.values()):
            self._backoff.reset()

    def close(self) -> None:
        """Leave all databases, then the group."""
        self._leave(list(self._by_topic))
        if self._group is not None:
            self._group.close()
            self._group = None

    def _join(self) -> FleetGroup:
        """Create the topics as their publishers would, and join the group.

        Raises:
            DeliveryError: the brokers do not answer, or refuse.
        """
        for topic, one in self._by_topic.items():
            kafka = one.runtime.config.kafka
            access = kafka_access(one.runtime.config, self._ports)
            admin = TopicAdmin(access, kafka.replication_factor, kafka.start_timeout_s)
            admin.ensure([offsets_spec(topic)])
        config, topics = self._config, sorted(self._by_topic)
        group = config.fleet_group
        options = member_options(config.kafka.connection(), group, config.fleet.session_timeout_s)
        _log.info("fleet_joined", group=group, topics=topics)
        return FleetGroup(self._ports.join(options), topics, self._take, self._leave)

    def _take(self, topics: Sequence[str]) -> None:
        for one in self._by_topic.values():
            one.joined()
        for topic in topics:
            one = self._by_topic[topic]
            _log.info("database_taken", database=one.name)
            one.take()

    def _leave(self, topics: Sequence[str]) -> None:
        left = [one for one in map(self._by_topic.__getitem__, topics) if one.is_here]
        for one in left:
            one.end()
        wait([one.ending for one in left], _LEAVE_S)
        for one in left:
            is_running = one.is_running
            one.left()
            if not is_running:
                _log.info("database_left", database=one.name)
            else:
                _log.warning(
                    "database_left_open",
                    database=one.name,
                    waited_s=_LEAVE_S,
                    effect="the publisher that gets the database fences this one",
                )
