"""Updates and operations that are skipped: the audit passes.

What is skipped otherwise is scripted: tests/simulation/scripted/test_skipped_changes.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def ops(pipe: Pipe, table: str) -> list[str]:
    events = pipe.topics.changes(pipe.source.name, table)
    found = sorted((e for e in events if e.envelope), key=lambda e: e.position)
    return [e.envelope["op"] for e in found if e.envelope]


def test_skipped_updates_and_operations_pass_the_audit(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, a int, hidden int, note nvarchar(max))",
        "INSERT dbo.t VALUES (0, 0, 0, N'x')",
    )
    source.enable("t")
    source.execute("CREATE TABLE dbo.log (id int PRIMARY KEY, a int)")
    source.enable("log")
    options: dict[str, Any] = {
        "skip": {"unchanged": True, "operations": {r"dbo\.(log|none)": ["d", "u"]}},
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
            "INSERT dbo.log VALUES (1, 1), (2, 2)",
            "UPDATE dbo.log SET a = 3",
            "UPDATE dbo.log SET id = 9 WHERE id = 1",
            "DELETE dbo.log",
            "INSERT dbo.log VALUES (2, 4)",
        )
        publisher.until(pipe.is_caught_up, "the changes are out")
        source.execute("UPDATE dbo.t SET hidden = 4")
        publisher.until(pipe.is_caught_up, "a change that is not published closes its LSN")
        skipped = publisher.metrics.skipped.labels(topic=pipe.topic("t"))._value.get()

    assert ops(pipe, "t") == ["c", "u", "u", "d", "c"]
    # The server records a key change as a delete and an insert.
    assert ops(pipe, "log") == ["c", "c", "c", "c"]
    assert skipped >= 4
    audited = invoke(pipe, tmp_path, "audit", **options)
    assert audited.exit_code == 0, audited.output
