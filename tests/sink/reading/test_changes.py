"""Changes of a table between two points and as a stream, and validity intervals over them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.streaming import StreamingQuery

from tailrace.spark import changes_stream, of_table
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.history import history
from tailrace_sink.reading.reader import read
from tests.envelopes.messages import FIRST_COMMIT_MS
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.both_readers import changes
from tests.sink.conftest import Interrupted, Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow("batches are applied, and changes between them read by Spark"),
]

KEY = column(1, "id", "int", key=1)


def told(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Operation and values of both images, in order."""
    found = []
    for row in frame.orderBy("_cdc_position").collect():
        images = [None if row[s] is None else tuple(row[s]) for s in ("before", "after")]
        found.append((row["_cdc_op"], *images))
    return found


class Followed:
    """A query over a stream of two tables with a checkpoint, stopped at the newest closed LSN.

    Attributes:
        after: where a query without a checkpoint starts.
        batches: what each micro-batch had of dbo.t, by its id; the last try counts.
    """

    def __init__(self, lake: Lake, checkpoint: Path, after: str | None = None) -> None:
        self.lake = lake
        self.checkpoint = str(checkpoint)
        self.after = after
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def start(self, *, fails: bool = False) -> StreamingQuery:
        """Start the query."""

        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = told(of_table(batch, "dbo.t"))
            if fails:
                raise RuntimeError

        where, tables = (self.lake.spark, self.lake.address), ["dbo.t", "dbo.airports"]
        stream = changes_stream(*where, tables, after=self.after)
        writer = stream.writeStream.option("checkpointLocation", self.checkpoint)
        return writer.foreachBatch(keep).start()

    def run(self, *, fails: bool = False) -> list[tuple[Any, ...]]:
        """Start the query, and return what it has seen since the first start."""
        query = self.start(fails=fails)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def windows(lake: Lake, path: Path) -> list[int]:
    """Numbers of creates in each closed window of one millisecond, by a query with state."""
    stream = changes_stream(lake.spark, lake.address, "dbo.t", late="0 seconds")
    window = F.window("_cdc_commit_time", "1 millisecond")
    counts = stream.where("_cdc_op = 'c'").groupBy(window).count()
    writer = counts.writeStream.option("checkpointLocation", str(path)).queryName("windows")
    query = writer.format("memory").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return [row["count"] for row in lake.spark.table("windows").orderBy("window").collect()]


def a_bulk_cut_ends(followed: Followed, source: Source, table: SourceTable) -> None:
    """A running query ends at a bulk cut; a new one after it continues, as the error says."""
    lake, running = followed.lake, followed.start()
    running.processAllAvailable()
    source.commit(*(lambda t, n=n: t.insert(table, id=n, w=n) for n in range(30, 35)))
    source.publish()
    lake.log_only(opens_tables=True, bulk_changes=2)
    with pytest.raises(StreamingQueryException, match=r"StreamBroken: 5 changes .*bulk_changes: 0"):
        running.awaitTermination(240)
    lake.catch_up()
    after = read(lake.spark, lake.address).as_of("latest").closed_lsn
    source.commit(lambda t: t.insert(table, id=40, w=40))
    source.publish()
    lake.log_only()
    again = Followed(lake, Path(f"{followed.checkpoint}-again"), after)
    assert again.run() == [("c", None, (40, 40, None))]


@pytest.mark.guarantee(15)
def test_changes_between_two_points(source: Source, lake: Lake, tmp_path: Path):
    """Folded or not, over a rename and a new column; a snapshot's rows are no changes.

    A stream of the same changes has each once, over restarts and a micro-batch that failed. A bulk
    cut ends it.
    """
    followed = Followed(lake, tmp_path / "followed")
    table, other = (source.table(name, KEY, column(2, "v", "int")) for name in ("t", "airports"))
    source.snapshot(table, [{"id": 0, "v": 0}])
    source.publish(snapshotting=[table])
    first = source.commit(lambda t: t.insert(table, id=1, v=1), lambda t: t.insert(other, id=1))
    source.publish()
    lake.catch_up()
    second = source.commit(lambda t: t.update(table, (1,), v=2))
    source.publish()
    lake.log_only()
    with pytest.raises(StreamingQueryException):
        followed.run(fails=True)
    source.alter(table, KEY, column(2, "w", "bigint"), column(3, "more", "int"))
    third = source.commit(
        lambda t: t.insert(table, id=2, w=2**40, more=3), lambda t: t.delete(table, (1,))
    )
    source.publish()
    source.commit(lambda t: t.insert(other, id=2))
    source.publish()
    lake.log_only()
    folder = f"{lake.path}/lake"

    every = read(lake.spark, folder).changes("dbo.t")
    expected = [
        ("c", None, (1, 1, None)),
        ("u", (1, 1, None), (1, 2, None)),
        ("c", None, (2, 2**40, 3)),
        ("d", (1, 2, None), None),
    ]
    assert told(every) == expected
    assert followed.run() == expected
    assert len(followed.batches) == 2
    followed.after = "1999-12-31T00:00"  # its checkpoint takes precedence
    assert windows(lake, tmp_path / "windows") == [1, 1], "the watermark is the closed LSN's time"
    assert told(changes(lake.spark, folder, table.name, after=first)) == expected[1:]
    at = datetime.fromtimestamp((FIRST_COMMIT_MS + Lsn.parse(second).block) / 1000, UTC)
    between = changes(lake.spark, folder, table.name, after=first, up_to=at)
    assert told(between) == [("u", (1, 1), (1, 2))]
    assert {row["_cdc_lsn"] for row in between.collect()} == {second}

    source.commit(lambda t: t.insert(table, id=5, w=5))
    source.publish()
    lake.catch_up()
    assert told(every) == expected, "it stays what it is"
    assert followed.run() == [*expected, ("c", None, (5, 5, None))]
    assert len(told(changes(lake.spark, folder, "Shop.DBO.T", after=third))) == 1
    assert told(changes(lake.spark, folder, table.name, after=source.through)) == []
    with pytest.raises(ChangesUnknown, match=r"has no table dbo\.tt\. Near names: dbo\.t$"):
        changes(lake.spark, folder, "dbo.tt")
    with pytest.raises(ChangesUnknown, match=r"has no table dbo\.tt\. Near names: dbo\.t$"):
        changes_stream(lake.spark, lake.address, "dbo.tt")
    with pytest.raises(ChangesUnknown, match=r"no event of table shop\.dbo\.none"):
        changes(lake.spark, folder, type(table.name)("shop", "dbo", "none"))

    a_bulk_cut_ends(followed, source, table)

    source.commit(lambda t: t.insert(table, id=6, w=6))
    source.publish()
    lake.catch_up(tables={"exclude": [r"dbo\.t"]})
    with pytest.raises(ChangesUnknown, match="excluded by configuration"):
        changes(lake.spark, folder, table.name)


