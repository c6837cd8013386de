"""Changes that are not published by configuration, and what is published all the same."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_publisher.errors import PreflightError
from tailrace_publisher.runtime import Step
from tests.simulation.scripted.script import Script


def test_operations_are_skipped_by_table() -> None:
    script = Script(skip={"operations": {r"dbo\.(log|none)": ["d", "u"]}})
    for table in ("kept", "log"):
        script.create(table)
    script.publish(lambda: not script.out_of_cut())
    for table in ("kept", "log"):
        script.insert(table, 1, 2)
        script.update(table, 1, 3)
        script.delete(table, 2)
        script.insert(table, 2)
    script.publish()

    assert script.changes("kept") == [("c", 1), ("c", 2), ("u", 1), ("d", 2), ("c", 2)]
    assert script.changes("log") == [("c", 1), ("c", 2), ("c", 2)]
    counted = {
        part.topic.rpartition(".")[2]: part.operations
        for record in script.progress()
        for part in record.partitions
    }
    assert counted["log"] is None
    assert counted["kept"] is not None


def test_a_row_that_changes_during_its_snapshot_is_not_lost() -> None:
    """The snapshot leaves out rows that the stream has, so the stream must publish them."""
    options: dict[str, Any] = {
        "skip": {"unchanged": True, "operations": {".*": ["u"]}},
        "snapshot": {"mode": "initial", "chunk_rows": 1},
    }
    script = Script(**options)
    script.create("t", *range(8))

    def change_every_row() -> None:
        for number in range(8):
            script.update("t", number, number)
        script.insert("t", 9)

    script.publish(lambda: not script.out_of_cut(), during=change_every_row, at=Step.SNAPSHOT_READ)

    assert script.notes("t") == {number: number for number in (*range(8), 9)}
    assert script.changes("t")[0] == ("u", 0), "the row that was read is published by its change"


def test_a_table_that_is_not_there_is_named() -> None:
    script = Script(skip={"operations": {"dbo.other": ["d"]}})
    script.create("t")
    with pytest.raises(PreflightError, match=r"skip\.operations: table dbo\.other is not publi"):
        script.publish()
