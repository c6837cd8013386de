"""Several source tables in one lake table, with their origin in the key (``sink.into``)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tailrace_sink import read
from tailrace_sink.reading.cut import Cut
from tailrace_sink.reading.permanent_views import create_cut_views
from tailrace_sink.reading.point import Point
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.both_readers import assert_same_cut, changes
from tests.sink.conftest import Lake
from tests.sink.random_tables import change, expected, listed, snapshot

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROUNDS = 4
STEPS = 14
"""Of a sink that writes to two sources' rows in three tables."""
KEY = column(1, "id", "int", key=1)
INTO: dict[str, Any] = {"into": {r"dbo\.orders_.*": "all.orders"}}
KINDS: dict[str, Any] = {"kinds": {r"all\..*": ["mirror", "changelog", "history"]}}


def newest(lake: Lake) -> Cut:
    return read(lake.spark, lake.address).as_of("latest")


def in_lake(cut: Cut, *tables: SourceTable, name: str = "all.orders") -> list[dict[Any, Any]]:
    """The rows of each source in the shared table, by key; the same without Spark."""
    assert_same_cut(cut, name)
    rows = [row.asDict() for row in cut.read(name).collect()]
    found = []
    for table in tables:
        names = [c.name for c in table.schema.columns]
        own = [row for row in rows if row["_cdc_table"] == table.name.table]
        own = [row for row in own if row["_cdc_op"] != "d"]
        by_key = {table.key_of(row): {name: row[name] for name in names} for row in own}
        assert len(by_key) == len(own), "a key is there twice"
        found.append(by_key)
    return found


@pytest.mark.slow("random changes and kills in a lake of their own")
@pytest.mark.parametrize(
    "more",
    [
        {},
        pytest.param(
            {"bulk_changes": 1, "local_changes_max": 0},
            marks=pytest.mark.nightly("the same, in bulk"),
        ),
    ],
)
def test_each_source_keeps_to_its_own_rows(source: Source, lake: Lake, more: dict[str, Any]):
    chance = random.Random(77)
    lake.options |= {**INTO, **more}
    # Equal keys in both; the ids of equal columns differ.
    a = source.table("orders_a", KEY, column(2, "v", "int"))
    b = source.table("orders_b", column(5, "id", "int", key=1), column(7, "v", "int"))
    tables = [a, b]
    for table in tables:
        change(source, table, chance)
    source.publish()
    lake.catch_up()
    since = dict.fromkeys(tables_named(tables), source.through)
    lake.options |= KINDS  # switched on later
    for number in range(ROUNDS):
        for table in tables:
            change(source, table, chance)
        source.publish()
        if number in (1, 3):
            snapshot(source, chance.choice(tables), chance, names_it_first=number == 1)
        lake.break_off(at=chance.randrange(STEPS))
        cut = newest(lake)
        at = source.cuts[cut.closed_lsn]
        assert in_lake(cut, *tables) == [at[name] for name in tables_named(tables)], number
        lake.catch_up()
        cut = newest(lake)
        assert cut.closed_lsn == source.through
        assert_same_cut(cut, a.name)
        assert_same_cut(cut, "all.orders", is_history=True)
        kept = cut.read("all.orders", is_history=True)
        intervals = listed(kept, "_cdc_table")
        for table in tables:
            name = table.name.table
            own = [row[:-1] for row in intervals if row[-1] == name]
            assert own == expected(source, table, since[name], source.through), number
        if number == 2:
            # A third one comes, with a column more.
            c = source.table("orders_c", KEY, column(2, "v", "int"), column(3, "note", "int"))
            since["orders_c"] = source.commit(lambda t, c=c: t.insert(c, id=1, v=1, note=5))
            tables.append(c)
    assert [str(table) for table in cut.tables] == ["shop.all.orders"]
    a.rows.clear()  # nothing is left of one of them
    snapshot(source, a, chance, names_it_first=True)
    lake.catch_up()
    assert in_lake(newest(lake), *tables) == [table.rows for table in tables]

    # A row moves to another source, whose key it has there. Deleted rows stay from now on.
    lake.options |= {"delete_mode": "soft"}
    source.commit(lambda t: t.insert(a, id=8, v=1), lambda t: t.insert(b, id=9, v=2))
    source.publish()
    lake.catch_up()
    since_move = source.through
    moved = source.commit(lambda t: t.delete(a, (8,)), lambda t: t.insert(b, id=8, v=1))
    # The values of another source do not fit, so it stops alone.
    d = source.table("orders_d", column(1, "ID", "int", key=1), column(2, "V", "varchar(9)"))
    source.commit(lambda t: t.insert(d, ID=8, V="eight"))
    source.publish()
    lake.catch_up()
    cut = newest(lake)
    assert in_lake(cut, *tables) == [table.rows for table in tables]
    of_8 = cut.read("all.orders").where("id = 8").select("_cdc_table", "_cdc_op", "_cdc_lsn")
    assert sorted(of_8.collect()) == [("orders_a", "d", moved), ("orders_b", "c", moved)]
    assert list(json.loads(lake.commits()[-1]["stopped"])) == [d.topic]
    if not more:  # of bulk cuts the log has no changes
        assert cut_changes(lake, since_move) == {
            ("orders_a", "d", 8, 1, None),
            ("orders_b", "c", 8, 1, None),
            ("orders_d", "c", 8, None, "eight"),
        }
    held_sources_are_in_no_view(lake, source, tables)


