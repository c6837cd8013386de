"""The compatibility mode that subjects are given, and what a refused version says."""

from __future__ import annotations

import httpx
import pytest

from tailrace_publisher.daemon.tables import registered
from tailrace_publisher.errors import SchemaRefused
from tailrace_schemas.topics.topic_names import key_subject, value_subject
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def mode_of(pipe: Pipe, subject: str) -> str:
    answer = httpx.get(f"{pipe.topics.registry_url}/config/{subject}").raise_for_status().json()
    return str(answer["compatibilityLevel"])


def test_a_refused_version_is_told_as_a_difference_before_its_first_event(pipe: Pipe):
    source, topic = pipe.source, pipe.topic("t")
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int)", "INSERT dbo.t VALUES (1, 1)")
    source.enable("t")
    with Running(pipe.config(schema_compatibility="BACKWARD")) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        assert {mode_of(pipe, s(topic)) for s in (key_subject, value_subject)} == {"BACKWARD"}
        source.execute(
            "ALTER TABLE dbo.t ALTER COLUMN v nvarchar(20)", "INSERT dbo.t VALUES (2, N'two')"
        )
        source.scan()
        error = publisher.ended()
        (told,) = publisher.told("table_stopped")
    assert isinstance(error, SchemaRefused)
    for text in (str(error), told["reason"]):
        assert "(dbo_t): ~ v int -> v nvarchar(20)" in text
    assert pipe.topics.changes(source.name, "t") == []

    with Running(pipe.config(schema_compatibility="NONE")) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")
    assert mode_of(pipe, value_subject(topic)) == "NONE"
    state = pipe.topics.state(source.name, "t", "id")
    assert {key: row["v"] for key, row in state.items()} == {1: "1", 2: "two"}


def test_versions_are_registered_beside_the_stream_and_a_refusal_stops_its_table(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registered, "AT_ONCE_MAX", 1)
    source, tables = pipe.source, ("a", "b", "c")
    for table in tables:
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int)")
        source.enable(table)
    with Running(pipe.config(schema_compatibility="BACKWARD")) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        for table in tables:
            source.execute(f"INSERT dbo.{table} VALUES (1, 1)")
        publisher.until(pipe.is_caught_up, "it goes on")
    assert {mode_of(pipe, value_subject(pipe.topic(t))) for t in tables} == {"BACKWARD"}

    source.execute("ALTER TABLE dbo.c ALTER COLUMN v nvarchar(20)")
    for table in tables:
        source.execute(f"INSERT dbo.{table} VALUES (2, 2)")
    source.scan()
    with Running(pipe.config(schema_compatibility="BACKWARD")) as publisher:
        publisher.until(lambda: bool(publisher.told("table_stopped")), "one table stops")
        publisher.until(lambda: pipe.is_caught_up(gone=("c",)), "the others go on")
        (told,) = publisher.told("table_stopped")
    assert "(dbo_c): ~ v int -> v nvarchar(20)" in told["reason"]
    for table in ("a", "b"):
        pipe.assert_exactly_once(table)
    assert [c.as_envelope["op"] for c in pipe.topics.changes(source.name, "c")] == ["c"]
