"""tailrace verify and tailrace audit of a lake in Iceberg, as commands."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.commands import Answer, Command, run_all
from tests.end_to_end.conftest import Pipeline, wait_until
from tests.end_to_end.test_verify import repeating
from tests.hidden_damage import run_as_an_iceberg_sink

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow("a sink starts twice, and commands with a Spark of their own"),
]

ROWS = 200
COMMANDS = {
    "verify": Command("verify", ("--wait", "60", "--json")),
    "audit": Command("audit", ("--lake", "--json")),
    "query": Command("query", ("SELECT count(*) AS n, max(id) AS id FROM dbo.accounts", "--json")),
}


def create(pipeline: Pipeline) -> None:
    pipeline.server.create_database(pipeline.database)
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        connection.execute(
            "CREATE TABLE dbo.accounts (id int PRIMARY KEY, owner nvarchar(40) NOT NULL,"
            " balance decimal(12, 2), opened datetime2(3), photo varbinary(max))"
        )
        connection.execute("CREATE TABLE dbo.clicks (page varchar(20), ms float)")
        cursor = connection.cursor()
        cursor.executemany(
            "INSERT dbo.accounts VALUES (?, ?, ?, '2026-11-27', ?)",
            [(n, f"owner {n} é", n, b"x" * (n % 5)) for n in range(ROWS)],
        )
        cursor.executemany("INSERT dbo.clicks VALUES (?, ?)", [("a", 0.1), ("a", 0.1), ("A", None)])
        connection.execute("EXEC sys.sp_cdc_enable_db")
        for table in ("accounts", "clicks"):
            connection.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
                " @role_name = NULL",
                table,
            )


def change(pipeline: Pipeline) -> None:
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        connection.execute("UPDATE dbo.accounts SET balance += 0.01 WHERE id < 20")
        connection.execute("DELETE dbo.accounts WHERE id < 5")
    pipeline.scan()


def plant(spark: SparkSession, table: str) -> None:
    """Change a row, delete one and add one, in the lake alone."""
    damage = partial(run_as_an_iceberg_sink, spark, table)
    damage(f"UPDATE {table} SET balance = balance + 0.01 WHERE id = 107")
    damage(f"DELETE FROM {table} WHERE id = 108")
    names = ", ".join(name for name in spark.table(table).columns if name != "id")
    damage(f"INSERT INTO {table} (id, {names}) SELECT 9000, {names} FROM {table} WHERE id = 109")


def test_planted_rows_are_found_and_nothing_else(
    iceberg_pipeline: Pipeline, spark_with_store: SparkSession
):
    pipeline, spark = iceberg_pipeline, spark_with_store
    create(pipeline)
    pipeline.scan()
    pipeline.start("publish")
    with pipeline.sink_here(spark):
        pipeline.lake_has("accounts", "clicks")
        change(pipeline)
        pipeline.lake_reaches_source()
    catalog = pipeline.sink_config.iceberg_options
    # A session that is made after the sink's has the catalog; the given one keeps its settings.
    plant(spark.newSession(), f"{catalog.name}.{catalog.namespace}.accounts")
    path = f"{pipeline.database}/dbo/accounts"
    before = pipeline.commit_rows()[-1].tables[path]
    with pipeline.sink_here(spark):
        change(pipeline)
        wait_until(lambda: pipeline.commit_rows()[-1].tables[path] != before, "a newer cut")
        pipeline.lake_reaches_source()
        # Nothing changes clicks at the source, so no batch meets this.
        spark.newSession().sql(f"DELETE FROM {catalog.name}.{catalog.namespace}.clicks")
        with repeating(pipeline.scan, 0.5):
            answers = run_all(pipeline.config(), COMMANDS)
    check_verified(answers["verify"])
    audited = answers["audit"]
    assert audited.status == 0, audited
    assert audited.object["problems"]["count"] == 0
    events = sum(topic["events"] for topic in audited.object["topics"].values())
    assert audited.object["lake"]["events"] == events
    # Without Spark: five rows are deleted in the source, one is deleted and one added in the lake.
    assert answers["query"].object == {"n": ROWS - 5, "id": 9000}, answers["query"]


def check_verified(answer: Answer) -> None:
    assert answer.status == 3, answer
    tables = {table["table"]: table for table in answer.object["tables"]}
    accounts, clicks = tables["dbo.accounts"], tables["dbo.clicks"]
    assert accounts["problem"] is None, answer
    assert "clicks were changed by somebody else: snapshot " in clicks["problem"]
    assert ": delete" in clicks["problem"]
    assert accounts["differing"] == {"value": 1, "missing": 1, "surplus": 1}
    assert set(clicks["differing"].values()) == {0}
    assert (accounts["unsettled"], clicks["unsettled"]) == (0, 0)
    assert {(row["kind"], row["key"]["id"]) for row in accounts["examples"]} == {
        ("value", "107"),
        ("missing", "108"),
        ("surplus", "9000"),
    }
