"""How topics are kept: what new ones get, and what those that exist are checked for (ADR 0014)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from tailrace_publisher.deliver.kafka_errors import kafka_error, translate
from tailrace_publisher.errors import CheckpointRetentionTooShort, KafkaUnavailable, TopicCompacted
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.ports import Clock, KafkaAdmin

_log = structlog.get_logger(__name__)

_BROKERS_DEFAULT: Final = -1
_MANY_COPIES: Final = 3  # from here on one broker may be away while two copies are asked for
_MARGIN_S: Final = 1.0  # so that the client's own timeout, which says why, comes first
_UNLIMITED: Final = "-1"
_FOR_EVER: Final = 1 << 63
_DAY_MS: Final = 86_400_000
_ENOUGH_DAYS: Final = 30
_POLL_S: Final = 0.05
_NOT_ALLOWED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


@dataclass(frozen=True, slots=True)
class BrokerDefaults:
    """What a new topic gets that says nothing about it; None where the brokers do not tell.

    Attributes:
        replication_factor: copies.
        min_insync_replicas: copies that must be written before a record counts as written.
    """

    replication_factor: int | None = None
    min_insync_replicas: int | None = None


def new_topic_durability(
    configured: int | None, defaults: BrokerDefaults
) -> tuple[int, dict[str, str]]:
    """How many copies a new topic gets, and the settings that go with that.

    The brokers' default factor is asked for by its number, not by "your default": what is asked for
    must fit min.insync.replicas, or nothing could ever be written.

    Args:
        configured: the option; None leaves it to the brokers.
        defaults: of the brokers.

    Returns:
        The replication factor, -1 for the brokers' own, and topic settings.
    """
    factor = configured or defaults.replication_factor or _BROKERS_DEFAULT
    if factor >= _MANY_COPIES and (defaults.min_insync_replicas or 1) == 1:
        return factor, {"min.insync.replicas": "2"}
    return factor, {}


def progress_settings(kafka: KafkaConfig) -> dict[str, str]:
    """Choose the settings of a new progress topic: kept no shorter than any data topic."""
    days = kafka.progress_retention_days
    rules = [{}, *(rule.settings for rule in kafka.topic_rules.values())]
    # What neither says is up to the brokers: tell_retention compares when the topics are there.
    data = [{"retention.ms": "0", **kafka.topic_settings, **rule} for rule in rules]
    longest = max(_FOR_EVER if days is None else days * _DAY_MS, *map(_kept_ms, data))
    return {
        "cleanup.policy": "delete",
        "retention.ms": _UNLIMITED if longest == _FOR_EVER else str(longest),
        "retention.bytes": _UNLIMITED,
    }


def alter_command(topic: str, settings: Mapping[str, str]) -> str:
    """Write the command that changes settings of a topic."""
    wanted = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {wanted}"


def check_keeps_newest(topic: str, settings: Mapping[str, str]) -> None:
    """Check that the newest record of every key stays in a topic.

    Raises:
        CheckpointRetentionTooShort: it may be removed for its age or for the topic's size.
    """
    policy = settings.get("cleanup.policy", "")
    limits = retention_limits(settings)
    if "compact" not in policy or ("delete" in policy and limits):
        raise CheckpointRetentionTooShort(topic, {"cleanup.policy": policy, **limits})


def tell_retention(
    topic: str, settings: Mapping[str, str], data_topics: Mapping[str, Mapping[str, str]]
) -> None:
    """Warn of a progress topic that forgets earlier than the data topics do.

    Args:
        topic: the progress topic.
        settings: its settings.
        data_topics: those of the data topics, by name; what is not known may be kept for ever.
    """
    kept = kept_too_short(settings, data_topics.values())
    if kept is None:
        return
    limits = retention_limits(settings)
    _log.warning(
        "progress_topic_forgets",
        topic=topic,
        settings=limits,
        effect="events whose progress record is gone prove nothing: tailrace audit leaves them out,"
        " and a sink that lacks records goes on by new snapshots of all tables",
        fix=alter_command(topic, {"retention.ms": kept, "retention.bytes": _UNLIMITED}),
    )


def kept_too_short(
    progress: Mapping[str, str], data_topics: Iterable[Mapping[str, str]]
) -> str | None:
    """How long the progress topic should be kept, or None where it is kept long enough.

    Args:
        progress: its settings.
        data_topics: those of the data topics.

    Returns:
        ``retention.ms``: the longest of the data topics'.
    """
    limits = retention_limits(progress)
    longest = max(map(_kept_ms, data_topics), default=0)
    is_enough = limits.keys() <= {"retention.ms"} and _kept_ms(progress) >= longest
    if not limits or is_enough:
        return None
    return _UNLIMITED if longest == _FOR_EVER else str(longest)


def kept_needlessly(
    progress: Mapping[str, str], data_topics: Iterable[Mapping[str, str]]
) -> str | None:
    """Say how long is enough for a progress topic that is kept for ever; None if it must be.

    Args:
        progress: its settings.
        data_topics: those of the data topics.

    Returns:
        ``retention.ms``: the longest of the data topics', 30 days at least.
    """
    longest = max(map(_kept_ms, data_topics), default=_FOR_EVER)
    if _kept_ms(progress) < _FOR_EVER or longest == _FOR_EVER:
        return None
    return str(max(longest, _ENOUGH_DAYS * _DAY_MS))


def _kept_ms(settings: Mapping[str, str]) -> int:
    """Milliseconds that records of a topic are kept at most; without a limit, for ever."""
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return _FOR_EVER
    kept = settings.get("retention.ms", _UNLIMITED)
    return _FOR_EVER if kept == _UNLIMITED else int(kept)


def is_compacted(settings: Mapping[str, str]) -> bool:
    """Whether a topic with these settings loses records that have a newer one of their key."""
    return "compact" in settings.get("cleanup.policy", "")


def check_not_compacted(topic: str, settings: Mapping[str, str]) -> None:
    """Check that a data topic holds what the ledger counts, until retention takes it.

    Raises:
        TopicCompacted: it does not.
    """
    if is_compacted(settings):
        raise TopicCompacted(topic, settings["cleanup.policy"])


def tell_durability(copies: Mapping[str, int], settings: Mapping[str, Mapping[str, str]]) -> None:
    """Warn of topics whose records one lost disk takes away; a single broker has no others."""
    for topic, count in sorted(copies.items()):
        if count == 1:
            _log.warning(
                "topic_has_one_copy",
                topic=topic,
                effect="a lost disk loses it, and with the checkpoint the place to go on from",
                fix="give it three copies: kafka-reassign-partitions; new topics get"
                " kafka.replication_factor",
            )
        elif count >= _MANY_COPIES and settings.get(topic, {}).get("min.insync.replicas") == "1":
            _log.warning(
                "topic_takes_one_copy_for_written",
                topic=topic,
                copies=count,
                effect="what is committed while its other copies lag is lost with one disk",
                fix=alter_command(topic, {"min.insync.replicas": "2"}),
            )


def describe_topics(
    admin: KafkaAdmin, topics: Sequence[str], clock: Clock, timeout_s: float
) -> dict[str, dict[str, str]]:
    """The settings of topics, by name; those that may not be seen are missing, and told.

    Args:
        admin: asks.
        topics: names of topics that exist. A broker that has just started, or that has not heard
            of a new topic yet, does not know it: it is asked for again.
        clock: waits between two questions.
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
            clock.wait(_POLL_S)
    if refused:
        _log.warning(
            "topic_settings_not_visible",
            topics=sorted(refused),
            effect="whether they keep what they must is not checked",
            fix="grant DescribeConfigs on the topics",
        )
    return found


def broker_defaults(admin: KafkaAdmin, brokers: Iterable[int], timeout_s: float) -> BrokerDefaults:
    """What new topics get, as one of the brokers says; nothing where that may not be asked.

    Args:
        admin: asks.
        brokers: their numbers.
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
    """The settings of a topic that let its records expire."""
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
    """Settings by name of the resource, and the names of those that may not be seen.

    What the broker does not know is in neither.
    """
    found: dict[str, dict[str, str]] = {}
    refused: set[str] = set()
    if not wanted:
        return found, refused
    for resource, future in admin.describe_configs(wanted, request_timeout=timeout_s).items():
        what = f"describing settings of {resource.name}"
        try:
            entries = future.result(timeout_s + _MARGIN_S)
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
