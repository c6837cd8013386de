"""How Kafka keeps the topics is looked at when the publisher starts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tailrace.audit.audit import audit
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.deliver.segments import COMPACTED
from tailrace_publisher.deliver.topics import TopicAdmin
from tailrace_publisher.errors import (
    CheckpointLost,
    CheckpointRetentionTooShort,
    KafkaUnavailable,
    TopicCompacted,
)
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed, wait_until

pytestmark = pytest.mark.kafka


def admin_of(pipe: Pipe) -> AdminClient:
    return AdminClient({"bootstrap.servers": pipe.topics.bootstrap})


def make(pipe: Pipe, topic: str, **settings: str) -> None:
    """Create a topic before the publisher does; its settings with _ for dots."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    admin = admin_of(pipe)
    (made,) = admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values()
    made.result(10)


def change(pipe: Pipe, topic: str, setting: str, value: str) -> None:
    """Change a setting of a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_of(pipe)
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(10)


def settings_of(pipe: Pipe, topic: str) -> dict[str, str]:
    admin = admin_of(pipe)
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {entry.name: entry.value for entry in future.result(10).values()}


def delete(pipe: Pipe, topic: str) -> None:
    """Delete a topic, and wait until the brokers do not know it any more."""
    admin = admin_of(pipe)
    (deleted,) = admin.delete_topics([topic]).values()
    deleted.result(10)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, f"{topic} is gone")


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    """Two tables of two rows, not published yet."""
    for table in ("orders", "items"):
        pipe.source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note int)")
        pipe.source.execute(f"INSERT dbo.{table} VALUES (1, 1), (2, 2)")
        pipe.source.enable(table)
    pipe.source.scan()
    return pipe


def publish_all(shop: Pipe, **further: Any) -> Running:
    """Run the publisher until everything is out by what it says itself."""
    began_ms = time.time_ns() // 1_000_000
    with Running(shop.config(**further)) as publisher:
        publisher.until(
            lambda: (
                bool(records := shop.topics.progress())
                and records[-1]["published_ms"] >= began_ms
                and shop.is_caught_up()
            ),
            "everything is out",
        )
    return publisher


def topic_of(pipe: Pipe, table: str) -> str:
    return pipe.topics.names.data(TableName(pipe.source.name, "dbo", table))


def snapshot_keys(pipe: Pipe, table: str) -> list[int]:
    events = pipe.topics.snapshot(pipe.source.name, table)
    return sorted(event.envelope["after"]["id"] for event in events if event.envelope)


def problems_of_audit(pipe: Pipe) -> list[str]:
    with SchemaRegistry(pipe.topics.registry_url) as registry:
        return audit(pipe.topics.bootstrap, pipe.topics.names, registry).problems.texts


# -- a broker that does not know a topic yet -------------------------------------------------------


def test_a_topic_that_a_broker_does_not_know_yet_is_asked_for_again(pipe: Pipe):
    topics = TopicAdmin(kafka_at(pipe.topics.bootstrap), None, timeout_s=20)
    with ThreadPoolExecutor(1) as pool:
        settings = pool.submit(topics.settings, ["asked-for-early"])
        make(pipe, "asked-for-early", retention_ms="86400000")
        assert settings.result(30)["asked-for-early"]["retention.ms"] == "86400000"


def test_one_that_no_broker_gets_to_know_can_be_asked_for_later(pipe: Pipe):
    topics = TopicAdmin(kafka_at(pipe.topics.bootstrap), None, timeout_s=0.2)
    with pytest.raises(KafkaUnavailable, match="does not know never-made") as raised:
        topics.settings(["never-made"])
    assert raised.value.retryable


# -- copies ----------------------------------------------------------------------------------------


def test_a_single_broker_starts_with_a_warning_and_its_own_default(shop: Pipe):
    names = shop.topics.names
    kafka = {
        "bootstrap": shop.topics.bootstrap,
        "partitions": 2,
        "topic_settings": {"retention.ms": "7200000"},
    }
    with Running(shop.config(kafka=kafka)) as publisher:
        publisher.until(shop.is_caught_up, "everything is out")

        told = {entry["topic"] for entry in publisher.told("topic_has_one_copy")}

    assert told == {names.offsets, names.progress}
    offsets = settings_of(shop, names.offsets)
    assert {name: offsets[name] for name in COMPACTED} == COMPACTED
    assert not publisher.told("topic_segments_too_large")
    assert settings_of(shop, topic_of(shop, "orders"))["retention.ms"] == "7200000"
    assert settings_of(shop, names.progress)["retention.ms"] == str(30 * 86_400_000)


# -- a checkpoint topic that forgets ---------------------------------------------------------------


def test_a_checkpoint_topic_that_forgets_is_refused_until_it_is_mended(shop: Pipe):
    offsets = shop.topics.names.offsets
    make(shop, offsets, cleanup_policy="delete")
    with Running(shop.config()) as publisher:
        error = publisher.ended()
    assert isinstance(error, CheckpointRetentionTooShort)
    assert offsets in str(error)
    assert "--add-config cleanup.policy=compact" in str(error)

    change(shop, offsets, "cleanup.policy", "compact")

    (told,) = publish_all(shop).told("topic_segments_too_large")
    assert told["settings"] == {"segment.ms": "604800000", "segment.bytes": "1073741824"}
    assert "segment.ms=600000,segment.bytes=16777216" in told["fix"]
    assert snapshot_keys(shop, "orders") == [1, 2]


def test_settings_that_may_not_be_seen_are_told_and_not_checked(shop: Pipe):
    topics = [shop.topics.names.offsets, shop.topics.names.progress]
    admin = admin_of(shop)
    refused, rest = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALL
    # Where one rule speaks of a topic, what none allows is refused.
    rules = [
        (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", *rule)
        for topic in topics
        for rule in ((refused, AclPermissionType.DENY), (rest, AclPermissionType.ALLOW))
    ]
    for future in admin.create_acls([AclBinding(*rule) for rule in rules]).values():
        future.result(10)
    try:
        publisher = publish_all(shop)
    finally:
        for future in admin.delete_acls([AclBindingFilter(*rule) for rule in rules]).values():
            future.result(10)
    (told,) = publisher.told("topic_settings_not_visible")
    assert told["topics"] == sorted(topics)
    assert "DescribeConfigs" in told["fix"]


# -- a checkpoint that is lost ---------------------------------------------------------------------


def test_a_lost_checkpoint_is_refused_and_accepted_once(shop: Pipe, tmp_path: Path):
    source, names = shop.source, shop.topics.names
    publish_all(shop)
    source.execute("INSERT dbo.orders VALUES (3, 3)", "DELETE dbo.items WHERE id = 1")
    source.scan()

    for round_number in (1, 2):  # what was accepted once does not count for the next loss
        delete(shop, names.offsets)
        records = len(shop.topics.progress())
        with Running(shop.config()) as publisher:
            error = publisher.ended()
        assert isinstance(error, CheckpointLost), round_number
        assert "tailrace accept-checkpoint-loss" in str(error)
        assert len(shop.topics.progress()) == records, "nothing was published"

        accepted = invoke(shop, tmp_path, "accept-checkpoint-loss")
        assert accepted.exit_code == 0, accepted.output
        publisher = publish_all(shop)
        assert publisher.told("checkpoint_loss_accepted")
        assert not publisher.told("signal_refused")

        first = shop.topics.progress()[records]
        assert first["after_lsn"] == str(error.closed_lsn)
        assert set(first["snapshotting"]) == {topic_of(shop, t) for t in ("orders", "items")}
        assert snapshot_keys(shop, "orders") == sorted([1, 2] + [1, 2, 3] * round_number)
        assert snapshot_keys(shop, "items") == sorted([1, 2] + [2] * round_number)
        assert problems_of_audit(shop) == []

    again = invoke(shop, tmp_path, "accept-checkpoint-loss")
    assert (again.exit_code, "nothing is lost" in again.output) == (1, True)


@pytest.mark.parametrize("step", ["snapshot_read", "before_commit"])
def test_an_accepted_loss_survives_a_death(shop: Pipe, tmp_path: Path, step: str):
    publish_all(shop)
    delete(shop, shop.topics.names.offsets)
    delete(shop, shop.topics.names.signals)
    assert invoke(shop, tmp_path, "accept-checkpoint-loss").exit_code == 0

    live_until_killed(shop.options(), step)

    publish_all(shop)
    assert snapshot_keys(shop, "orders") == [1, 1, 2, 2]
    assert problems_of_audit(shop) == []


def test_all_tables_are_read_again_also_where_new_ones_are_not(shop: Pipe, tmp_path: Path):
    publish_all(shop, snapshot={"mode": "no_data"})
    delete(shop, shop.topics.names.offsets)
    assert invoke(shop, tmp_path, "accept-checkpoint-loss").exit_code == 0

    publish_all(shop, snapshot={"mode": "no_data"})

    assert snapshot_keys(shop, "orders") == [1, 2]


def test_there_is_nothing_to_accept_before_the_first_start(shop: Pipe, tmp_path: Path):
    refused = invoke(shop, tmp_path, "accept-checkpoint-loss")
    assert (refused.exit_code, "nothing to accept" in refused.output) == (1, True)


def test_another_server_name_begins_anew(shop: Pipe):
    publish_all(shop)
    publish_all(shop, server_name="another")
    assert snapshot_keys(shop, "orders") == [1, 1, 2, 2]


# -- compacted data topics -------------------------------------------------------------------------


def test_a_compacted_data_topic_stops_its_table_alone_until_it_is_mended(shop: Pipe):
    topic = topic_of(shop, "items")
    make(shop, topic, cleanup_policy="compact,delete")
    with Running(shop.config()) as publisher:
        publisher.until(
            lambda: bool(shop.source.scan() or snapshot_keys(shop, "orders")), "the other goes on"
        )
        (told,) = publisher.told("table_stopped")
    assert told["error"] == "TopicCompacted"
    assert told["table"].endswith("dbo.items")
    for part in (topic, "compact,delete", "cleanup.policy=delete", "allow_compaction"):
        assert part in told["reason"]
    assert not shop.topics.events(shop.source.name, "items")

    change(shop, topic, "cleanup.policy", "delete")
    publish_all(shop)

    assert snapshot_keys(shop, "items") == [1, 2]
    assert problems_of_audit(shop) == []


def test_several_compacted_topics_are_named_each(shop: Pipe):
    for table in ("orders", "items"):
        make(shop, topic_of(shop, table), cleanup_policy="compact")
    with Running(shop.config()) as publisher:
        error = publisher.ended()
        told = {entry["table"].rpartition(".")[2] for entry in publisher.told("table_stopped")}
    assert isinstance(error, TopicCompacted)
    assert told == {"orders", "items"}


def test_compaction_may_be_allowed_and_audit_says_what_cannot_be_proven(shop: Pipe, tmp_path: Path):
    topic = topic_of(shop, "items")
    make(shop, topic, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    kafka = {"bootstrap": shop.topics.bootstrap, "partitions": 2, "allow_compaction": True}
    publish_all(shop, kafka=kafka)
    assert snapshot_keys(shop, "items") == [1, 2]

    with SchemaRegistry(shop.topics.registry_url) as registry:
        found = audit(shop.topics.bootstrap, shop.topics.names, registry)
    assert found.not_provable == [topic]
    assert topic not in found.topics
    assert found.topics[topic_of(shop, "orders")].events == 2
    printed = invoke(shop, tmp_path, "audit")
    assert printed.exit_code == 0, printed.output
    assert f"not provable: topic {topic}" in " ".join(printed.output.split())
    assert "Every event in the others" in printed.output
