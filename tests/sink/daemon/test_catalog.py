"""Lake tables in a catalog: names, and permanent views of one cut."""

from __future__ import annotations

import json
import shutil
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
from tailrace_sink.delta.registration import Answer, carry_out
from tailrace_sink.errors import NameTaken, NamingFailed
from tailrace_sink.log.names_table import NamesTable
from tailrace_sink.log.oldest_cut import OldestCutFile
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.oldest_cut import OldestCut
from tailrace_sink.reading.permanent_views import create_cut_views
from tailrace_sink.reading.point import Point
from tailrace_sink.upkeep.table_names import TableNames
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake

KEY = column(1, "id", "int", key=1)
CATALOG = {"kind": "spark", "schema_name": "{database}_{schema}"}

_STEPS = """
import json, sys
from click.testing import CliRunner
from tailrace.cli.root import cli
from tailrace.reading.lake_session import configured_session
from tailrace_sink.delta.registration import carry_out
from tailrace_sink.options.config import SinkConfig
options, (*commands, statements) = json.load(sys.stdin)
found = []
for command in commands:
    done = CliRunner().invoke(cli, ["views", *command])
    found.append([done.exit_code, done.stdout, done.output])
spark = configured_session(SinkConfig.load(options))
for one in statements:
    done = carry_out(spark, one) if isinstance(one, dict) else spark.sql(one).collect()
    found.append([list(row) for row in done])
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

    def run(order: Mapping[str, Any]) -> list[Answer]:
        return list(carry_out(spark, order))

    return run


def test_the_lake_s_tables_have_names_whatever_the_catalog_does(
    catalog: SparkSession, lake: Lake, source: Source, orders: SourceTable
):
    put(source, orders, 1, 2)
    lake.options |= {"kinds": {".*": ["mirror", "changelog"]}}
    lake.catch_up()
    config = lake.config(catalog=CATALOG)
    versions = lake.commits()[-1]["tables"]
    before = lake.version("Orders")

    def away(order: Mapping[str, Any]) -> list[Answer]:
        raise NamingFailed(len(order["names"]), "connection refused")

    named(config, versions, away)
    assert [line.partition(" has no name")[0] for line in unnamed(config)] == sorted(versions)

    catalog.sql("CREATE SCHEMA shop_dbo")
    catalog.sql("CREATE TABLE shop_dbo.orders (x INT) USING parquet")
    named(config, versions, in_session(catalog))
    (line,) = unnamed(config)
    assert "shop_dbo.orders is taken" in line
    assert NamesTable(config).read() == {("shop/dbo/Orders.changes", "shop_dbo.orders_changes")}

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


def test_a_name_is_removed_from_its_own_table_only(catalog: SparkSession, tmp_path: Path):
    for name in ("own", "gone"):
        catalog.range(1).write.format("delta").save(f"{tmp_path}/shop/dbo/{name}")
    names = {name: (f"shop/dbo/{name}", f"shop_dbo.{name}") for name in ("own", "gone", "other")}
    order = {"lake": str(tmp_path), "catalog": "spark_catalog", "drop": [], "names": []}
    given = carry_out(catalog, {**order, "names": [names["own"], names["gone"]]})
    assert [answer.problem for answer in given] == [None, None]
    shutil.rmtree(tmp_path / "shop/dbo/gone")
    catalog.sql("CREATE TABLE shop_dbo.other (x INT) USING parquet")
    catalog.sql("CREATE VIEW shop_dbo.view AS SELECT 1 AS x")
    of_own = [(names["own"][0], f"shop_dbo.{name}") for name in ("view", "none")]
    dropped = carry_out(catalog, {**order, "drop": [*names.values(), *of_own]})
    assert [answer.problem for answer in dropped] == [None] * 5
    there = catalog.sql("SHOW TABLES IN shop_dbo").collect()
    assert {row["tableName"] for row in there} == {"other", "view"}
    own = catalog.read.format("delta").load(f"{tmp_path}/shop/dbo/own")
    assert own.count() == 1, "the files stay"


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

    # A table whose source has another type is replaced: views of earlier cuts have its old rows.
    source.alter(orders, KEY, column(2, "v", "varchar(9)"))
    source.publish(snapshotting=[orders])
    source.snapshot(orders, [{"id": 9, "v": "nine"}])
    put(source, items, 3)
    lake.catch_up()
    assert catalog.sql("SELECT v FROM shop_dbo_cut.orders ORDER BY id").collect() == [(1,), (2,)]
    create_cut_views(catalog, config, "cut", Point())
    assert catalog.sql("SELECT v FROM shop_dbo_cut.orders").collect() == [("nine",)]
    assert catalog.sql(count.format("month_end")).collect() == [(1, 1)]

    # Views of a name are of one cut, also if their schemas are no longer those of the tables.
    create_cut_views(catalog, config, "end", Point(lsn=first))
    moved = lake.config(catalog=CATALOG | {"schema_name": "{database}"})
    create_cut_views(catalog, moved, "end", Point())
    assert catalog.sql("SHOW VIEWS IN shop_dbo_end").collect() == []
    assert catalog.sql(count.format("month_end")).collect() == [(1, 1)], "another name"

    catalog.sql("DROP VIEW shop_dbo_cut.items")
    catalog.sql("CREATE VIEW shop_dbo_cut.items AS SELECT 1 AS id")
    with pytest.raises(NameTaken):
        create_cut_views(catalog, config, "cut", Point())
    assert catalog.sql("SELECT count(*) FROM shop_dbo_cut.orders").collect() == [(1,)]


@pytest.mark.timeout(900)
@pytest.mark.slow("two Sparks of their own: one process at a time may open an embedded metastore")
def test_a_sink_names_its_tables_in_hive_and_a_later_process_reads_them_by_name(
    lake: Lake, source: Source, orders: SourceTable, tmp_path: Path
):
    hive = {"kind": "hive", "metastore": str(tmp_path / "metastore")}
    cuts = []
    for number in (1, 2, 3):
        cuts.append(put(source, orders, number))
        lake.catch_up()
    sink = lake.sink(catalog=hive)  # of a lake that is there already
    sink.open()
    sink.fold.tidy(lambda: False)
    sink.close()
    options = {
        **lake.options,
        "catalog": hive,
        "spark": {"spark.master": "local[1]", "spark.driver.memory": "512m"},
    }
    config = SinkConfig.load(options)
    assert list(unnamed(config)) == []
    oldest = OldestCutFile(lake.spark, config.retention_path, config.commits_path)
    oldest.write(OldestCut(lake.commits()[1]["batch"], cuts[1], has_forgotten=True))
    (tmp_path / "tailrace.yaml").write_text(json.dumps({"sink": options}))
    ids = "SELECT id FROM {}.orders ORDER BY id"
    names = ("dbo.orders", "dbo.others", "dbo.none")
    steps = [
        [],
        ["--name", "then", "--lsn", cuts[1]],
        ["--name", "then", "--lsn", cuts[0]],
        [
            *(ids.format(schema) for schema in ("dbo", "dbo_cut", "dbo_then")),
            "CREATE TABLE dbo.others (x INT) USING parquet",
            {
                "lake": lake.address,
                "catalog": "spark_catalog",
                "drop": [("shop/dbo/Orders", name) for name in names],
                "names": [],
            },
            "SHOW TABLES IN dbo",
        ],
    ]
    done = subprocess.run(
        [sys.executable, "-c", _STEPS],
        input=json.dumps([options, steps]),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
    )
    assert "FOUND" in done.stdout, done.stderr[-3000:]
    newest, then, forgotten, *found = json.loads(done.stdout.partition("FOUND")[2])
    assert newest[:2] == [0, "dbo_cut.orders\n"]
    assert then[:2] == [0, "dbo_then.orders\n"]
    assert forgotten[0] == 1
    assert f"has forgotten its cut of batch {lake.commits()[0]['batch']}" in forgotten[2]
    assert f"the oldest kept cut is at LSN {cuts[1]}" in forgotten[2]
    in_table, in_cut, in_then, _, dropped, left = found
    assert (in_table, in_cut, in_then) == ([[1], [2], [3]], [[1], [2], [3]], [[1], [2]])
    assert [problem for _, _, problem in dropped] == [None, None, None]
    assert [name for _, name, _ in left] == ["others"]
