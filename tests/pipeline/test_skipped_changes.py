"""Updates that change nothing published, and operations, that are left out; and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace_publisher.errors import PreflightError
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def ops(pipe: Pipe, table: str) -> list[str]:
    events = pipe.topics.changes(pipe.source.name, table)
    found = sorted((e for e in events if e.envelope), key=lambda e: e.position)
    return [e.envelope["op"] for e in found if e.envelope]


def test_updates_of_nothing_published_are_skipped(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, a int, hidden int, note nvarchar(max))",
        "INSERT dbo.t VALUES (0, 0, 0, N'x')",
    )
    source.enable("t")
    options: dict[str, Any] = {
        "skip": {"unchanged": True},
        "columns": {"exclude": ["dbo.t.hidden"]},
    }
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute(
            "INSERT dbo.t VALUES (1, 1, 1, NULL)",
            "UPDATE dbo.t SET hidden = 2",
            "UPDATE dbo.t SET a = a",
            "UPDATE dbo.t SET a = 3 WHERE id = 0",
            "UPDATE dbo.t SET note = NULL WHERE id = 0",
            "UPDATE dbo.t SET id = 5 WHERE id = 1",
        )
        publisher.until(pipe.is_caught_up, "the changes are out")
        source.execute("UPDATE dbo.t SET hidden = 4")
        publisher.until(pipe.is_caught_up, "a change that is not published closes its LSN")
        skipped = publisher.metrics.skipped.labels(topic=pipe.topic("t"))._value.get()

    assert ops(pipe, "t") == ["c", "u", "u", "d", "c"]
    assert skipped >= 4
    audited = invoke(pipe, tmp_path, "audit", **options)
    assert audited.exit_code == 0, audited.output


def test_operations_are_skipped_by_table(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    for table in ("kept", "log"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, a int)")
        source.enable(table)
    options: dict[str, Any] = {"skip": {"operations": {r"dbo\.(log|none)": ["d", "u"]}}}
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        for table in ("kept", "log"):
            source.execute(
                f"INSERT dbo.{table} VALUES (1, 1), (2, 2)",
                f"UPDATE dbo.{table} SET a = 3",
                f"UPDATE dbo.{table} SET id = 9 WHERE id = 1",
                f"DELETE dbo.{table}",
                f"INSERT dbo.{table} VALUES (2, 4)",
            )
        publisher.until(pipe.is_caught_up, "the changes are out")

    # The server records a key change as a delete and an insert.
    assert ops(pipe, "log") == ["c", "c", "c", "c"]
    pipe.assert_exactly_once("kept")
    counted = {
        entry["topic"]: entry["operations"]
        for record in pipe.topics.progress()
        for entry in record["partitions"]
    }
    assert counted[pipe.topic("log")] is None
    assert counted[pipe.topic("kept")] is not None
    audited = invoke(pipe, tmp_path, "audit", **options)
    assert audited.exit_code == 0, audited.output


def test_a_row_that_changes_beside_its_snapshot_is_not_lost(pipe: Pipe):
    """What the stream tells about is left out of the snapshot: so it must tell it."""
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, a int)", "INSERT dbo.t VALUES (1, 1), (2, 2)"
    )
    source.enable("t")
    options: dict[str, Any] = {"skip": {"unchanged": True, "operations": {".*": ["u"]}}}
    with Running(pipe.config(**options)) as publisher:
        publisher.until(lambda: bool(publisher.told("capture_instance_found")), "it has begun")
        source.execute("UPDATE dbo.t SET a = a", "INSERT dbo.t VALUES (3, 3)")
        publisher.until(pipe.is_caught_up, "all of it is out")

    assert {key: row["a"] for key, row in pipe.topics.state(source.name, "t", "id").items()} == {
        1: 1, 2: 2, 3: 3,
    }  # fmt: skip


def test_a_table_that_is_not_there_is_named(pipe: Pipe):
    pipe.source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    pipe.source.enable("t")

    with Running(pipe.config(skip={"operations": {"dbo.other": ["d"]}})) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert "skip.operations: table dbo.other is not published" in str(error)
