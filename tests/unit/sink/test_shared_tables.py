"""Lake tables with several sources: names, columns and statements, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import (
    SNAPSHOT_HELPS,
    ConfigError,
    LakeTableChanged,
    UnsupportedSchemaChange,
)
from tailrace_sink.fold.table_batch import TableBatch, TableBatches, elsewhere, left_behind
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.decode import column_expressions
from tailrace_sink.rows.mirror_statements import merge_statement
from tailrace_sink.tables.lake_table import Kind, LakeTable
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import ORIGIN, in_shared_table, not_from
from tailrace_sink.tables.schema_changes import evolve
from tests.least_options import LEAST_OF_SINK

LAKE = TableName("shop", "all", "orders")
A, B = TableName("shop", "t1", "orders"), TableName("shop", "t'2", "orders")


def column(column_id: int, name: str, sql_type: str, key: int = 0) -> SchemaColumn:
    return SchemaColumn(column_id, name, ColumnType.parse(sql_type), key_ordinal=key)


def version(source: TableName, number: int, *columns: SchemaColumn) -> TableSchema:
    return TableSchema(source, "orders", Lsn(1, number, 1), columns)


OF_A = version(A, 9, column(1, "id", "int", 1), column(2, "note", "varchar(20)"))


def shared(first: TableSchema = OF_A) -> LakeTable:
    table = new_table(in_shared_table(first, LAKE), Kind.MIRROR)
    return replace(table, recorded=table.identities)


def followed(table: LakeTable, schema: TableSchema) -> tuple[LakeTable, list[str]]:
    table = replace(table, origin=schema.table)
    return evolve(table, [in_shared_table(schema, LAKE)])


def test_a_rule_chooses_the_lake_table_and_the_first_counts():
    rules = SharedTables({r"t\d+\.orders": "all.orders", r"t\d+\..*": "all.rest"})
    assert rules.lake_table(A) == LAKE
    assert rules.lake_table(TableName("shop", "T1", "Items")) == TableName("shop", "all", "rest")
    assert rules.lake_table(B) == B
    assert rules.is_taken(TableName("shop", "all", "rest"))
    assert rules.sources(LAKE, [B, A]) == [A]


@pytest.mark.parametrize("into", ["orders", "a.b.c", ".orders", "all."])
def test_a_name_that_is_no_schema_and_table_is_refused(into: str):
    options = {
        **LEAST_OF_SINK,
        "into": {".*": into},
    }
    with pytest.raises(ConfigError, match=r"use schema\.table"):
        SinkConfig.load(options)


def test_the_origin_begins_the_key():
    table = shared()
    assert table.key == (*ORIGIN, "id")
    assert table.is_shared
    assert table.path == "shop/all/orders"
    expressions = column_expressions(table, version(B, 1, column(4, "id", "int", 1)))
    assert "'t\\'2' AS `_cdc_schema`" in expressions
    assert "CAST(image.`id` AS INT) AS `id`" in expressions
    assert "CAST(NULL AS STRING) AS `note`" in expressions, "whatever the ids are"


def test_columns_are_those_of_all_sources_by_name():
    # Its ids are others, it is older, lacks a column, and has one more.
    of_b = version(B, 2, column(2, "ID", "int", 1), column(1, "extra", "int"))
    table, statements = followed(shared(), of_b)
    assert [c.name for c in table.columns] == [*ORIGIN, "id", "note", "extra"]
    assert table.dropped == frozenset()
    assert not [s for s in statements if "RENAME" in s]
    again, statements = followed(table, version(A, 10, *OF_A.columns[:1]))
    assert again.columns == table.columns
    assert again.dropped == frozenset(), "a column that one source lacks is not gone"


def test_a_wider_type_widens_and_a_large_one_is_large_for_all():
    of_b = version(B, 2, column(1, "id", "bigint", 1), column(2, "note", "varchar(max)"))
    table, statements = followed(shared(), of_b)
    assert [s for s in statements if "ALTER COLUMN `id` TYPE BIGINT" in s]
    assert next(c for c in table.columns if c.name == "note").is_large
    back, statements = followed(table, OF_A)
    assert next(c for c in back.columns if c.name == "note").is_large
    assert statements == []


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ([column(1, "id", "int", 1), column(2, "note", "int")], "column note: its type became int"),
        ([column(1, "id", "int", 1), column(2, "note", "varchar(9)", 2)], r"key \(id, note\)"),
        ([column(1, "id", "int")], r"key \(none\) is not that of the lake table shop.all.orders"),
        ([column(1, "id", "int", 1), column(2, "_cdc_table", "int")], "reserved for the sink"),
    ],
)
def test_what_does_not_agree_names_the_source(columns: list[SchemaColumn], text: str):
    with pytest.raises(UnsupportedSchemaChange, match=text) as refused:
        followed(shared(), version(A, 12, *columns))
    if "reserved" not in text:
        assert "table shop.t1.orders" in str(refused.value)
        assert "sink.into" in str(refused.value)


def test_what_a_snapshot_lacks_is_deleted_from_its_own_rows_alone():
    table = replace(shared(), origin=B)
    merge = merge_statement("t", "v", table, [], DeleteMode.HARD, str(Lsn(1, 1, 1)))
    own = "t._cdc_database = 'shop' AND t._cdc_schema = 't\\'2' AND t._cdc_table = 'orders'"
    assert f"WHEN NOT MATCHED BY SOURCE AND {own} THEN DELETE" in merge


def batch(lake: TableName = LAKE, **more: Any) -> TableBatch:
    found = TopicRange(f"p.{A.path.replace('/', '.')}", {}, 1, frozenset(), **more)
    return TableBatch(A, lake, found, ())


def test_a_source_with_rows_elsewhere_stops_until_its_snapshot():
    own = SinkState(versions={A.path: 3})
    stopped, leaving = elsewhere([batch()], own)
    (error,) = stopped.values()
    assert f"its rows are in the lake's {A.path}, and sink.into says {LAKE.path}" in str(error)
    assert "(tailrace snapshot)" in str(error), "so the sink requests it"
    assert elsewhere([batch(whole_from={})], own) == ({}, [])
    assert leaving == []
    assert elsewhere([batch()], SinkState()) == ({}, []), "a new one"

    shared_before = SinkState(homes={A.path: "shop/all/rest"}, versions={"shop/all/rest": 1})
    assert list(elsewhere([batch()], shared_before)[0]) == [batch().topic]
    snapshot = batch(whole_from={})
    assert elsewhere([snapshot], shared_before) == ({}, [(snapshot, "shop/all/rest")])
    back = batch(A, is_part=True)
    assert elsewhere([back], shared_before) == ({}, [(back, "shop/all/rest")])
    begun = replace(
        shared_before, held={back.topic: replace(back.topic_range, rest=back.topic_range)}
    )
    assert list(elsewhere([back], begun)[0]) == [back.topic], "its first parts are elsewhere"


def test_quiet_sources_with_rows_elsewhere_are_found_when_the_sink_starts():
    names, rules = TopicNames("p"), SharedTables({r"t1\..*": "all.orders"})
    topic = names.data(A)
    before = SinkState(versions={A.path: 3}, offsets={topic: {0: 5}})
    assert list(left_behind(before, names, rules, [])) == [topic]
    assert left_behind(before, names, rules, [batch()]) == {}, "this one is not quiet"
    assert left_behind(before, names, SharedTables(), []) == {}
    moved = replace(before, homes={A.path: LAKE.path}, versions={LAKE.path: 1})
    assert left_behind(moved, names, rules, []) == {}
    assert list(left_behind(moved, names, SharedTables(), [])) == [topic]


def test_a_source_table_with_the_name_of_a_shared_one_stops():
    schemas = {1: envelope_schema("p", version(LAKE, 1, column(1, "id", "int", 1)))}
    rules = SharedTables({r"t1\..*": "all.orders"})
    batches = TableBatches(TopicNames("p"), lambda _: True, schemas.__getitem__, rules)
    topic = TopicNames("p").data(LAKE)
    found, stopped = batches.of([TopicRange(topic, {0: (0, 1)}, 1, frozenset({1}))])
    assert found == []
    assert "use a name there that no source table has" in str(stopped[topic])


def test_sources_outside_of_the_cut_are_left_out_of_their_table():
    state = SinkState(
        homes={A.path: LAKE.path, B.path: LAKE.path, "shop/dbo/x": "shop/dbo/x"},
        stopped={"a.prefix.shop.t1.orders": "why", "a.prefix.shop.dbo.x": "why"},
    )
    assert state.left_out == {LAKE.path: frozenset({A})}
    assert not_from(state.left_out[LAKE.path]) == (
        "NOT (_cdc_database = 'shop' AND _cdc_schema = 't1' AND _cdc_table = 'orders')"
    )


def test_a_shared_table_that_was_altered_asks_for_no_snapshot_of_one_source():
    alone = LakeTableChanged("shop.t1.orders", "v", "it was dropped")
    assert "(tailrace snapshot), which replaces it" in str(alone)
    shared = LakeTableChanged("shop.all.orders", "v", "it was dropped", is_shared=True)
    assert "each of its source tables" in str(shared)
    assert SNAPSHOT_HELPS not in str(shared), "the sink would request it again and again"
