"""The registry client against the registry itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tailrace_service.registry.client import (
    RegisteredSchema,
    RegistryRejected,
    RegistryUnavailable,
    SchemaRegistry,
)

pytestmark = pytest.mark.kafka


@pytest.fixture
def client(registry: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry) as client:
        yield client


@pytest.fixture
def subject() -> str:
    return f"päth/with.dots-{uuid.uuid4().hex}-value"


def record(*fields: str, **attributes: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": ["null", "int"], "default": None} for name in fields]
    return {"type": "record", "name": "R", "fields": listed, **attributes}


def test_versions_of_a_subject(client: SchemaRegistry, registry: str, subject: str) -> None:
    assert client.latest(subject) is None
    assert client.versions(subject) == []
    schemas = [
        record("a", schemaLsn="00000001:00000001:0001"),
        record("a", schemaLsn="00000001:00000001:0002"),  # only an attribute differs
        record("a", "b", schemaLsn="00000001:00000001:0002"),
    ]
    ids = [client.register(subject, schema) for schema in schemas]

    assert len(set(ids)) == 3
    with SchemaRegistry(registry) as other:  # remembers nothing
        assert [other.register(subject, schema) for schema in schemas] == ids
        assert [other.schema_by_id(number) for number in ids] == schemas
        expected = [
            RegisteredSchema(subject, version + 1, ids[version], schema)
            for version, schema in enumerate(schemas)
        ]
        assert other.versions(subject) == expected
        assert other.latest(subject) == expected[-1]


def test_refusals_name_subject_and_fix(client: SchemaRegistry, subject: str) -> None:
    with pytest.raises(RegistryRejected) as caught:
        client.register(subject, {"type": "record", "name": "no fields"})
    assert caught.value.subject == subject
    assert caught.value.status == 422
    assert "Avro" in str(caught.value)
    with pytest.raises(RegistryRejected, match="id 987654"):
        client.schema_by_id(987_654)


def test_a_registry_that_is_not_there_is_worth_waiting_for(subject: str) -> None:
    with SchemaRegistry("http://127.0.0.1:1", timeout_s=1.0) as client:
        with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1:1") as caught:
            client.register(subject, record("a"))
        assert caught.value.retryable


def test_a_wrong_path_says_where_to_look(registry: str, subject: str) -> None:
    with (
        SchemaRegistry(registry.split("/apis", maxsplit=1)[0] + "/nowhere") as client,
        pytest.raises(RegistryRejected, match="ccompat"),
    ):
        client.register(subject, record("a"))
