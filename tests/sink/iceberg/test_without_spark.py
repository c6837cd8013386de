"""tailrace.lake reads a lake in Iceberg as Spark's reader does, at each of its cuts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tailrace import lake as without_spark
from tailrace.lake.catalog import Catalog
from tailrace.lake.cut import Cut
from tailrace.lake.errors import NeedsSpark
from tailrace.lake.reader import Lake
from tailrace_sink import read
from tailrace_sink.errors import (
    CatalogUnavailable,
    CatalogUnusable,
    ConfigError,
    NameTaken,
    SinkError,
)
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.format import IcebergFormat
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.reading.cut_errors import CutUnknown
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.sink.conftest import Lake as FilledLake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_cuts import once_is_enough

pytest.importorskip("pyiceberg", reason="make setup-tests installs it")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

ID: Final = column(1, "id", "int", key=1)
FIRST: Final = (
    ID,
    column(2, "note", "nvarchar(20)"),
    column(3, "net price", "decimal(9,2)"),
    column(4, "n", "int"),
    column(5, "ratio", "real"),
    column(6, "at", "datetimeoffset(3)"),
    column(7, "born", "date"),
    column(8, "photo", "varbinary(max)"),
    column(9, "when", "datetime2(7)"),
)
SECOND: Final = (
    ID,
    column(2, "the.text", "nvarchar(20)"),
    column(3, "net price", "decimal(12,2)"),
    column(4, "n", "bigint"),
    column(5, "ratio", "float"),
    *FIRST[5:6],
    *FIRST[7:],
    column(10, "added", "bit"),
)
COMPANIONS: Final[tuple[dict[str, bool], ...]] = ({}, {"is_changes": True}, {"is_history": True})
NOON: Final = dt.datetime(2026, 11, 27, 12, 30, tzinfo=dt.UTC)


def values(table: SourceTable, number: int) -> dict[str, Any]:
    """A row; every third one has NULL wherever it may."""
    known: dict[str, Any] = {
        "note": f"é {number}",
        "the.text": f"text {number}",
        "net price": Decimal(number) / 4,
        "n": -number,
        "ratio": number / 8,
        "at": (NOON + dt.timedelta(hours=number)).isoformat(timespec="milliseconds"),
        "born": dt.date(1, 1, 1) + dt.timedelta(days=number),
        "photo": bytes([number]) * 3,
        "when": dt.datetime(9999, 12, 31, 23, 59, 59),  # noqa: DTZ001 - has no zone
        "added": bool(number % 2),
    }
    names = [of.name for of in table.schema.columns if of.name != "id"]
    return {name: known[name] if number % 3 else None for name in names}


def fill(source: Source, table: SourceTable, log: SourceTable, number: int) -> None:
    def changes(t: Transaction) -> None:
        for key in range(4 * number, 4 * number + 4):
            t.insert(table, id=key, **values(table, key))
        for key in [key for (key,) in table.rows if key % 4 == number % 4]:
            t.update(table, (key,), **values(table, key + 1))
        if (number,) in table.rows:
            t.delete(table, (number,))
        t.insert(log, line=f"line {number}")

    source.commit(changes)
    source.publish()


def by_spark(frame: DataFrame) -> pa.Table:
    """Its rows, with instants in UTC as the other reader has them."""
    found: pa.Table = frame.toArrow()
    utc = {
        f.name: pa.timestamp("us", "UTC")
        for f in found.schema
        if pa.types.is_timestamp(f.type) and f.type.tz is not None
    }
    return found.cast(
        pa.schema([pa.field(f.name, utc.get(f.name, f.type), f.nullable) for f in found.schema])
    )


def check_equal(found: pa.Table, expected: pa.Table) -> None:
    assert [(f.name, f.type) for f in found.schema] == [(f.name, f.type) for f in expected.schema]
    rows = [sorted(map(repr, of.to_pylist())) for of in (found, expected)]
    assert rows[0] == rows[1]
    assert found.num_rows > 0


def check_cut(filled: FilledLake, lake: Lake, **point: Any) -> Cut:
    """Every table and companion of a cut, by both readers."""
    cut, expected = lake.as_of(**point), read(filled.spark, filled.address).as_of(**point)
    assert (cut.closed_lsn, cut.tables) == (expected.closed_lsn, expected.tables)
    for companion in COMPANIONS:
        rows = cut.read("dbo.orders", **companion)
        check_equal(rows, by_spark(expected.read("dbo.orders", **companion)))
    check_equal(cut.read("dbo.log"), by_spark(expected.read("dbo.log")))
    return cut


def test_both_readers_read_the_same_cuts(
    source: Source, lake: FilledLake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
):
    space = f"read_{source.prefix}".replace("-", "_")
    data = f"{server.options['data']}/{space}"
    options = server.options | {"namespace": space, "data": data}
    lake.options |= {"format": "iceberg", "iceberg": options}
    lake.options["kinds"] = {r"dbo\.orders": ["mirror", "changelog", "history"]}
    orders, log = source.table("orders", *FIRST), source.table("log", column(1, "line", "char(9)"))
    opened = without_spark.open(lake.address, iceberg=options, **lake.options["s3"])

    for number in range(3):
        fill(source, orders, log, number)
        assert lake.catch_up() == 1
        once_is_enough(monkeypatch)
    check_cut(lake, opened)
    fill(source, orders, log, 3)
    source.alter(orders, *SECOND)
    fill(source, orders, log, 4)
    lake.log_only()
    check_cut(lake, opened)  # columns change in the log's tail

    assert lake.catch_up() == 1
    combine_files(lake, space)
    for number in (5, 6):
        fill(source, orders, log, number)
        assert lake.catch_up() == 1
    fill(source, orders, log, 7)
    lake.log_only()
    commits = lake.commits()
    for commit in commits:
        check_cut(lake, opened, lsn=commit["through_lsn"])
    check_cut(lake, opened, time=commits[0]["through_commit_time"].replace(tzinfo=dt.UTC))
    newest = check_cut(lake, opened)
    assert newest.closed_lsn > commits[-1]["through_lsn"]
    found = {row["id"]: row for row in newest.read("dbo.orders").to_pylist()}
    assert {key: row["the.text"] for key, row in found.items()} == {
        key: row["the.text"] for (key,), row in orders.rows.items()
    }
    counted = newest.sql("SELECT count(*) FROM dbo.orders").fetchall()
    assert counted == [(len(orders.rows),)]
    assert newest.dataset("dbo.log").count_rows() == 8
    assert opened.changes("dbo.orders").num_rows > len(orders.rows)
    failures_are_typed(lake, server, opened, space)


def combine_files(lake: FilledLake, space: str) -> None:
    """The sink's compaction, of files with deletion vectors."""
    tables = IcebergFormat(lake.spark, lake.config())
    path = "shop/dbo/orders"
    before = tables.version(lake.spark, path)
    work = tables.compaction(lake.spark)
    work._files_min = 2
    work.note({}, {path: before})
    assert work.run() == path
    assert tables.version(lake.spark, path) != before