def held_sources_are_in_no_view(lake: Lake, source: Source, tables: list[SourceTable]) -> None:
    """Of a shared table, neither one in its snapshot nor one that moves to another lake table.

    The snapshots bring both back, and the rows of the second leave the table in which they were.
    """
    a, b, c = tables
    lake.options |= {"into": {r"dbo\.orders_a": "all.moved", **INTO["into"]}}
    source.commit(lambda t: t.insert(a, id=20, v=1), lambda t: t.insert(c, id=20, v=1))
    source.publish(snapshotting=[b])
    lake.catch_up()
    cut = newest(lake)
    left_out = set(json.loads(lake.commits()[-1]["left_out"]))
    assert left_out.issuperset({"shop/dbo/orders_a", "shop/dbo/orders_b"})
    config = lake.config(catalog={"kind": "spark"})
    spark = lake.spark
    try:
        create_cut_views(spark, config, "cut", Point())
        view = spark.table("all_cut.orders")
        of_cut = cut.read("all.orders")
        for rows in (view, of_cut):
            assert {row["_cdc_table"] for row in rows.collect()} == {"orders_c"}
        source.publish(snapshotting=[a, b])
        fences = [source.snapshot(table, list(table.rows.values())) for table in (a, b)]
        source.publish(through=max(fences))
        lake.catch_up()
        cut = newest(lake)
        assert in_lake(cut, b, c) == [b.rows, c.rows]
        assert in_lake(cut, a, name="all.moved") == [a.rows]
        create_cut_views(spark, config, "cut", Point())
        views = {"orders": {"orders_b", "orders_c"}, "moved": {"orders_a"}}
        for name, sources in views.items():
            rows = spark.table(f"all_cut.{name}").where("_cdc_op <> 'd'").collect()
            assert {row["_cdc_table"] for row in rows} == sources
    finally:
        spark.sql("DROP SCHEMA IF EXISTS all_cut CASCADE")
    bare = spark.read.format("delta").load(f"{lake.address}/shop/all/orders")
    assert bare.where("_cdc_table = 'orders_a' AND _cdc_op <> 'd'").isEmpty()


def cut_changes(lake: Lake, after: str) -> set[tuple[Any, ...]]:
    """Source, operation, id and value of each change after a cut, with that which did not fit."""
    found = set()
    for row in changes(lake.spark, lake.address, "all.orders", after=after).collect():
        image = (row["after"] or row["before"]).asDict()
        found.add((row["_cdc_table"], row["_cdc_op"], image["id"], image["v"], image["v_old_1"]))
    return found


def tables_named(tables: list[SourceTable]) -> list[str]:
    return [table.name.table for table in tables]
