"""What lake tables are made ready for, and what others may do to them."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.reading.history import history
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY, PENDING_PROPERTY
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.stories import Stories, Story

KEY = column(1, "id", "int", key=1)
PLAIN = {"appendOnly", "invariants"}
shared = Stories(18, default={"changelog": {"include": [r"dbo\.(keyed|logged)"]}})


def features(lake: Lake, table: str) -> set[str]:
    (detail,) = lake.spark.sql(f"DESCRIBE DETAIL delta.`{lake.location(table)}`").collect()
    return set(detail["tableFeatures"])


def alter(lake: Lake, table: str, change: str) -> DataFrame:
    return lake.spark.sql(f"ALTER TABLE delta.`{lake.location(table)}` {change}")


def comments(lake: Lake, table: str) -> dict[str, str]:
    found = table_metadata(lake.spark, lake.location(table))
    assert found is not None
    return {f.name: f.metadata.get("comment", "") for f in found.schema.fields}


def properties(lake: Lake, table: str) -> dict[str, str]:
    found = table_metadata(lake.spark, lake.location(table))
    assert found is not None
    return found.properties


def insert(source: Source, table: SourceTable, **row: Any) -> None:
    source.commit(lambda t: t.insert(table, **row))
    source.publish()


@shared
def test_a_table_is_plain_until_a_schema_change_first_needs_more(
    source: Source, lake: Lake
) -> Story:
    table = source.table("plain", KEY, column(2, "v", "int"))
    insert(source, table, id=1, v=1)
    yield
    assert features(lake, "plain") == PLAIN | {"deletionVectors"}

    source.alter(table, KEY, column(2, "v", "int"), column(3, "at", "datetime2(3)"))
    insert(source, table, id=2, v=2, at=dt.datetime(2024, 1, 2))  # noqa: DTZ001 - no zone
    yield
    assert features(lake, "plain") == PLAIN | {"deletionVectors", "timestampNtz"}

    source.alter(table, KEY, column(2, "v", "bigint"), column(3, "at", "datetime2(3)"))
    insert(source, table, id=3, v=2**40)
    yield
    assert "typeWidening" in features(lake, "plain")
    assert "columnMapping" not in features(lake, "plain")

    source.alter(table, KEY, column(2, "value", "bigint"), column(3, "at", "datetime2(3)"))
    insert(source, table, id=4, value=4)
    yield
    assert "columnMapping" in features(lake, "plain")
    assert lake.by_key(table) == table.rows
    assert properties(lake, "plain")[PENDING_PROPERTY] == ""


@shared
def test_a_name_that_parquet_does_not_take_is_mapped_from_the_beginning(
    source: Source, lake: Lake
) -> Story:
    table = source.table("named", KEY, column(2, "unit price (net)", "int"))
    source.commit(lambda t: t.insert(table, id=1, **{"unit price (net)": 5}))
    yield
    assert "columnMapping" in features(lake, "named")
    assert lake.by_key(table) == table.rows


@pytest.mark.slow("three batches with a profile that no other test has")
def test_a_compatible_table_stays_plain_and_a_new_snapshot_takes_the_change_in(
    source: Source, lake: Lake
):
    table = source.table("t", KEY, column(2, "v", "int"))
    other = source.table("other", KEY)
    insert(source, table, id=1, v=1)
    lake.catch_up(profile="compatible")
    assert features(lake, "t") == PLAIN

    source.alter(table, KEY, column(2, "value", "bigint"))
    source.commit(lambda t: t.insert(table, id=2, value=2), lambda t: t.insert(other, id=1))
    source.publish()
    lake.catch_up(profile="compatible")
    stopped = lake.commits()[-1]["stopped"]
    assert "sink.profile fast" in stopped
    assert lake.rows("t") == [{"id": 1, "v": 1}]
    assert lake.rows("other") == [{"id": 1}]

    source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[table])
    insert(source, table, id=3, value=2**40)
    lake.catch_up(profile="compatible")
    assert lake.cut() == source.cut()
    assert features(lake, "t") == PLAIN
    assert lake.commits()[-1]["stopped"] == "{}"


@shared
def test_comments_and_columns_of_others_do_not_stop_the_sink(source: Source, lake: Lake) -> Story:
    table = source.table("commented", KEY, column(2, "name", "varchar(10)"))
    insert(source, table, id=1, name="a")
    yield
    assert comments(lake, "commented")["name"] == "varchar(10)"
    alter(lake, "commented", "ALTER COLUMN name COMMENT 'What the customer goes by'")
    alter(lake, "commented", "ADD COLUMNS (segment STRING)")
    lake.spark.sql(f"UPDATE delta.`{lake.location('commented')}` SET segment = 'mine'")

    source.alter(table, KEY, column(2, "label", "varchar(20)"), column(3, "added", "int"))
    source.commit(
        lambda t: t.insert(table, id=2, label="b", added=1),
        lambda t: t.update(table, (1,), added=7),
    )
    yield
    found = sorted(lake.rows("commented"), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "label": "a", "segment": "mine", "added": 7},
        {"id": 2, "label": "b", "segment": None, "added": 1},
    ]
    assert comments(lake, "commented")["label"] == "What the customer goes by"


@pytest.mark.slow("two batches of a sink that stays open")
def test_columns_that_others_add_while_the_sink_runs_keep_their_values(
    source: Source, lake: Lake, spark: SparkSession
):
    """The sink knows the table, and its file is small enough to be written again."""
    table = source.table("t", KEY, column(2, "v", "int"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(4)))
    source.publish()
    sink = lake.sink()
    stream = ProgressStream(spark, sink.config, source.registry.schema_by_id, sink)
    try:
        sink.open()
        stream.catch_up(threading.Event())
        sink.fold_tables(threading.Event())
        alter(lake, "t", "ADD COLUMNS (segment STRING)")
        lake.spark.sql(f"UPDATE delta.`{lake.location('t')}` SET segment = 'mine'")
        source.commit(lambda t: t.update(table, (1,), v=11), lambda t: t.delete(table, (2,)))
        source.publish()
        source.commit(lambda t: t.insert(table, id=4, v=4))
        source.publish()
        stream.catch_up(threading.Event())
        sink.fold_tables(threading.Event())
    finally:
        sink.close()
    found = {row["id"]: (row["v"], row["segment"]) for row in lake.rows("t")}
    assert found == {0: (0, "mine"), 1: (11, "mine"), 3: (3, "mine"), 4: (4, None)}


@shared
def test_an_alter_that_breaks_the_sink_stops_that_table_alone(source: Source, lake: Lake) -> Story:
    table, other = source.table("broken", KEY, column(2, "v", "int")), source.table("whole", KEY)
    source.commit(lambda t: t.insert(table, id=1, v=1), lambda t: t.insert(other, id=1))
    yield
    alter(lake, "broken", "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    alter(lake, "broken", "RENAME COLUMN v TO mine")

    source.commit(lambda t: t.insert(table, id=2, v=2), lambda t: t.insert(other, id=2))
    yield
    assert "column v of the lake was altered by" in lake.commits()[-1]["stopped"]
    assert sorted(row["id"] for row in lake.rows("whole")) == [1, 2]

    source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[table])
    source.commit(lambda t: t.insert(table, id=3, v=3))
    yield
    assert lake.by_key(table) == table.rows
    insert(source, table, id=4, v=4)
    yield
    assert lake.by_key(table) == table.rows


@shared
def test_identities_in_comments_of_an_earlier_release_are_taken_over(
    source: Source, lake: Lake
) -> Story:
    table = source.table("older", KEY, column(2, "v", "int"))
    insert(source, table, id=1, v=1)
    yield
    alter(lake, "older", f"UNSET TBLPROPERTIES ('{COLUMNS_PROPERTY}')")
    alter(lake, "older", "ALTER COLUMN id COMMENT 'int; column_id=1; key=1'")
    alter(lake, "older", "ALTER COLUMN v COMMENT 'int; column_id=2'")

    insert(source, table, id=2, v=2)
    yield
    assert properties(lake, "older")[COLUMNS_PROPERTY] == '{"id":[1,"int",1],"v":[2,"int",0]}'
    alter(lake, "older", "ALTER COLUMN v COMMENT 'mine'")
    source.alter(table, KEY, column(2, "w", "int"))
    insert(source, table, id=3, w=3)
    yield
    assert lake.by_key(table) == table.rows


@shared
def test_an_empty_source_table_has_its_columns_when_its_snapshot_is_over(
    source: Source, lake: Lake
) -> Story:
    keyed = source.table("keyed", KEY, column(2, "at", "datetime2(3)"))
    keyless = source.table("keyless", column(1, "line", "varchar(20)"))
    other = source.table("other", KEY)
    source.commit(lambda t: t.insert(other, id=1))
    source.publish(snapshotting=[keyed, keyless])
    source.publish(through=str(source.next_lsn()))
    yield
    for name, columns in (
        ("keyed", ["id", "at"]),
        ("keyless", ["line"]),
        ("keyed.changes", ["id", "at"]),
    ):
        frame = lake.spark.read.format("delta").load(lake.location(name))
        assert frame.columns[: len(columns)] == columns
        assert frame.count() == 0
    assert set(lake.commits()[-1]["tables"]) >= {"shop/dbo/keyed", "shop/dbo/keyless"}

    insert(source, keyed, id=1, at=dt.datetime(2024, 1, 1))  # noqa: DTZ001 - no zone
    yield
    assert lake.by_key(keyed) == keyed.rows


@shared
def test_a_companion_and_a_keyless_table_have_every_change(source: Source, lake: Lake) -> Story:
    """Also one that is like another; test_append_once breaks their batches off."""
    keyed = source.table("logged", KEY, column(2, "v", "int"))
    lines = source.table("lines", column(1, "line", "varchar(20)"))
    source.commit(
        lambda t: t.insert(keyed, id=1, v=1),
        lambda t: t.insert(lines, line="one"),
        lambda t: t.update(keyed, (1,), v=2),
    )
    source.commit(lambda t: t.delete(keyed, (1,)), lambda t: t.insert(lines, line="one"))
    yield
    found = [(row["line"], row["_cdc_op"]) for row in lake.raw("lines")]
    assert found == [("one", "c"), ("one", "c")]
    changes = lake.spark.read.format("delta").load(lake.location("logged.changes"))
    ordered = [(row["_cdc_op"], row["v"]) for row in changes.orderBy("_cdc_position").collect()]
    assert ordered == [("c", 1), ("u", 2), ("d", 2)]
    assert lake.raw("logged") == []
    paths = {f"shop/dbo/{name}" for name in ("logged", "logged.changes", "lines")}
    assert paths <= set(lake.commits()[-1]["tables"])

    intervals = history(changes, ["id"]).orderBy("_cdc_position").collect()
    assert [row["v"] for row in intervals] == [1, 2]
    assert intervals[0]["_cdc_valid_to_lsn"] == intervals[1]["_cdc_valid_from_lsn"]


@pytest.mark.slow("four tables in two batches of a sink that stays open")
def test_an_alter_while_the_sink_runs_is_seen_at_the_next_batch(source: Source, lake: Lake):
    table, other = source.table("t", KEY, column(2, "v", "int")), source.table("other", KEY)
    constrained = source.table("constrained", KEY, column(2, "v", "int"))
    updated = source.table("updated", KEY, column(2, "v", "int"))
    source.commit(
        lambda t: t.insert(table, id=1, v=1),
        lambda t: t.insert(other, id=1),
        lambda t: t.insert(updated, id=1, v=1),
        lambda t: t.insert(constrained, id=1, v=1),
    )
    source.publish()
    altered: list[str] = []

    def alter_once(step: str, _path: str) -> None:
        if step != "committed" or altered:
            return
        altered.append(step)
        for name in ("t", "updated"):
            alter(lake, name, "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
            alter(lake, name, "RENAME COLUMN v TO mine")
        alter(lake, "constrained", "ADD CONSTRAINT small CHECK (v < 5)")

    sink = lake.sink(alter_once)
    try:
        sink.open()
        stream = ProgressStream(lake.spark, sink.config, source.registry.schema_by_id, sink)
        stream.catch_up(threading.Event())
        assert sink.fold_tables(threading.Event()) == 1
        source.commit(
            lambda t: t.insert(table, id=2, v=2),
            lambda t: t.insert(other, id=2),
            lambda t: t.update(updated, (1,), v=7),
            lambda t: t.update(constrained, (1,), v=7),
        )
        source.publish()
        stream.catch_up(threading.Event())
        assert sink.fold_tables(threading.Event()) == 1, "without opening the lake again"
    finally:
        sink.close()
    assert sorted(row["id"] for row in lake.rows("other")) == [1, 2]
    stopped = lake.commits()[-1]["stopped"]
    for name in ("t", "updated"):
        assert f"table shop.dbo.{name}, column v of the lake was altered by" in stopped
    assert "table shop.dbo.constrained of the lake was altered" in stopped
    assert set(lake.commits()[-1]["tables"]) == {"shop/dbo/other"}
