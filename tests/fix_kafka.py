"""Fixtures of the local stack's Kafka broker and schema registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace_compose.local.broker import KafkaBroker
from tailrace_compose.local.registry import SchemaRegistry

# Whoever may do what is up to access control lists; what none speaks of is open to all.
_GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a broker that the whole session shares: name topics after the test."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), is_short_lived=True, settings=_GUARDED)
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the Confluent API of a registry that the whole session shares."""
    schema_registry = SchemaRegistry(tmp_path_factory.mktemp("registry"))
    try:
        yield schema_registry.start()
    finally:
        schema_registry.stop()


@pytest.fixture
def kafka_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A started broker of the test's own, which it may stop, kill and start again."""
    broker = KafkaBroker(tmp_path / "kafka", is_short_lived=True)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def schema_registry(tmp_path: Path) -> Iterator[SchemaRegistry]:
    """A started registry of the test's own, which it may stop, kill and start again."""
    server = SchemaRegistry(tmp_path / "registry")
    server.start()
    try:
        yield server
    finally:
        server.kill()
