"""Membership of the consumer group in which the publishers of a database share its shards.

Partition ``n`` of the control topic is shard ``n``: the publisher to which Kafka assigns it
publishes the shard. The assignment is cooperative, so shards that do not move continue while others
move. The assignment is only a proposal. The transactional id ensures that nobody writes for a shard
that another publisher has taken.
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
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant Read and Describe on the control topic",
    KafkaError.INVALID_SESSION_TIMEOUT: (
        "set publisher.shards.session_timeout_s within group.min.session.timeout.ms and"
        " group.max.session.timeout.ms of the brokers"
    ),
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "stop the other program that uses this consumer group",
}
_HEARTBEATS_A_SESSION: Final = 3


class ShardGroup:
    """One member of the group.

    Args:
        member: a Kafka client with the options of :func:`member_options`.
        take: called with numbers of shards that were assigned here.
        leave: called with numbers of revoked shards; when it returns, others get them.
    """

    def __init__(
        self,
        member: GroupMember,
        topic: str,
        take: Callable[[Sequence[int]], None],
        leave: Callable[[Sequence[int]], None],
    ) -> None:
        self._member = member
        self._take = take
        self._leave = leave
        member.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
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
            raise translate("sharing the shards", error) from error
        failure = None if message is None else message.error()
        if failure is None:
            return
        if failure.code() in _REFUSED or failure.fatal():
            reason = str(translate_code("sharing the shards", failure))
            fix = _FIXES.get(failure.code())
            raise DeliveryRejected(f"{reason}. Fix: {fix}" if fix else reason, code=failure.code())
        _log.warning("group_not_reached", reason=failure.str())

    def close(self) -> None:
        """Leave the group at once; leave all shards before."""
        with suppress(KafkaException):
            self._member.close()

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self._member.incremental_assign(partitions)
        self._take(_numbers(partitions))

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        self._leave(_numbers(partitions))
        self._member.incremental_unassign(partitions)

    def _lost(self, _: Any, partitions: list[Any]) -> None:
        _log.warning("shards_lost", shards=_numbers(partitions), reason="session timed out")
        self._revoked(_, partitions)


def member_options(
    connection: Mapping[str, str], group: str, session_timeout_s: float
) -> dict[str, Any]:
    """Return the options of a member's client.

    Args:
        connection: options of the brokers' connection.
        session_timeout_s: seconds without a heartbeat until its shards are assigned to others.
    """
    session_ms = round(session_timeout_s * 1000)
    return {
        **connection,
        "group.id": group,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": session_ms // _HEARTBEATS_A_SESSION,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
        "allow.auto.create.topics": False,
        # A new topic's metadata may lag for a moment: then no partition would be assigned.
        "topic.metadata.refresh.interval.ms": 10_000,
    }


def _numbers(partitions: Sequence[Any]) -> list[int]:
    return sorted(found.partition for found in partitions)
