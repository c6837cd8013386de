"""A progress topic whose first records are gone: the lake goes on at the newest closed record."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.reading.test_as_of import rows

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = column(1, "id", "int", key=1)


def forget_progress(source: Source, before: int) -> None:
    """Retention took the progress records below an offset."""
    source.topics.delete_records(source.names.progress, {0: before})


def progress_end(source: Source) -> int:
    found = source.topics.end_offset(source.names.progress)
    assert found
    return found


def fill(source: Source, table: SourceTable, *numbers: int) -> None:
    for number in numbers:
        source.commit(lambda t, n=number: t.insert(table, id=n))
        source.publish()


def stopped(lake: Lake) -> dict[str, str]:
    found: dict[str, str] = json.loads(lake.commits()[-1]["stopped"])
    return found


@pytest.mark.guarantee(16)
@pytest.mark.slow("three batches, with tables in four states")
def test_an_empty_lake_begins_at_the_newest_closed_record(
    source: Source, lake: Lake, spark: SparkSession
):
    """Tables that are quiet, tables in the middle of a snapshot, and tables that are left out."""
    busy, quiet, torn, left_out = (
        source.table(name, KEY) for name in ("busy", "quiet", "torn", "left_out")
    )
    source.topics.create(source.names.signals)
    fill(source, quiet, 1, 2)
    fill(source, left_out, 1)
    fill(source, busy, 1)
    source.snapshot(torn, [{"id": 1}])
    source.publish(snapshotting=[torn])
    forget_progress(source, before=progress_end(source) - 2)
    options = {"request_snapshots": True, "tables": {"exclude": [r"dbo\.left_out"]}}
    lake.catch_up(**options)
    first = lake.commits()[-1]
    assert first["through_lsn"] == source.through
    assert first["tables"] == {}
    assert set(stopped(lake)) == {busy.topic, quiet.topic, left_out.topic}
    assert "no longer has the progress records from offset 0 on" in stopped(lake)[quiet.topic]
    assert stopped(lake)[left_out.topic] == "excluded by configuration"
    assert source.signals() == [SnapshotSignal(("dbo.busy", "dbo.quiet"))]

    # Changes go on, and the snapshot that began too early ends: nothing of it is taken for whole.
    fill(source, busy, 2)
    source.snapshot(torn, [{"id": 2}])
    source.publish()
    lake.catch_up(**options)
    assert lake.commits()[-1]["tables"] == {}
    assert source.signals()[-1] == SnapshotSignal(("dbo.busy", "dbo.quiet", "dbo.torn"))

    for table in (busy, quiet, torn):
        source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[busy, quiet, torn])
    fill(source, busy, 3)
    lake.catch_up(**options)
    expected = source.cut()
    del expected["left_out"]
    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    assert {table.table for table in cut.tables} == set(expected)
    assert {name: rows(cut, source.tables[name]) for name in expected} == expected


@pytest.mark.slow("three batches, and cuts before and after a loss")
def test_a_lake_that_was_away_for_longer_goes_on_and_keeps_its_cuts(source: Source, lake: Lake):
    table, other = source.table("t", KEY), source.table("other", KEY)
    fill(source, table, 1, 2)
    fill(source, other, 1)
    lake.catch_up()
    before = source.through
    fill(source, table, 3, 4)
    source.commit(lambda t: t.delete(table, (1,)))
    source.publish()
    forget_progress(source, before=progress_end(source) - 2)

    lake.catch_up()
    assert lake.commits()[-1]["tables"] == {}
    assert set(stopped(lake)) == {table.topic, other.topic}
    then = read(lake.spark, f"{lake.path}/lake").as_of(lsn=before)
    assert rows(then, table) == source.cuts[before]["t"]

    source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[table])
    fill(source, table, 5)
    lake.catch_up()
    assert set(stopped(lake)) == {other.topic}
    assert lake.cut()["t"] == source.cut()["t"]
    assert len(lake.commits()) == 3
    assert lake.logged_twice() == []
