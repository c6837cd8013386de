"""A lake of the release without a log goes on, and its cuts stay readable."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.registry import SchemaRegistry
from tailrace_sink.reading.reader import read
from tests.archives import unpack
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake
from tests.sink.daemon.old_lake import OPTIONS, PREFIX, publish_first_half

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def old_source(kafka: str, schema_registry: SchemaRegistry) -> Iterator[Source]:
    """Schema ids and offsets are those that the lake knows: registry and topics are new."""
    made = Source(kafka, schema_registry.url, prefix=PREFIX)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow("a lake of release 0.1 is taken over, which writes each table again")
def test_a_lake_without_a_log_is_taken_over(
    spark: SparkSession, old_source: Source, kafka: str, tmp_path: Path
):
    source, lake = old_source, Lake(spark, old_source, kafka, tmp_path)
    unpack(Path(__file__).with_name("lake-0.1.tar.gz"), tmp_path)
    changes = publish_first_half(source, lambda _what: None)
    keyed, late = source.tables["keyed"], source.tables["late"]
    source.commit(lambda t: t.delete(late, (2,)), lambda t: t.insert(keyed, id=12))
    source.publish()
    changes += Counter([("c", 12)])

    assert lake.catch_up(**OPTIONS) == 2, "the batch that broke off, then what came"

    for commit in lake.commits()[1:]:  # in the first the columns have their older names
        cut = read(lake.spark, f"{lake.path}/lake").as_of(lsn=commit["through_lsn"])
        for table in cut.tables:
            if table.table != "lines":
                known = source.tables[table.table]
                rows = lake.rows(table.table, cut.versions[f"shop/dbo/{table.table}"])
                found = {known.key_of(row): row for row in rows}
                assert found == source.cuts[commit["through_lsn"]][table.table]
    first = read(lake.spark, f"{lake.path}/lake").as_of(lsn=lake.commits()[0]["through_lsn"])
    assert {row["name"] for row in first.read(keyed.name).collect()} == {
        f"row {n}" for n in range(6)
    }
    assert {table.table for table in read(lake.spark, f"{lake.path}/lake").as_of().tables} == {
        "keyed",
        "late",
        "lines",
    }
    rows = lake.raw("keyed.changes")
    assert Counter((row["_cdc_op"], row["id"]) for row in rows) == changes
    assert sorted(row["line"] for row in lake.rows("lines")) == ["one", "three", "two"]


@pytest.mark.slow("a lake loses its log and is filled again")
def test_a_lake_that_lost_its_log_begins_another(source: Source, lake: Lake):
    """As an earlier release would have left it: what waits is in the topics."""
    key = column(1, "id", "int", key=1)
    here, late = source.table("here", key), source.table("late", key)
    source.snapshot(late, [{"id": n} for n in range(3)])
    source.commit(lambda t: t.insert(here, id=1))
    source.publish(snapshotting=[late])
    assert lake.catch_up() == 1
    shutil.rmtree(lake.config().log_path)
    source.commit(lambda t: t.delete(late, (1,)), lambda t: t.insert(here, id=2))
    source.publish()

    assert lake.catch_up() == 1
    assert lake.cut() == source.cut()
