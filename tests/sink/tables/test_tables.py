"""What becomes of tables: deletes, append-only ones, and those that the lake cannot follow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.rows.decode import POSITION_SQL
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.slow("seven starts of a sink, one of which breaks off")
def test_tables_that_the_lake_cannot_follow_stop_alone_until_their_next_snapshot(
    source: Source, lake: Lake
):
    key, title = column(1, "id", "int", key=1), column(2, "title", "nvarchar(10)")
    retyped, rekeyed, stays = (source.table(name, key, title) for name in ("ty", "ke", "stays"))
    tables = (retyped, rekeyed, stays)
    source.commit(*(lambda t, table=table: t.insert(table, id=1, title="7") for table in tables))
    source.publish()
    assert lake.catch_up() == 1
    before = lake.rows("ty"), lake.rows("ke")

    source.alter(retyped, key, column(2, "title", "int"))
    retyped.rows = {k: {**row, "title": 7} for k, row in retyped.rows.items()}
    source.alter(rekeyed, column(1, "id", "int"), column(2, "title", "nvarchar(10)", key=1))
    rekeyed.rows = {rekeyed.key_of(row): row for row in rekeyed.rows.values()}
    for number in (2, 3):  # the second batch leaves them out from its plan on
        source.commit(
            lambda t, n=number: t.insert(retyped, id=n, title=n),
            lambda t, n=number: t.insert(rekeyed, id=n, title=f"{n}"),
            lambda t, n=number: t.insert(stays, id=n, title=None),
        )
        source.publish()
        assert lake.catch_up() == 1
        assert (lake.rows("ty"), lake.rows("ke")) == before
        assert sorted(row["id"] for row in lake.rows("stays")) == list(range(1, number + 1))
        assert set(lake.commits()[-1]["tables"]) == {"shop/dbo/stays"}
    sink = lake.sink()
    stopped = sink.open().stopped
    assert re.search(r"shop.dbo.ty, column title.*became int", stopped[retyped.topic])
    assert "its key changed" in stopped[rekeyed.topic]
    assert sink.metrics.stopped_tables.labels(table="shop.dbo.ty")._value.get() == 1
    sink.close()

    for table in (retyped, rekeyed):
        source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[retyped, rekeyed])
    source.commit(lambda t: t.delete(retyped, (1,)), lambda t: t.delete(rekeyed, ("7",)))
    source.publish()

    def crash(step: str, _path: str) -> None:
        if step == "merged":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.catch_up(crash)
    assert lake.catch_up() == 1, "what was made anew is taken for what it is"
    assert lake.cut() == source.cut()
    assert lake.commits()[-1]["stopped"] == "{}"
    assert len(lake.commits()[-1]["tables"]) == 3
    source.commit(
        lambda t: t.insert(retyped, id=9, title=9), lambda t: t.insert(rekeyed, id=9, title="9")
    )
    source.publish()
    assert lake.catch_up() == 1
    assert lake.cut() == source.cut()


def test_a_lake_of_an_earlier_release_gets_the_columns_that_it_lacks(source: Source, lake: Lake):
    table = source.table("t", column(1, "id", "int", key=1))
    source.commit(lambda t: t.insert(table, id=1))
    source.publish()
    assert lake.catch_up() == 1
    path = lake.config().commits_path
    old = lake.spark.read.format("delta").load(path).drop("stopped").toArrow()
    lake.spark.sql(f"DROP TABLE delta.`{path}`")
    lake.spark.createDataFrame(old).write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).save(path)

    source.commit(lambda t: t.insert(table, id=2))
    source.publish()
    assert lake.catch_up() == 1
    assert lake.cut() == source.cut()
    assert [commit["stopped"] for commit in lake.commits()] == [None, "{}"]


def test_soft_deletes_keep_the_row_and_say_so(source: Source, lake: Lake):
    table = source.table("t", column(1, "id", "int", key=1), column(2, "v", "int"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in (1, 2, 3)))
    source.publish()
    lake.catch_up(delete_mode="soft", cluster_by={"dbo.t": ["v"]})
    source.commit(
        lambda t: t.delete(table, (1,)),
        lambda t: t.delete(table, (2,)),
        lambda t: t.insert(table, id=2, v=20),
        lambda t: t.insert(table, id=4, v=4),
        lambda t: t.delete(table, (4,)),
    )
    source.publish()
    lake.catch_up(delete_mode="soft")

    found = {(row["id"], row["v"], row["_cdc_op"]) for row in lake.raw("t")}
    assert found == {(1, 1, "d"), (2, 20, "c"), (3, 3, "c"), (4, 4, "d")}


def test_positions_order_as_the_contract_says(spark: SparkSession):
    """Spark's expression gives the contract's bytes, and every seed sorts below them."""
    positions = [
        ChangePosition.of_snapshot(Lsn(0, 0, 1)),
        ChangePosition(Lsn(0, 0, 1), 0, Lsn.ZERO, Operation.DELETE),
        ChangePosition(Lsn(0, 0, 1), 255, Lsn(9, 9, 9), Operation.DELETE),
        ChangePosition(Lsn(0, 0, 1), 255, Lsn(9, 9, 9), Operation.INSERT),
        ChangePosition(Lsn(0, 0, 1), 256, Lsn(1, 1, 1), Operation.UPDATE_AFTER),
        ChangePosition(Lsn(0x80, 0, 0), 0x7FFFFFFF, Lsn(0, 0, 1), Operation.INSERT),
        ChangePosition(Lsn(0xFFFFFFFF, 0, 0), 0, Lsn.MAX, Operation.UPDATE_AFTER),
    ]
    rows: list[tuple[int, tuple[Any, ...]]] = []
    for number, position in enumerate(positions):
        if position.operation is Operation.READ:
            rows.append((number, (str(position.commit_lsn), None, None, None)))
        else:
            fields = (
                str(position.commit_lsn),
                position.command_id,
                str(position.seqval),
                int(position.operation),
            )
            rows.append((number, fields))
    frame = spark.createDataFrame(
        rows,
        "number INT, source STRUCT<commit_lsn: STRING, command_id: INT, change_lsn: STRING,"
        " operation: INT>",
    ).selectExpr("number", f"{POSITION_SQL} AS position")

    found = frame.orderBy("position").collect()
    assert [bytes(row["position"]) for row in found] == [p.to_bytes() for p in positions]
    assert [row["number"] for row in found] == list(range(len(positions)))
    seeds = frame.where("position > X'' AND position > X'00' AND position IS NOT NULL").count()
    assert seeds == len(positions)
