"""Lake tables with several sources: names, columns and statements, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ConfigError, UnsupportedSchemaChange
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.rows.decode import column_expressions
from tailrace_sink.rows.mirror_statements import merge_statement
from tailrace_sink.tables.lake_table import Kind, LakeTable
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import ORIGIN, in_shared_table, not_from
from tailrace_sink.tables.schema_changes import evolve

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
    return evolve(table, [in_shared_table(schema, LAKE)], "/l")


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
        "kafka": {"bootstrap": "k:1"},
        "registry": {"url": "http://r"},
        "prefix": "p",
        "lake": "/l",
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
    merge = merge_statement("/l", "v", table, [], DeleteMode.HARD, str(Lsn(1, 1, 1)))
    own = "t._cdc_database = 'shop' AND t._cdc_schema = 't\\'2' AND t._cdc_table = 'orders'"
    assert f"WHEN NOT MATCHED BY SOURCE AND {own} THEN DELETE" in merge


def test_sources_outside_of_the_cut_are_left_out_of_their_table():
    state = SinkState(
        homes={A.path: LAKE.path, B.path: LAKE.path, "shop/dbo/x": "shop/dbo/x"},
        stopped={"a.prefix.shop.t1.orders": "why", "a.prefix.shop.dbo.x": "why"},
    )
    assert state.left_out == {LAKE.path: frozenset({A})}
    assert not_from(state.left_out[LAKE.path]) == (
        "NOT (_cdc_database = 'shop' AND _cdc_schema = 't1' AND _cdc_table = 'orders')"
    )
