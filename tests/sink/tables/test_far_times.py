"""Times at the ends of their types' ranges, in every reader and every zone, whatever wrote them."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from typing import Any, Final

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from tailrace_sink.spark import session
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.lake_files import int96_columns

# ruff: noqa: DTZ001 - SQL Server's datetime types have no zone

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.guarantee(14)]

ENDS: Final = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 4, 23, 59, 59),
    dt.datetime(1582, 10, 15),
    dt.datetime(1600, 2, 29),
    dt.datetime(1677, 9, 20),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2262, 4, 12),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]
ZONES: Final = ("UTC", "America/New_York", "Asia/Kolkata")
OUTPUT: Final = "spark.sql.parquet.outputTimestampType"
OF_CUT: Final = """
import json, sys
import pyarrow as pa
import polars
from tailrace import lake
from tailrace.lake.store import LakeStore

address, path, of_lake = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
cut = lake.open(address, **of_lake).as_of("latest")
found = {
    "read": cut.read("dbo.ends"),
    "pandas": pa.Table.from_pandas(cut.pandas("dbo.ends")),
    "dataset": cut.dataset("dbo.ends").to_table(),
    "sql": cut.sql("SELECT * FROM dbo.ends").to_arrow_table(),
    "lazy_frame": cut.lazy_frame("dbo.ends").collect().to_arrow(),
}
"""
"""A program that reads a cut of a lake with each reader of Tailrace's own."""
OF_DELTA: Final = """
from deltalake import DeltaTable, QueryBuilder
from tailrace.lake.duck_delta import with_delta

query = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
found["deltalake"] = pa.table(query.read_all())
found["polars"] = polars.read_delta(path).to_arrow()
duck = with_delta(LakeStore.of(address, {}))
found["duckdb"] = duck.execute("SELECT * FROM delta_scan(?)", [path]).to_arrow_table()
"""
TOLD: Final = """
told = {}
for name, rows in found.items():
    micros = {
        of: rows[of].cast(pa.timestamp("us", rows.schema.field(of).type.tz)).cast("int64")
        for of in ("at", "_cdc_commit_time")
    }
    days = rows["day"].cast(pa.date32()).cast("int32")
    told[name] = sorted(
        zip(rows["id"].to_pylist(), micros["at"].to_pylist(), days.to_pylist(),
            micros["_cdc_commit_time"].to_pylist(), strict=True)
    )
print(json.dumps(told))
"""


def ends(source: Source) -> SourceTable:
    columns = (column(2, "at", "datetime2(7)"), column(3, "day", "date"), column(4, "v", "int"))
    return source.table("ends", column(1, "id", "int", key=1), *columns)


def fill(source: Source, lake: Lake, **options: Any) -> list[tuple[int, int, int]]:
    """Rows by a snapshot, a change by MERGE and an insert."""
    table = ends(source)
    rows = [{"id": n, "at": at, "day": at.date(), "v": n} for n, at in enumerate(ENDS)]
    source.publish(through=source.snapshot(table, rows))
    lake.catch_up(**options)
    source.commit(
        lambda t: t.update(table, (3,), v=100),
        lambda t: t.insert(table, id=99, at=ENDS[-1], day=ENDS[0].date(), v=0),
    )
    source.publish()
    lake.catch_up(**options)
    epoch, first = dt.datetime(1970, 1, 1), dt.date(1970, 1, 1)
    return sorted(
        (row["id"], (row["at"] - epoch) // dt.timedelta(microseconds=1), (row["day"] - first).days)
        for row in table.rows.values()
    )


def told(
    lake: Lake, zone: str, path: str = "", readers: str = OF_DELTA, *more: Any, **of_lake: Any
) -> dict[str, list[list[int]]]:
    """Rows by reader: key, microseconds, days and microseconds of the commit time.

    Args:
        path: of the table, for other programs.
        readers: the other programs.
        more: what these are given.
        of_lake: options with which the lake is opened.
    """
    arguments = (lake.address, path or lake.location("ends"), *map(json.dumps, (of_lake, *more)))
    done = subprocess.run(
        [sys.executable, "-c", OF_CUT + readers + TOLD, *arguments],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[list[int]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def commit_times(rows: DataFrame) -> dict[int, int]:
    """By key, as Spark reads them."""
    rows = rows.selectExpr("id", "unix_micros(_cdc_commit_time) AS micros")
    return {row["id"]: row["micros"] for row in rows.collect()}


def of_delta(lake: Lake) -> DataFrame:
    return lake.spark.read.format("delta").load(lake.location("ends"))


@pytest.mark.slow("a lake, read by seven readers in three zones")
@pytest.mark.parametrize(
    "options",
    [{"local_changes_max": 0}, {"local_changes_max": 0, "rewrite_below_bytes": 0}, {}],
    ids=["MERGE", "MERGE with vectors", "small"],
)
def test_every_reader_has_the_ends_of_each_type_in_every_zone(
    source: Source, lake: Lake, options: dict[str, Any]
):
    expected = fill(source, lake, kinds={r"dbo\..*": ["mirror", "changelog", "history"]}, **options)
    assert int96_columns(lake.path) == {}
    spark = commit_times(of_delta(lake))
    for zone in ZONES:
        check(told(lake, zone), expected, spark)


def check(
    found: dict[str, list[list[int]]], expected: list[tuple[int, int, int]], times: dict[int, int]
) -> None:
    """Compare what readers have with the source's rows, and with Spark's commit times."""
    for reader, rows in found.items():
        assert [tuple(row[:3]) for row in rows] == expected, reader
        assert {row[0]: row[3] for row in rows} == times, reader


@pytest.mark.slow("a lake, read by five readers in three zones")
def test_files_of_an_older_sink_are_read_right_and_renewed_by_compaction(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    """They have times as INT96."""
    with monkeypatch.context() as older:
        older.setitem(session._OF_VALUES, OUTPUT, "INT96")
        expected = fill(source, lake, local_changes_max=0, rewrite_below_bytes=0)
    assert any(name.startswith("lake/shop/dbo/ends/") for name in int96_columns(lake.path))
    spark = commit_times(of_delta(lake))
    for zone in ZONES:
        found = told(lake, zone)
        right = ("read", "pandas", "dataset", "sql", "lazy_frame", "duckdb")
        check({reader: found[reader] for reader in right}, expected, spark)
    session.own_session(lake.spark).sql(f"OPTIMIZE delta.`{lake.location('ends')}`")
    uris = DeltaTable(lake.location("ends")).file_uris()
    assert int96_columns(lake.path, uris) == {}
