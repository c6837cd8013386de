"""A publisher goes on from an earlier release's checkpoint: one record per capture instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tailrace_publisher.checkpoint import Stored, read_checkpoints
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.encode.records import RecordEncoder
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import database_topics
from tailrace_schemas.records.checkpoint import (
    CHECKPOINT_KEY_SCHEMA,
    CheckpointKey,
    DatabaseCheckpoint,
)
from tailrace_schemas.topics.topic_names import TableName, key_subject, value_subject
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

DATA = Path(__file__).parents[2] / "unit" / "publisher" / "daemon" / "tables" / "data"


def checkpoint(pipe: Pipe) -> Stored:
    """The newest committed checkpoint."""
    config, ports = pipe.config(), production_ports()
    with ports.registry(config.registry) as registry:
        return read_checkpoints(database_topics(config, ports, registry), 60.0)


def earlier(pipe: Pipe, form: str) -> tuple[RecordEncoder, RecordEncoder]:
    """Encoders of an earlier release's keys and values, whose schemas are registered first."""
    schemas = json.loads((DATA / form).read_text())
    config = pipe.config()
    topic = config.topics.offsets
    with SchemaRegistry(config.registry.url) as registry:
        key_id = registry.register(key_subject(topic), schemas["key_schema"])
        value_id = registry.register(value_subject(topic), schemas["value_schema"])
    return (
        RecordEncoder(schemas["key_schema"], key_id),
        RecordEncoder(schemas["value_schema"], value_id),
    )


def write_as_before(pipe: Pipe, encoders: tuple[RecordEncoder, RecordEncoder]) -> None:
    """Put the checkpoint that is there into the form of an earlier release."""
    found, config = checkpoint(pipe), pipe.config()
    own = found.database
    assert own is not None
    topic = config.topics.offsets
    with SchemaRegistry(config.registry.url) as registry:
        present = registry.register(key_subject(topic), CHECKPOINT_KEY_SCHEMA)
    encode_key, encode_value = (encoder.encode for encoder in encoders)
    messages: list[tuple[bytes, bytes | None]] = []
    for key in (None, *found.tables):
        written = CheckpointKey(config.server_name, config.source.database, key)
        raw = RecordEncoder(CHECKPOINT_KEY_SCHEMA, present).encode(written.to_record())
        messages.append((raw, None))
    whose = {"server": config.server_name, "database": config.source.database}
    for record in older_records(own, found):
        name = record.pop("capture_instance")
        messages.append((encode_key({**whose, "capture_instance": name}), encode_value(record)))
    producer = Producer({"bootstrap.servers": config.kafka.bootstrap})
    for raw_key, raw_value in messages:
        producer.produce(topic, raw_value, raw_key, 0)
    assert producer.flush(60) == 0


def older_records(own: DatabaseCheckpoint, found: Stored) -> list[dict[str, Any]]:
    """Fields of the records, the database's own first; more than the first release had."""
    database = {
        **own.to_record(),
        "capture_instance": "",
        "snapshot_fence_lsn": str(own.closed_lsn),
        "snapshot_rows": 0,
    }
    instances = [
        {
            **record.to_record(),
            "capture_instance": name,
            "start_lsn": str(record.covers_from),
            "database_guid": own.database_guid,
            "recovery_fork_guid": own.recovery_fork_guid,
        }
        for record in found.tables.values()
        for name in record.capture_instances
    ]
    return [database, *instances]


@pytest.mark.parametrize("form", ["checkpoint_feafffa.json", "checkpoint_per_instance.json"])
def test_it_goes_on_without_a_new_snapshot_and_takes_the_older_records_away(pipe: Pipe, form: str):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", "INSERT dbo.t VALUES (1), (2)")
    source.enable("t")
    encoders = earlier(pipe, form)
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "its snapshot is out")
    write_as_before(pipe, encoders)
    before = checkpoint(pipe)
    assert list(before.older_instances) == ["dbo_t"]
    assert before.tables == {}
    source.execute("INSERT dbo.t VALUES (3)")

    with Running(PublisherConfig.load(pipe.options())) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")
        assert not publisher.told("table_restarted")
        assert not publisher.told("checkpoint_missing")

    after = checkpoint(pipe)
    assert (after.older_instances, after.older_keys) == ({}, [])
    assert after.database is not None
    assert before.database is not None
    assert after.database.position > before.database.position
    record = after.tables[TableName(source.name, "dbo", "t")]
    assert (record.state, record.capture_instances) == ("done", ("dbo_t",))
    assert record.covers_from == before.older_instances["dbo_t"].covers_from
    assert len(pipe.topics.snapshot(source.name, "t")) == 2
    assert sum(pipe.topics.positions(source.name, "t").values()) == 1