def refused(lake: Lake) -> SinkError:
    with pytest.raises(SinkError) as told:
        lake.as_of().read("dbo.log")
    return told.value


def failures_are_typed(filled: FilledLake, server: CatalogServer, lake: Lake, space: str) -> None:
    options, store = filled.options["iceberg"], filled.options["s3"]

    def opened(**changed: Any) -> Lake:
        return without_spark.open(filled.address, iceberg=options | changed, **store)

    unknown = refused(without_spark.open(filled.address, **store))
    assert isinstance(unknown, ConfigError)
    assert 'iceberg={"uri": ..., "warehouse": ...}' in str(unknown)
    denied = refused(opened(credential="nobody:wrong"))
    assert isinstance(denied, CatalogUnusable)
    assert not denied.retryable
    assert "Fix: check the credential" in str(denied)
    assert "wrong" not in str(denied)
    silent = refused(opened(uri="http://127.0.0.1:9"))
    assert isinstance(silent, CatalogUnavailable)
    assert silent.retryable
    assert isinstance(refused(opened(uri=None, credential=None)), NeedsSpark)

    catalog = IcebergCatalog(filled.spark, "tailrace")
    table = TableId((space,), "log")
    loaded = catalog.load(table)
    assert loaded is not None
    vector = "tailrace.lake.iceberg_table.IcebergTable._counted"
    with patch(vector, return_value=1), pytest.raises(NeedsSpark, match="found 7 rows"):
        lake.as_of().read("dbo.log")
    place = loaded.java.updateProperties().set("tailrace.place", "s3a://lake/other/shop/dbo/log")
    place.commit()
    assert isinstance(refused(lake), NameTaken)
    loaded.java.updateProperties().set("tailrace.place", f"{filled.address}/shop/dbo/log").commit()
    older = filled.commits()[0]
    expire = loaded.java.expireSnapshots().expireSnapshotId(older["tables"]["shop/dbo/log"])
    expire.commit()
    with pytest.raises(CutUnknown, match=r"no snapshot \d+: expire_snapshots removed it.*Fix:"):
        lake.as_of(lsn=older["through_lsn"]).read("dbo.log")
    catalog.drop(table)
    gone = refused(lake)
    assert isinstance(gone, CutUnknown)
    assert "is gone from the Iceberg catalog tailrace" in str(gone)
    assert isinstance(lake._opened, Catalog)
