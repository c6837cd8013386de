"""Lake tables in a catalog: names, and permanent views of one cut."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace.lag.catalog import unnamed
from tailrace_compose.local.jars import spark_jars
from tailrace_sink.delta.registration import problem_with
from tailrace_sink.errors import NameTaken, NamingFailed
from tailrace_sink.log.names_table import NamesTable
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.reading.log_tail import Point
from tailrace_sink.reading.permanent_views import create_cut_views
from tailrace_sink.tables.catalog_names import CatalogName
from tailrace_sink.upkeep.table_names import Answers, TableNames
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake

KEY = column(1, "id", "int", key=1)
CATALOG = {"kind": "spark", "schema_name": "{database}_{schema}"}

_READS = """
import json, sys
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.reading.log_tail import Point
from tailrace_sink.reading.permanent_views import create_cut_views
from tailrace_sink.spark.session import session_with
options, jars, queries = json.load(sys.stdin)
config = SinkConfig.load(options)
settings = {"spark.master": "local[1]", "spark.driver.memory": "512m", "spark.jars": jars}
spark = session_with(settings | config.catalog.spark_settings())
create_cut_views(spark, config, "cut", Point())
found = [[list(row) for row in spark.sql(query).collect()] for query in queries]
spark.stop()
print("FOUND", json.dumps(found))
"""


def jars() -> str:
    """The sink's jars, as Spark's setting has them."""
    return ",".join(map(str, spark_jars()))


@pytest.fixture
def orders(source: Source) -> SourceTable:
    return source.table("Orders", KEY, column(2, "v", "int"))


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[SparkSession]:
    """The session's own catalog, without what tests put there."""
    yield spark
    for row in spark.sql("SHOW SCHEMAS LIKE 'shop*'").collect():
        spark.sql(f"DROP SCHEMA {row[0]} CASCADE")


def put(source: Source, table: SourceTable, *ids: int) -> str:
    lsn = source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in ids))
    source.publish()
    return lsn


def named(config: SinkConfig, paths: Mapping[str, int], run: Any) -> TableNames:
    names = TableNames(config, jars(), run)
    names.want(paths)
    names.settle(lambda: False)
    names.close()
    return names


def in_session(spark: SparkSession) -> Any:
    """Carries an order out in the session of the tests."""

    def run(order: Mapping[str, Any]) -> Answers:
        return {
            path: problem_with(
                spark, order["catalog"], f"{order['lake']}/{path}", CatalogName(*name)
            )
            for path, name in order["names"].items()
        }

    return run


def test_the_lake_s_tables_have_names_whatever_the_catalog_does(
    catalog: SparkSession, lake: Lake, source: Source, orders: SourceTable
):
    put(source, orders, 1, 2)
    lake.catch_up(changelog={"include": [".*"]})
    config = lake.config(catalog=CATALOG)
    versions = lake.commits()[-1]["tables"]
    before = lake.version("Orders")

    def away(order: Mapping[str, Any]) -> Answers:
        raise NamingFailed(len(order["names"]), "connection refused")

    named(config, versions, away)
    assert [line.partition(" has no name")[0] for line in unnamed(config)] == sorted(versions)

    catalog.sql("CREATE SCHEMA shop_dbo")
    catalog.sql("CREATE TABLE shop_dbo.orders (x INT) USING parquet")
    named(config, versions, in_session(catalog))
    (line,) = unnamed(config)
    assert "shop_dbo.orders is taken" in line
    assert NamesTable(config).read() == {"shop/dbo/Orders.changes": "shop_dbo.orders_changes"}

    catalog.sql("DROP TABLE shop_dbo.orders")
    named(config, versions, in_session(catalog))
    assert list(unnamed(config)) == []
    assert catalog.sql("SELECT id, v FROM shop_dbo.orders ORDER BY id").collect() == [
        (1, 1),
        (2, 2),
    ]
    assert lake.version("Orders") == before, "a name is no commit of the table"
    tried = threading.Event()
    named(config, versions, lambda _: tried.set())
    assert not tried.is_set(), "every table has its name"


def test_views_of_a_cut_stay_at_it_and_are_replaced_together(
    catalog: SparkSession, lake: Lake, source: Source, orders: SourceTable
):
    items = source.table("items", KEY, column(2, "v", "int"))
    put(source, orders, 1)
    first = put(source, items, 1)
    lake.catch_up()
    put(source, orders, 2)
    put(source, items, 2)
    lake.catch_up()
    config = lake.config(catalog=CATALOG)
    count = "SELECT count(*), (SELECT count(*) FROM shop_dbo_{0}.items) FROM shop_dbo_{0}.orders"

    made = create_cut_views(catalog, config, "cut", Point(lsn=first))
    assert [str(name) for name in made.names] == ["shop_dbo_cut.items", "shop_dbo_cut.orders"]
    assert made.closed_lsn == first
    assert catalog.sql(count.format("cut")).collect() == [(1, 1)]
    create_cut_views(catalog, config, "month_end", Point(lsn=first))
    create_cut_views(catalog, config, "cut", Point())
    assert catalog.sql(count.format("cut")).collect() == [(2, 2)]
    assert catalog.sql(count.format("month_end")).collect() == [(1, 1)]

    catalog.sql("DROP VIEW shop_dbo_cut.items")
    catalog.sql("CREATE VIEW shop_dbo_cut.items AS SELECT 1 AS id")
    with pytest.raises(NameTaken):
        create_cut_views(catalog, config, "cut", Point())
    assert catalog.sql("SELECT count(*) FROM shop_dbo_cut.orders").collect() == [(2,)]


@pytest.mark.timeout(900)
@pytest.mark.slow("two Sparks of their own: one process at a time may open an embedded metastore")
def test_a_sink_names_its_tables_in_hive_and_a_later_process_reads_them_by_name(
    lake: Lake, source: Source, orders: SourceTable, tmp_path: Path
):
    hive = {"kind": "hive", "metastore": str(tmp_path / "metastore")}
    put(source, orders, 1, 2)
    lake.catch_up()
    sink = lake.sink(catalog=hive)  # of a lake that is there already
    sink.open()
    sink.fold.tidy(lambda: False)
    sink.close()
    assert list(unnamed(lake.config(catalog=hive))) == []
    queries = ["SELECT id FROM dbo.orders ORDER BY id", "SELECT count(*) FROM dbo_cut.orders"]
    done = subprocess.run(
        [sys.executable, "-c", _READS],
        input=json.dumps([{**lake.options, "catalog": hive}, jars(), queries]),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "FOUND" in done.stdout, done.stderr[-3000:]
    assert json.loads(done.stdout.partition("FOUND")[2]) == [[[1], [2]], [[2]]]
