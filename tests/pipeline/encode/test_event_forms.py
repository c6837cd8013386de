"""Flat events over the real broker and registry, and what a change of the form meets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace_publisher.errors import SchemaRefused
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import UnsupportedEventForm
from tailrace_sink.fold.empty_tables import registered_version
from tailrace_sink.options.config import SinkConfig
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

FLAT: dict[str, Any] = {"event_form": "flat", "schema_compatibility": "BACKWARD"}


def values(pipe: Pipe, table: str) -> list[dict[str, Any]]:
    """The values of a topic's events in the order of their positions."""
    events = [e for e in pipe.topics.events(pipe.source.name, table) if e.envelope is not None]
    return [e.envelope for e in sorted(events, key=lambda e: e.position) if e.envelope]


@pytest.mark.slow("publishers and commands of two forms of events")
def test_flat_events_are_the_rows_and_the_form_is_not_changed_in_silence(
    pipe: Pipe, tmp_path: Path
):
    """One table in blocks, one whose large column has it read row by row."""
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.fast (id int PRIMARY KEY, v int)",
        "CREATE TABLE dbo.large (id int PRIMARY KEY, v int, note text)",
        "INSERT dbo.fast VALUES (1, 10)",
        "INSERT dbo.large VALUES (1, 10, 'n')",
    )
    for table in ("fast", "large"):
        source.enable(table)
    with Running(pipe.config(**FLAT)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        source.execute(
            "INSERT dbo.fast VALUES (2, 20)",
            "UPDATE dbo.fast SET v = 21 WHERE id = 2",
            "DELETE dbo.fast WHERE id = 1",
            "DELETE dbo.large WHERE id = 1",
        )
        publisher.until(pipe.is_caught_up, "the changes are out")

    for table in ("fast", "large"):
        pipe.assert_exactly_once(table)
    fast = values(pipe, "fast")
    assert [(e["__op"], e["__deleted"], e["id"], e["v"]) for e in fast] == [
        ("r", "false", 1, 10),
        ("c", "false", 2, 20),
        ("u", "false", 2, 21),
        ("d", "true", 1, 10),
    ]
    assert all(e["__ts_ms"] >= e["__source_ts_ms"] > 0 for e in fast)
    assert [e["__commit_lsn"].replace(":", "") for e in fast] == [
        e["__position"][:20] for e in fast
    ]
    tombstones = [e for e in pipe.topics.events(source.name, "fast") if e.envelope is None]
    assert [e.key for e in tombstones] == [{"id": 1}]
    read, deleted = values(pipe, "large")
    assert (read["note"], read["__unavailable"]) == ("n", [])
    assert (deleted["v"], deleted["note"], deleted["__unavailable"]) == (10, None, ["note"])

    audited = invoke(pipe, tmp_path, "audit", **FLAT)
    assert audited.exit_code == 0, audited.output
    told = invoke(pipe, tmp_path, "tail", "--json", "dbo.fast", **FLAT)
    assert told.exit_code == 0, told.output
    shown = [json.loads(line) for line in told.output.splitlines()]
    assert [(e["op"], (e["after"] or e["before"])["id"]) for e in shown] == [
        ("r", 1), ("c", 2), ("u", 2), ("d", 1),
    ]  # fmt: skip
    explained = invoke(pipe, tmp_path, "explain", "--json", "dbo.fast", "2", **FLAT)
    assert explained.exit_code == 0, explained.output
    assert all(change["event"] for change in json.loads(explained.output)["changes"])

    sink = SinkConfig.model_validate(
        {
            "kafka": {"bootstrap": pipe.topics.bootstrap},
            "registry": {"url": pipe.topics.registry_url},
            "prefix": pipe.topics.prefix,
            "lake": str(tmp_path / "lake"),
        }
    )
    with pytest.raises(UnsupportedEventForm, match="event_form: flat"):
        registered_version(sink, pipe.topic("fast"), TableName(source.name, "dbo", "fast"))
    assert "event_form: flat" in invoke(pipe, tmp_path, "schema", "dbo.fast", **FLAT).output

    source.execute("INSERT dbo.fast VALUES (3, 30)", "INSERT dbo.large VALUES (3, 30, NULL)")
    with Running(pipe.config(**FLAT | {"event_form": "debezium"})) as publisher:
        error = publisher.ended()
        reasons = [entry["reason"] for entry in publisher.told("table_stopped")]
    assert isinstance(error, SchemaRefused)
    assert len(reasons) == 2
    for reason in reasons:
        assert "have event_form: flat, these would have event_form: debezium: publish" in reason

    with Running(pipe.config(schema_compatibility="NONE")) as publisher:
        publisher.until(pipe.is_caught_up, "both forms are in the topics")
    for table in ("fast", "large"):
        pipe.assert_exactly_once(table)
    assert values(pipe, "fast")[-1]["after"] == {"id": 3, "v": 30}
    audited = invoke(pipe, tmp_path, "audit")
    assert audited.exit_code == 0, audited.output
