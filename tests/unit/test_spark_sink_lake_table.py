"""Lake tables that follow their source tables: statements, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace_schemas.envelope import SchemaColumn, TableSchema
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.topics import TableName
from tailrace_schemas.types import ColumnType
from tailrace_sink.apply import merge_statement
from tailrace_sink.config import DeleteMode
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.lake_table import (
    LakeTable,
    create_statement,
    evolve,
    literal,
    new_table,
    parse_comment,
    quote,
    table_path,
)
from tailrace_sink.type_widening import Widening, widening

TABLE = TableName("shop", "dbo", "orders")


def column(column_id: int, name: str, sql_type: str, key: int = 0) -> SchemaColumn:
    return SchemaColumn(column_id, name, ColumnType.parse(sql_type), key_ordinal=key)


def version(number: int, *columns: SchemaColumn) -> TableSchema:
    return TableSchema(TABLE, "dbo_orders", Lsn(1, number, 1), columns)


FIRST = version(1, column(1, "id", "int", 1), column(2, "note", "varchar(20)"))


def lake() -> LakeTable:
    return new_table(FIRST, is_changes=False)


def statements(*versions: TableSchema, table: LakeTable | None = None) -> list[str]:
    _, found = evolve(table or lake(), versions, "/l")
    return [text.removeprefix("ALTER TABLE delta.`/l` ") for text in found]


def test_create_names_types_and_identities():
    text = create_statement(lake(), "/l", {"a": "b"}, cluster_by=["id"])

    assert text.startswith(
        "CREATE TABLE IF NOT EXISTS delta.`/l` (`id` INT COMMENT 'int; column_id=1; key=1',"
        " `note` STRING COMMENT 'varchar(20); column_id=2', `_cdc_position` BINARY COMMENT"
    )
    assert text.endswith(
        "CLUSTER BY (`id`) TBLPROPERTIES ('a' = 'b', 'tailrace.schemaLsn' ="
        " '00000001:00000001:0001')"
    )


def test_the_same_version_changes_nothing():
    assert statements(FIRST) == []


def test_added_widened_and_renamed():
    found = statements(
        version(
            2,
            column(1, "id", "bigint", 1),
            column(2, "remark", "varchar(20)"),
            column(3, "price", "decimal(9,2)"),
        )
    )

    assert found == [
        "RENAME COLUMN `note` TO `remark`",
        "ALTER COLUMN `id` TYPE BIGINT",
        "ALTER COLUMN `id` COMMENT 'bigint; column_id=1; key=1'",
        "ADD COLUMNS (`price` DECIMAL(9,2) COMMENT 'decimal(9,2); column_id=3')",
        "SET TBLPROPERTIES ('tailrace.schemaLsn' = '00000001:00000002:0001')",
    ]


def test_longer_text_changes_the_comment_only():
    found = statements(version(2, column(1, "id", "int", 1), column(2, "note", "varchar(max)")))

    assert found[:-1] == ["ALTER COLUMN `note` COMMENT 'varchar(max); column_id=2'"]


def test_exchanged_names_go_by_way_of_a_third():
    table = new_table(
        version(1, column(1, "id", "int", 1), column(2, "a", "int"), column(3, "b", "int")),
        is_changes=False,
    )
    found = statements(
        version(2, column(1, "id", "int", 1), column(2, "b", "int"), column(3, "a", "int")),
        table=table,
    )

    assert found[:-1] == [
        "RENAME COLUMN `a` TO `_cdc_renaming_2`",
        "RENAME COLUMN `b` TO `_cdc_renaming_3`",
        "RENAME COLUMN `_cdc_renaming_2` TO `b`",
        "RENAME COLUMN `_cdc_renaming_3` TO `a`",
    ]


def test_a_dropped_column_stays_and_makes_room_for_its_name():
    dropped = version(2, column(1, "id", "int", 1))
    again = version(3, column(1, "id", "int", 1), column(5, "note", "int"))

    assert len(statements(dropped)) == 1
    assert statements(dropped, again)[:-1] == [
        "RENAME COLUMN `note` TO `note_dropped_2`",
        "ADD COLUMNS (`note` INT COMMENT 'int; column_id=5')",
    ]


def test_an_older_version_neither_renames_nor_narrows():
    newer, _ = evolve(
        lake(),
        [version(3, column(1, "id", "bigint", 1), column(2, "remark", "varchar(20)"))],
        "/l",
    )

    assert statements(FIRST, table=newer) == []


def test_every_prefix_of_the_statements_leads_to_the_same_table():
    """A crash between two ALTERs: the table is read back by its comments and followed again."""
    target = version(
        2,
        column(1, "id", "bigint", 1),
        column(2, "b", "varchar(20)"),
        column(3, "a", "int"),
    )
    table = new_table(
        version(1, column(1, "id", "int", 1), column(2, "a", "varchar(20)")), is_changes=False
    )
    after, _ = evolve(table, [target], "/l")
    renamed = replace(
        table,
        columns=(table.columns[0], replace(table.columns[1], name="b")),
    )
    again, rest = evolve(renamed, [target], "/l")

    assert again == after
    assert not any("RENAME" in text for text in rest)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (
            version(2, column(1, "id", "int", 1), column(2, "note", "int")),
            "column note.*became int",
        ),
        (version(2, column(1, "id", "int"), column(2, "note", "varchar(20)", 1)), "key changed"),
        (version(2, column(1, "id", "int", 1), column(2, "ID", "int")), "does not tell it from id"),
        (version(2, column(1, "id", "int", 1), column(2, "_CDC_op", "int")), "the sink's own"),
    ],
)
def test_what_the_lake_cannot_follow_is_named(changed: TableSchema, match: str):
    with pytest.raises(UnsupportedSchemaChange, match=match) as raised:
        statements(changed)
    assert str(raised.value).startswith("table shop.dbo.orders")


@pytest.mark.parametrize(
    ("present", "wanted", "outcome"),
    [
        ("INT", "INT", Widening.HOLDS),
        ("BIGINT", "SMALLINT", Widening.HOLDS),
        ("SMALLINT", "INT", Widening.WIDENS),
        ("INT", "DOUBLE", Widening.WIDENS),
        ("BIGINT", "DOUBLE", Widening.REFUSED),
        ("FLOAT", "DOUBLE", Widening.WIDENS),
        ("INT", "DECIMAL(12,2)", Widening.WIDENS),
        ("INT", "DECIMAL(11,2)", Widening.REFUSED),
        ("BIGINT", "DECIMAL(20,0)", Widening.WIDENS),
        ("DECIMAL(10,2)", "DECIMAL(18,4)", Widening.WIDENS),
        ("DECIMAL(18,4)", "DECIMAL(10,2)", Widening.HOLDS),
        ("DECIMAL(10,2)", "DECIMAL(10,4)", Widening.REFUSED),
        ("DATE", "TIMESTAMP_NTZ", Widening.WIDENS),
        ("STRING", "INT", Widening.REFUSED),
        ("BOOLEAN", "INT", Widening.REFUSED),
    ],
)
def test_widening(present: str, wanted: str, outcome: Widening):
    assert widening(present, wanted) is outcome


def test_comments_round_trip():
    for found in lake().columns:
        assert parse_comment(found.comment) == (
            found.sql_type,
            found.column_id,
            found.key_ordinal,
        )
    assert parse_comment("the user's own words") is None
    assert parse_comment(None) is None


def test_paths_and_names_cannot_break_out():
    assert table_path(TableName("a/b", "d.e", "..")) == "a_x002F_b/d_x002E_e/_x002E__x002E_"
    assert quote("a`b") == "`a``b`"
    assert literal("it's \\") == "'it\\'s \\\\'"


def test_merge_guards_by_position_and_names_every_column():
    text = merge_statement("/l", "v", lake(), [], DeleteMode.HARD)

    assert "t.`id` <=> s.`id`" in text
    assert "s._cdc_op = 'd' AND (t._cdc_position IS NULL OR s._cdc_position > t" in text
    assert (
        "INSERT (`id`, `note`, `_cdc_position`, `_cdc_lsn`, `_cdc_op`, `_cdc_commit_time`)" in text
    )


def test_merge_with_soft_deletes_never_deletes():
    assert "DELETE" not in merge_statement("/l", "v", lake(), [], DeleteMode.SOFT)


def test_a_whole_table_takes_away_what_it_does_not_have():
    cut = "00000001:00000009:0001"
    hard = merge_statement("/l", "v", lake(), [], DeleteMode.HARD, cut)
    soft = merge_statement("/l", "v", lake(), [], DeleteMode.SOFT, cut)

    assert hard.endswith("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert "DELETE" not in soft
    assert (
        f"BY SOURCE AND t._cdc_op <> 'd' THEN UPDATE SET _cdc_op = 'd', _cdc_lsn = '{cut}'" in soft
    )
    assert "BY SOURCE" not in merge_statement("/l", "v", lake(), [], DeleteMode.HARD)


def test_merge_keeps_what_a_change_does_not_carry():
    text = merge_statement("/l", "v", lake(), ["note"], DeleteMode.HARD)

    assert "t.`note` = CASE WHEN s._cdc_available_0 THEN s.`note` ELSE t.`note` END" in text
