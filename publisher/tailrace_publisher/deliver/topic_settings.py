"""Retention and copies of topics: settings of new ones, checks of existing ones (ADR 0014)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from tailrace_publisher.deliver.kafka_errors import kafka_error, translate
from tailrace_publisher.errors import CheckpointRetentionTooShort, KafkaUnavailable, TopicCompacted
from tailrace_publisher.options.broker_waits import MARGIN_S, POLL_S
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.ports import Clock, KafkaAdmin

_log = structlog.get_logger(__name__)

_BROKERS_DEFAULT: Final = -1
_MANY_COPIES: Final = 3  # from here on two copies are required and one broker may be away
_UNLIMITED: Final = "-1"
_FOR_EVER: Final = 1 << 63
_DAY_MS: Final = 86_400_000
_ENOUGH_DAYS: Final = 30
_NOT_ALLOWED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


@dataclass(frozen=True, slots=True)
class BrokerDefaults:
    """The brokers' defaults for new topics; None if the brokers do not report them.

    Attributes:
        min_insync_replicas: copies that must be written before a record counts as written.
    """

    replication_factor: int | None = None
    min_insync_replicas: int | None = None


def new_topic_durability(
    configured: int | None, defaults: BrokerDefaults
) -> tuple[int, dict[str, str]]:
    """Choose the number of copies of a new topic, and the settings that fit it.

    The brokers' default factor is requested as a number, not as "your default". The number must fit
    min.insync.replicas, or nothing could ever be written.

    Args:
        configured: the option; None leaves it to the brokers.

    Returns:
        The replication factor, -1 for the brokers' own, and topic settings.
    """
    factor = configured or defaults.replication_factor or _BROKERS_DEFAULT
    if factor >= _MANY_COPIES and (defaults.min_insync_replicas or 1) == 1:
        return factor, {"min.insync.replicas": "2"}
    return factor, {}


def progress_settings(kafka: KafkaConfig) -> dict[str, str]:
    """Choose the settings of a new progress topic: retained at least as long as any data topic."""
    days = kafka.progress_retention_days
    rules = [{}, *(rule.settings for rule in kafka.topic_rules.values())]
    # Otherwise the brokers decide: warn_of_retention compares once the topics exist.
    data = [{"retention.ms": "0", **kafka.topic_settings, **rule} for rule in rules]
    longest = max(_FOR_EVER if days is None else days * _DAY_MS, *map(_retention_ms, data))
    return {
        "cleanup.policy": "delete",
        "retention.ms": _UNLIMITED if longest == _FOR_EVER else str(longest),
        "retention.bytes": _UNLIMITED,
    }


def alter_command(topic: str, settings: Mapping[str, str]) -> str:
    """Return the command that changes settings of a topic."""
    wanted = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {wanted}"


def check_retains_newest(topic: str, settings: Mapping[str, str]) -> None:
    """Check that a topic retains the newest record of every key.

    Raises:
        CheckpointRetentionTooShort: a record may be removed for its age or the topic's size.
    """
    policy = settings.get("cleanup.policy", "")
    limits = retention_limits(settings)
    if "compact" not in policy or ("delete" in policy and limits):
        raise CheckpointRetentionTooShort(topic, {"cleanup.policy": policy, **limits})


def warn_of_retention(
    topic: str, settings: Mapping[str, str], data_topics: Mapping[str, Mapping[str, str]]
) -> None:
    """Warn of a progress topic that drops records earlier than the data topics do.

    Args:
        settings: of the progress topic.
        data_topics: settings by name. An unknown limit counts as unlimited.
    """
    kept = retention_too_short(settings, data_topics.values())
    if kept is None:
        return
    limits = retention_limits(settings)
    _log.warning(
        "progress_retention_too_short",
        topic=topic,
        settings=limits,
        effect="tailrace audit leaves out events whose progress record is gone; a sink that lacks"
        " records continues only with new snapshots of all tables",
        fix=alter_command(topic, {"retention.ms": kept, "retention.bytes": _UNLIMITED}),
    )


def retention_too_short(
    progress: Mapping[str, str], data_topics: Iterable[Mapping[str, str]]
) -> str | None:
    """Return the retention that a progress topic lacks; None if it is retained long enough.

    Returns:
        ``retention.ms``: the longest of the data topics'.
    """
    limits = retention_limits(progress)
    longest = max(map(_retention_ms, data_topics), default=0)
    is_enough = limits.keys() <= {"retention.ms"} and _retention_ms(progress) >= longest
    if not limits or is_enough:
        return None
    return _UNLIMITED if longest == _FOR_EVER else str(longest)


def retention_needless(
    progress: Mapping[str, str], data_topics: Iterable[Mapping[str, str]]
) -> str | None:
    """Return a sufficient retention for an unlimited progress topic; None if it must be unlimited.

    Returns:
        ``retention.ms``: the longest of the data topics', 30 days at least.
    """
    longest = max(map(_retention_ms, data_topics), default=_FOR_EVER)
    if _retention_ms(progress) < _FOR_EVER or longest == _FOR_EVER:
        return None
    return str(max(longest, _ENOUGH_DAYS * _DAY_MS))


def _retention_ms(settings: Mapping[str, str]) -> int:
    """Return the milliseconds for which a topic retains records at most."""
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return _FOR_EVER
    kept = settings.get("retention.ms", _UNLIMITED)
    return _FOR_EVER if kept == _UNLIMITED else int(kept)


def is_compacted(settings: Mapping[str, str]) -> bool:
    """Return whether a topic loses records once a newer one has the same key."""
    return "compact" in settings.get("cleanup.policy", "")


def check_not_compacted(topic: str, settings: Mapping[str, str]) -> None:
    """Check that a data topic retains everything that the ledger counts, until it expires.

    Raises:
        TopicCompacted: compaction removes records earlier.
    """
    if is_compacted(settings):
        raise TopicCompacted(topic, settings["cleanup.policy"])


def warn_of_durability(
    copies: Mapping[str, int], settings: Mapping[str, Mapping[str, str]]
) -> None:
    """Warn of topics that lose records with one disk."""
    for topic, count in sorted(copies.items()):
        if count == 1:
            _log.warning(
                "topic_has_one_copy",
                topic=topic,
                effect="a lost disk loses the topic, and with the checkpoint the place to resume",
                fix="give it three copies with kafka-reassign-partitions; new topics get"
                " kafka.replication_factor",
            )
        elif count >= _MANY_COPIES and settings.get(topic, {}).get("min.insync.replicas") == "1":
            _log.warning(
                "topic_min_insync_too_low",
                topic=topic,
                copies=count,
                effect="a lost disk loses what was committed while the other copies lagged",
                fix=alter_command(topic, {"min.insync.replicas": "2"}),
            )
        if count > 1 and settings.get(topic, {}).get("unclean.leader.election.enable") == "true":
            _log.warning(
                "topic_allows_unclean_election",
                topic=topic,
                effect="a copy that lags may become the leader, and what it lacks is lost",
                fix=alter_command(topic, {"unclean.leader.election.enable": "false"}),
            )


def describe_topics(
    admin: KafkaAdmin, topics: Sequence[str], clock: Clock, timeout_s: float
) -> dict[str, dict[str, str]]:
    """Return the settings of topics by name, without those that we may not see, which are logged.

    A broker that has just started, or has not heard of a new topic yet, does not know it and is
    queried again.

    Args:
        topics: names of topics that exist.
        clock: waits between two queries.
        timeout_s: longest wait for brokers.

    Raises:
        KafkaUnavailable: no broker answered in time, or the one that did knows no such topic.
        DeliveryError: the brokers refused for another reason than a missing permission.
    """
    found: dict[str, dict[str, str]] = {}
    refused: set[str] = set()
    deadline = clock.monotonic() + timeout_s
    while wanted := [topic for topic in topics if topic not in found and topic not in refused]:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in wanted]
        answered, not_allowed = _describe(admin, resources, timeout_s)
        found |= answered
        refused |= not_allowed
        if len(answered) + len(not_allowed) < len(wanted):
            if clock.monotonic() > deadline:
                names = ", ".join(topic for topic in wanted if topic not in answered)
                raise KafkaUnavailable(f"describing settings: a broker does not know {names}")
            clock.wait(POLL_S)
    if refused:
        _log.warning(
            "topic_settings_not_visible",
            topics=sorted(refused),
            effect="the retention and copies of these topics are not checked",
            fix="grant DescribeConfigs on the topics",
        )
    return found


def broker_defaults(admin: KafkaAdmin, brokers: Iterable[int], timeout_s: float) -> BrokerDefaults:
    """Return what new topics get, as one of the brokers reports it; nothing if we may not see it.

    Args:
        brokers: the numbers of the brokers.
        timeout_s: longest wait for the broker.

    Raises:
        KafkaUnavailable: the broker did not answer in time.
        DeliveryError: it refused for another reason than a missing permission.
    """
    number = str(min(brokers, default=0))
    found, _ = _describe(admin, [ConfigResource(ResourceType.BROKER, number)], timeout_s)
    settings = found.get(number, {})
    return BrokerDefaults(
        _number(settings, "default.replication.factor"), _number(settings, "min.insync.replicas")
    )


def retention_limits(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a topic that let its records expire."""
    return {
        name: settings[name]
        for name in ("retention.ms", "retention.bytes")
        if settings.get(name, _UNLIMITED) != _UNLIMITED
    }


def _number(settings: Mapping[str, str], name: str) -> int | None:
    value = settings.get(name)
    return int(value) if value and value.isdigit() else None


def _describe(
    admin: KafkaAdmin, wanted: list[ConfigResource], timeout_s: float
) -> tuple[dict[str, dict[str, str]], set[str]]:
    """Return settings by name of the resource, and the names that we may not see.

    A resource that the broker does not know is in neither.
    """
    found: dict[str, dict[str, str]] = {}
    refused: set[str] = set()
    if not wanted:
        return found, refused
    for resource, future in admin.describe_configs(wanted, request_timeout=timeout_s).items():
        what = f"describing settings of {resource.name}"
        try:
            entries = future.result(timeout_s + MARGIN_S)
        except TimeoutError as error:
            raise KafkaUnavailable(f"{what}: no answer") from error
        except KafkaException as error:
            inner = kafka_error(error)
            code = None if inner is None else inner.code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            if code not in _NOT_ALLOWED:
                raise translate(what, error) from error
            refused.add(resource.name)
        else:
            found[resource.name] = {
                entry.name: entry.value for entry in entries.values() if entry.value is not None
            }
    return found, refused
