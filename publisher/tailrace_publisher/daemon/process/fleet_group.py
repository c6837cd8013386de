"""Membership of the consumer group whose members share databases.

Each database has one partition in the group: that of its checkpoint topic. The publisher to which
Kafka assigns it publishes the database. The assignment is cooperative, so databases that do not
move continue while others move (KIP-429). It is only a proposal: the transactional id ensures that
nobody writes for a database that another publisher has taken. The records of the partitions are
not read here, so they stay paused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from tailrace_publisher.deliver.kafka_errors import translate, translate_code
from tailrace_publisher.errors import DeliveryRejected
from tailrace_publisher.ports import GroupMember

_log = structlog.get_logger(__name__)

_REFUSED: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)
_FIXES: Final = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant Read on the consumer group",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant Read and Describe on <prefix>.offsets",
    KafkaError.INVALID_SESSION_TIMEOUT: (
        "set publisher.fleet.session_timeout_s within group.min.session.timeout.ms and"
        " group.max.session.timeout.ms of the brokers"
    ),
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "stop the other program that uses this consumer group",
}
_HEARTBEATS_A_SESSION: Final = 3
"""See: Kafka, Consumer Configs, heartbeat.interval.ms: at most a third of the session timeout."""


class FleetGroup:
    """One member of the group.

    Args:
        member: a Kafka client with the options of :func:`member_options`.
        topics: the checkpoint topic of each database that this member can publish.
        take: called with topics that were assigned here, also if there are none.
        leave: called with revoked topics; when it returns, others get them.
    """

    def __init__(
        self,
        member: GroupMember,
        topics: Sequence[str],
        take: Callable[[Sequence[str]], None],
        leave: Callable[[Sequence[str]], None],
    ) -> None:
        self._member = member
        self._take = take
        self._leave = leave
        member.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def look(self, wait_s: float) -> None:
        """Poll the group for some time; this calls the callbacks.

        Raises:
            DeliveryRejected: the brokers refuse membership of the group.
            DeliveryError: the brokers refuse for another reason.
        """
        try:
            message = self._member.poll(wait_s)
        except KafkaException as error:
            raise translate("sharing the databases", error) from error
        failure = None if message is None else message.error()
        if failure is None:
            return
        if failure.code() in _REFUSED or failure.fatal():
            reason = str(translate_code("sharing the databases", failure))
            fix = _FIXES.get(failure.code())
            raise DeliveryRejected(f"{reason}. Fix: {fix}" if fix else reason, code=failure.code())
        _log.warning("group_not_reached", reason=failure.str())

    def close(self) -> None:
        """Leave the group at once; leave all databases before."""
        with suppress(KafkaException):
            self._member.close()

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        # Inferred from librdkafka 2.16: a member that gets no partition is called, too, at once.
        # tests/pipeline/daemon/test_fleet.py has one.
        self._member.incremental_assign(partitions)
        # A poll serves the group all the same. See: confluent_kafka, Consumer.pause.
        self._member.pause(partitions)
        self._take(_topics(partitions))

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        self._leave(_topics(partitions))
        self._member.incremental_unassign(partitions)

    def _lost(self, _: Any, partitions: list[Any]) -> None:
        _log.warning("membership_lost", topics=_topics(partitions), reason="session timed out")
        self._revoked(_, partitions)


def member_options(
    connection: Mapping[str, str], group: str, session_timeout_s: float
) -> dict[str, Any]:
    """Return the options of a member's client.

    Args:
        connection: options of the brokers' connection.
        session_timeout_s: seconds without a heartbeat until its databases are assigned to others.
    """
    session_ms = round(session_timeout_s * 1000)
    return {
        **connection,
        "group.id": group,
        # It weighs members by all partitions. The range assignor would give them all to the first,
        # because each topic has one. See: librdkafka, Configuration, partition.assignment.strategy.
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": session_ms // _HEARTBEATS_A_SESSION,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
        "allow.auto.create.topics": False,
        # A new topic's metadata may lag for a moment: then no partition would be assigned.
        "topic.metadata.refresh.interval.ms": 10_000,
    }


def _topics(partitions: Sequence[Any]) -> list[str]:
    """Return the topics; further partitions are of a database that no member may publish."""
    return sorted(found.topic for found in partitions if found.partition == 0)
