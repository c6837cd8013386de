"""Changes of a table between two points, and validity intervals over them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.lsn import Lsn
from tailrace_sink import changes
from tailrace_sink.change_feed import ChangesUnknown
from tailrace_sink.reader import read
from tailrace_sink.row_history import history
from tests.fix_envelopes import FIRST_COMMIT_MS, Source, column
from tests.sink.conftest import Lake
from tests.sink.test_as_of import log_only

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = column(1, "id", "int", key=1)


def told(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Operation and values of both images, in order."""
    found = []
    for row in frame.orderBy("_cdc_position").collect():
        images = [None if row[s] is None else tuple(row[s]) for s in ("before", "after")]
        found.append((row["_cdc_op"], *images))
    return found


@pytest.mark.slow
def test_changes_between_two_points(source: Source, lake: Lake, spark: SparkSession):
    """Folded or not, over a rename and a new column; a snapshot's rows are no changes."""
    table = source.table("t", KEY, column(2, "v", "int"))
    source.snapshot(table, [{"id": 0, "v": 0}])
    source.publish(snapshotting=[table])
    first = source.commit(lambda t: t.insert(table, id=1, v=1))
    source.publish()
    lake.catch_up()
    second = source.commit(lambda t: t.update(table, (1,), v=2))
    source.publish()
    log_only(lake, spark)
    source.alter(table, KEY, column(2, "w", "bigint"), column(3, "more", "int"))
    third = source.commit(
        lambda t: t.insert(table, id=2, w=2**40, more=3), lambda t: t.delete(table, (1,))
    )
    source.publish()
    log_only(lake, spark)
    folder = f"{lake.path}/lake"

    every = changes(lake.spark, folder, table.name)
    expected = [
        ("c", None, (1, 1, None)),
        ("u", (1, 1, None), (1, 2, None)),
        ("c", None, (2, 2**40, 3)),
        ("d", (1, 2, None), None),
    ]
    assert told(every) == expected
    assert told(changes(lake.spark, folder, table.name, after=first)) == expected[1:]
    at = datetime.fromtimestamp((FIRST_COMMIT_MS + Lsn.parse(second).block) / 1000, UTC)
    between = changes(lake.spark, folder, table.name, after=first, up_to=at)
    assert told(between) == [("u", (1, 1), (1, 2))]
    assert {row["_cdc_lsn"] for row in between.collect()} == {second}

    source.commit(lambda t: t.insert(table, id=5, w=5))
    source.publish()
    lake.catch_up()
    assert told(every) == expected, "it stays what it is"
    assert len(told(changes(lake.spark, folder, table.name, after=third))) == 1
    assert told(changes(lake.spark, folder, table.name, after=source.through)) == []
    with pytest.raises(ChangesUnknown, match=r"no event of table shop\.dbo\.none"):
        changes(lake.spark, folder, type(table.name)("shop", "dbo", "none"))

    source.commit(lambda t: t.insert(table, id=6, w=6))
    source.publish()
    lake.catch_up(tables={"exclude": [r"dbo\.t"]})
    with pytest.raises(ChangesUnknown, match="excluded by configuration"):
        changes(lake.spark, folder, table.name)


def test_intervals_end_where_a_row_left_while_nobody_looked(source: Source, lake: Lake):
    """A table that was out of the lake for a while comes back whole: rows are missing from it."""
    table = source.table("t", KEY, column(2, "v", "int"))
    options: dict[str, Any] = {"changelog": {"include": [r"dbo\.t"]}}
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in (1, 2)))
    source.publish()
    lake.catch_up(**options)
    lake.catch_up(tables={"exclude": [r"dbo\.t"]}, **options)
    source.commit(lambda t: t.delete(table, (1,)))
    source.publish()
    lake.catch_up(tables={"exclude": [r"dbo\.t"]}, **options)
    assert json.loads(lake.commits()[-1]["stopped"]) == {table.topic: "excluded by configuration"}

    source.publish(snapshotting=[table])
    source.snapshot(table, list(table.rows.values()))
    source.publish()

    def crash(step: str, _path: str) -> None:
        if step == "merged":
            raise InterruptedError

    read_changes = read(lake.spark, f"{lake.path}/lake")
    with pytest.raises(InterruptedError):
        lake.catch_up(crash, **options)
    lake.catch_up(**options)
    cut = read_changes.as_of("latest")
    every = cut.read(table.name, is_changes=True)
    intervals = history(every, ["id"]).orderBy("id", "_cdc_position").collect()
    ended = [(r["id"], r["_cdc_op"], r["_cdc_valid_to"] is None) for r in intervals]
    assert ended == [(1, "c", False), (2, "c", False), (2, "r", True)]
    assert intervals[0]["_cdc_valid_to_lsn"] == cut.closed_lsn
    assert every.count() == 4