def test_changes_that_the_log_lacks_are_refused_by_range(source: Source, lake: Lake):
    """Compaction took one before the sink read it: the table stops, and no part is shown."""
    table, other = (source.table(name, KEY, column(2, "v", "int")) for name in ("t", "other"))
    source.commit(lambda t: t.insert(table, id=1, v=1), lambda t: t.insert(other, id=1, v=1))
    source.publish()
    first = source.through
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(6, 12)))
    next(message for message in source.pending if message.topic == table.topic).value = None
    source.publish()
    lacking = source.through
    source.commit(lambda t: t.insert(table, id=20, v=20), lambda t: t.insert(other, id=2, v=2))
    source.publish()
    lake.catch_up(changes_per_batch=1)
    folder = f"{lake.path}/lake"

    for after in (None, first):
        with pytest.raises(ChangesUnknown, match=f"LSN {lacking}: .* after LSN {lacking}"):
            changes(lake.spark, folder, table.name, after=after)
    assert told(changes(lake.spark, folder, table.name, after=lacking)) == [("c", None, (20, 20))]
    assert told(changes(lake.spark, folder, table.name, up_to=first)) == [("c", None, (1, 1))]
    assert len(told(changes(lake.spark, folder, other.name))) == 2
    with pytest.raises(ChangesUnknown, match=r"changes of table .* where the publisher counted"):
        changes(lake.spark, folder, table.name, up_to=lacking)


def test_a_changelog_that_is_switched_on_later_starts_with_its_table(source: Source, lake: Lake):
    """And again after it was switched off, with what left meanwhile; a replay appends nothing."""
    table = source.table("t", KEY, column(2, "v", "int"))
    options: dict[str, Any] = {"changelog": {"include": [r"dbo\.t"]}}
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(3)))
    source.publish()
    lake.catch_up()
    before = source.through
    source.commit(lambda t: t.update(table, (1,), v=5))
    source.publish()

    def crash(step: str, _path: str) -> None:
        if step == "merged":
            raise Interrupted

    with pytest.raises(Interrupted):
        lake.catch_up(crash, **options)
    lake.catch_up(**options)
    read_changes = read(lake.spark, f"{lake.path}/lake")

    def intervals() -> list[tuple[Any, ...]]:
        every = read_changes.as_of("latest").read(table.name, is_changes=True)
        columns = ("id", "v", "_cdc_op", "_cdc_valid_from_lsn", "_cdc_valid_to_lsn")
        return sorted(tuple(row) for row in history(every, ["id"]).select(*columns).collect())

    first = source.through
    expected = [
        (0, 0, "r", before, None),
        (1, 1, "r", before, first),
        (1, 5, "u", first, None),
        (2, 2, "r", before, None),
    ]
    assert intervals() == sorted(expected)

    source.commit(lambda t: t.delete(table, (0,)), lambda t: t.update(table, (2,), v=7))
    source.publish()
    lake.catch_up()
    without = source.through
    with pytest.raises(CutUnknown):
        read_changes.as_of("latest").read(table.name, is_changes=True)
    source.commit(lambda t: t.insert(table, id=9, v=9))
    source.publish()
    lake.catch_up(**options)
    assert intervals() == [
        (0, 0, "r", before, without),
        (1, 1, "r", before, first),
        (1, 5, "u", first, None),
        (2, 2, "r", before, without),
        (2, 7, "r", without, None),
        (9, 9, "c", source.through, None),
    ]


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
            raise Interrupted

    read_changes = read(lake.spark, f"{lake.path}/lake")
    with pytest.raises(Interrupted):
        lake.catch_up(crash, **options)
    lake.catch_up(**options)
    cut = read_changes.as_of("latest")
    every = cut.read(table.name, is_changes=True)
    intervals = history(every, ["id"]).orderBy("id", "_cdc_position").collect()
    ended = [(r["id"], r["_cdc_op"], r["_cdc_valid_to"] is None) for r in intervals]
    assert ended == [(1, "c", False), (2, "c", True)], "an equal row starts no interval"
    assert intervals[0]["_cdc_valid_to_lsn"] == cut.closed_lsn
    assert every.count() == 4
