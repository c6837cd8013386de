"""Kafka: do the brokers answer, do the topics keep what they must, may we write to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
    ResourceType,
)

from tailrace.doctor.access_rules import Identities, look_at_access_rules
from tailrace.doctor.findings import Finding, Fix, Judge, Part, topic_fix
from tailrace.doctor.large_values import LargeValues, look_at_large_values
from tailrace_publisher.deliver.kafka_errors import unusable_options
from tailrace_publisher.deliver.segments import too_large_segments
from tailrace_publisher.deliver.topic_settings import (
    check_retains_newest,
    is_compacted,
    retention_limits,
    retention_needless,
    retention_too_short,
)
from tailrace_publisher.deliver.topics import check_undivided
from tailrace_publisher.errors import (
    CheckpointRetentionTooShort,
    ConfigError,
    DividedIntoShards,
    TokenUnavailable,
)
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.oauth_tokens import OPTION
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.tls_problems import broker_certificate_problem

_JUDGE: Final = Judge(Part.KAFKA)
_MANY_COPIES: Final = 3


def look_at_brokers(
    config: KafkaConfig,
    topics: TopicNames,
    data: Sequence[str],
    identities: Identities,
    large: LargeValues,
) -> Iterator[Finding]:
    """Judge the brokers and the topics.

    Args:
        topics: names of the publisher's own topics.
        data: names of the tables' topics.
        identities: under which names the publisher comes.
        large: how large values of the tables may be.
    """
    try:
        admin = AdminClient({**config.connection(), "log_level": 0})
    except ConfigError as error:
        is_file = config.oauth_callback is None or OPTION not in str(error)
        yield _JUDGE.problem(
            "kafka.extra_files" if is_file else OPTION,
            "; ".join(error.problems),
            "nothing can be published",
            Fix("mount the secret, or let this user read it") if is_file else None,
        )
        return
    except TokenUnavailable as error:
        yield _JUDGE.problem(OPTION, str(error), "nothing can be published")
        return
    except KafkaException as error:
        yield _JUDGE.problem("kafka.extra", unusable_options(error), "nothing can be published")
        return
    try:
        metadata = admin.list_topics(timeout=config.start_timeout_s)
    except KafkaException as error:
        options = config.librdkafka_options()
        told = broker_certificate_problem(config.bootstrap, options, config.start_timeout_s)
        yield _JUDGE.problem(
            "brokers",
            told or f"none answers at {config.bootstrap} ({error.args[0].str()})",
            "nothing can be published",
            None
            if told
            else Fix("check kafka.bootstrap, and security.protocol and sasl.* in kafka.extra"),
        )
        return
    count = len(metadata.brokers)
    yield _JUDGE.ok("brokers", f"{count} at {config.bootstrap}")
    broker = str(min(metadata.brokers, default=0))
    settings = _settings(admin, ResourceType.BROKER, [broker], config.start_timeout_s).get(broker)
    yield from _defaults(config, settings, count)
    yield from look_at_access_rules(admin, config, identities)
    try:
        check_undivided(topics, {name: len(t.partitions) for name, t in metadata.topics.items()})
    except DividedIntoShards as error:
        yield _JUDGE.problem("shards", str(error), "no publisher of this release starts")
    own = [topics.offsets, topics.progress, topics.signals]
    present = [name for name in [*own, *data] if name in metadata.topics]
    copies = {
        name: min((len(p.replicas) for p in metadata.topics[name].partitions.values()), default=0)
        for name in present
    }
    if not present:
        yield _JUDGE.ok("topics", f"none of prefix {topics.prefix} yet: the publisher makes them")
        return
    yield _JUDGE.ok("topics", f"{len(present)} of {len(own) + len(data)} are there")
    settings_of = _settings(admin, ResourceType.TOPIC, present, config.start_timeout_s)
    yield from _kept(config, topics, settings_of, copies)
    yield from look_at_large_values(large, settings_of)
    yield from _allowed(admin, config, present)


def _settings(
    admin: AdminClient, kind: ResourceType, names: Sequence[str], timeout_s: float
) -> dict[str, dict[str, str]]:
    """Settings by name; what may not be seen is missing."""
    found: dict[str, dict[str, str]] = {}
    wanted = [ConfigResource(kind, name) for name in names]
    for resource, future in admin.describe_configs(wanted, request_timeout=timeout_s).items():
        try:
            entries = future.result(timeout_s)
        except (KafkaException, TimeoutError):
            continue
        found[resource.name] = {e.name: e.value for e in entries.values() if e.value is not None}
    return found


def _defaults(
    config: KafkaConfig, settings: dict[str, str] | None, brokers: int
) -> Iterator[Finding]:
    if settings is None:
        yield _JUDGE.warning(
            "brokers' settings",
            "may not be seen",
            "copies of new topics and the longest transaction are not checked",
            Fix("allow DescribeConfigs on the cluster"),
        )
        return
    factor = config.replication_factor or int(settings.get("default.replication.factor", 1))
    if factor > brokers:
        yield _JUDGE.problem(
            "copies of new topics",
            f"{factor} are configured, and there are {brokers} brokers",
            "no topic can be created",
            Fix(f"kafka.replication_factor: {brokers}"),
        )
    elif factor == 1:
        yield _JUDGE.warning(
            "copies of new topics",
            "1",
            "a lost disk loses events, and with the checkpoint the place to resume from",
            Fix("kafka.replication_factor: 3, with three brokers"),
        )
    else:
        yield _JUDGE.ok("copies of new topics", str(factor))
    longest = int(settings.get("transaction.max.timeout.ms", 900_000))
    if config.transaction_timeout_ms > longest:
        yield _JUDGE.problem(
            "transactions",
            f"kafka.transaction_timeout_s is {config.transaction_timeout_s:.0f}, and the brokers"
            f" allow {longest / 1000:.0f}",
            "the publisher cannot begin a transaction",
            Fix(f"kafka.transaction_timeout_s: {longest / 1000:.0f}"),
        )


def _kept(
    config: KafkaConfig,
    topics: TopicNames,
    settings: dict[str, dict[str, str]],
    copies: dict[str, int],
) -> Iterator[Finding]:
    data = [found for name, found in settings.items() if topics.table_of(name) is not None]
    for name, found in sorted(settings.items()):
        if name == topics.offsets:
            try:
                check_retains_newest(name, found)
            except CheckpointRetentionTooShort as error:
                yield _JUDGE.problem(name, str(error), "the publisher would begin from nothing")
        if name == topics.offsets and (wanted := too_large_segments(found)):
            yield _JUDGE.warning(
                name,
                f"grows for long before it is compacted ({_told(found, wanted)})",
                "each start of the publisher reads all of it: minutes, after some days",
                topic_fix(name, wanted, is_safe=True),
            )
        if name == topics.progress and (kept := retention_too_short(found, data)) is not None:
            yield _JUDGE.warning(
                name,
                "forgets earlier than the data topics do"
                f" ({_told(found, retention_limits(found))})",
                "events without a progress record prove nothing: a sink that lacks some takes"
                " new snapshots of all tables",
                topic_fix(name, {"retention.ms": kept, "retention.bytes": "-1"}, is_safe=True),
            )
        elif name == topics.progress and (kept := retention_needless(found, data)) is not None:
            yield _JUDGE.warning(
                name,
                "is kept for ever, and no data topic is",
                "it grows with each commit; what it says of events that are gone has no use",
                topic_fix(name, {"retention.ms": kept}),
            )
        elif is_compacted(found) and name != topics.offsets and not config.allow_compaction:
            yield _JUDGE.problem(
                name,
                f"cleanup.policy is {found['cleanup.policy']}",
                "compaction removes events that the ledger counts: its table is stopped",
                topic_fix(name, {"cleanup.policy": "delete"}),
            )
        if copies[name] >= _MANY_COPIES and found.get("min.insync.replicas") == "1":
            yield _JUDGE.warning(
                name,
                f"has {copies[name]} copies and min.insync.replicas=1",
                "what is committed while its other copies lag is lost with one disk",
                topic_fix(name, {"min.insync.replicas": "2"}),
            )
    single = sorted(name for name, count in copies.items() if count == 1)
    if single:
        yield _JUDGE.warning(
            "copies",
            f"{len(single)} topics have one: {', '.join(single[:3])}{', ...' * (len(single) > 3)}",
            "a lost disk loses their events",
            Fix("kafka-reassign-partitions, to three copies each"),
        )


def _told(settings: Mapping[str, str], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={settings[name]}" for name in names)


def _allowed(admin: AdminClient, config: KafkaConfig, present: Sequence[str]) -> Iterator[Finding]:
    asked = admin.describe_topics(
        TopicCollection(list(present)),
        include_authorized_operations=True,
        request_timeout=config.start_timeout_s,
    )
    needed = {AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE}
    for name, future in sorted(asked.items()):
        try:
            topic: Any = future.result(config.start_timeout_s)
        except (KafkaException, TimeoutError) as error:
            yield _JUDGE.problem(
                name, f"cannot be described ({error})", "the publisher cannot use it"
            )
            continue
        allowed = topic.authorized_operations
        missing = needed - set(allowed) if allowed else set()
        if missing:
            names = ", ".join(sorted(operation.name.title() for operation in missing))
            yield _JUDGE.problem(
                name,
                f"{names} is not allowed",
                "the publisher reads back and writes its topics",
                Fix(
                    f"kafka-acls --add --allow-principal User:<name> --topic {name}"
                    + "".join(f" --operation {o.name.title()}" for o in sorted(missing, key=str))
                ),
            )
