"""Lake tables that follow their source tables: statements, without Spark."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.table_properties import alter_statement, create_statement
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.rows.mirror_statements import merge_statement
from tailrace_sink.tables.column_identity import (
    Identity,
    known_identities,
    parse_comment,
    parse_identities,
)
from tailrace_sink.tables.lake_table import (
    Feature,
    Kind,
    LakeColumn,
    LakeTable,
    literal,
    quote,
    table_path,
)
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.schema_changes import evolve, require_plain
from tailrace_sink.tables.type_widening import Widening, widening

TABLE = TableName("shop", "dbo", "orders")


def column(column_id: int, name: str, sql_type: str, key: int = 0) -> SchemaColumn:
    return SchemaColumn(column_id, name, ColumnType.parse(sql_type), key_ordinal=key)


def version(number: int, *columns: SchemaColumn) -> TableSchema:
    return TableSchema(TABLE, "dbo_orders", Lsn(1, number, 1), columns)


FIRST = version(1, column(1, "id", "int", 1), column(2, "note", "varchar(20)"))


def as_created(schema: TableSchema) -> LakeTable:
    table = new_table(schema, Kind.MIRROR)
    return replace(table, recorded=table.identities)


def lake() -> LakeTable:
    return as_created(FIRST)


def statements(*versions: TableSchema, table: LakeTable | None = None) -> list[str]:
    """The changes, those that announce or record identities told by their kind."""
    _, found = evolve(table or lake(), versions)
    return [
        "announce"
        if text.startswith("SET TBLPROPERTIES ('tailrace.columns.pending'")
        else "record"
        if text.startswith("SET TBLPROPERTIES ('tailrace.")
        else text
        for text in found
    ]


MAPPING, WIDENING = Feature.COLUMN_MAPPING, Feature.TYPE_WIDENING


def test_create_names_types_and_identities():
    text = create_statement(lake(), "/l", {"a": "b"}, cluster_by=["id"])

    assert text.startswith(
        "CREATE TABLE IF NOT EXISTS delta.`/l` (`id` INT COMMENT 'int',"
        " `note` STRING COMMENT 'varchar(20)', `_cdc_position` BINARY COMMENT"
    )
    assert text.endswith(
        "CLUSTER BY (`id`) TBLPROPERTIES ('a' = 'b', 'tailrace.columns' ="
        ' \'{"id":[1,"int",1],"note":[2,"varchar(20)",0]}\', \'tailrace.deletes\' = \'\','
        " 'tailrace.schemaLsn' = '00000001:00000001:0001')"
    )


@pytest.mark.parametrize(
    ("feature", "name", "value"),
    [
        (Feature.COLUMN_MAPPING, "delta.columnMapping.mode", "name"),
        (Feature.TYPE_WIDENING, "delta.enableTypeWidening", "true"),
        (Feature.NO_ZONE, "delta.feature.timestampNtz", "supported"),
    ],
)
def test_a_feature_of_delta_is_a_property(feature: Feature, name: str, value: str):
    start = "ALTER TABLE delta.`/l` SET TBLPROPERTIES"
    assert alter_statement("/l", feature) == f"{start} ('{name}' = '{value}')"


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
        MAPPING,
        "announce",
        "RENAME COLUMN `note` TO `remark`",
        "announce",
        "ADD COLUMNS (`price` DECIMAL(9,2) COMMENT 'decimal(9,2)')",
        WIDENING,
        "ALTER COLUMN `id` TYPE BIGINT",
        "ALTER COLUMN `id` COMMENT 'bigint'",
        "record",
    ]


def test_a_table_is_made_ready_once_and_only_for_what_it_needs():
    ready = replace(lake(), features=frozenset(Feature))
    widened = version(2, column(1, "id", "bigint", 1), column(2, "remark", "varchar(20)"))
    no_zone = version(
        2, column(1, "id", "int", 1), column(2, "note", "varchar(20)"), column(3, "at", "datetime2")
    )

    assert MAPPING not in statements(widened, table=ready)
    assert WIDENING not in statements(widened, table=ready)
    found = statements(no_zone)
    assert not {MAPPING, WIDENING} & set(found)
    assert Feature.NO_ZONE in found
    assert Feature.NO_ZONE not in statements(no_zone, table=ready)
    spaced = version(2, *FIRST.columns, column(3, "a b", "int"))
    assert statements(spaced)[:2] == [MAPPING, "announce"]


def test_a_plain_table_refuses_what_would_make_it_less_so():
    renamed = version(2, column(1, "id", "int", 1), column(2, "remark", "varchar(20)"))
    widened = version(2, column(1, "id", "bigint", 1), column(2, "note", "varchar(20)"))
    spaced = version(2, *FIRST.columns, column(3, "a b", "int"))
    for changed, what in ((renamed, "mapping"), (widened, "widening"), (spaced, "mapping")):
        with pytest.raises(UnsupportedSchemaChange, match=what):
            evolve(lake(), [changed], stays_plain=True)
    with pytest.raises(UnsupportedSchemaChange, match="column a b: its name needs"):
        require_plain(new_table(spaced, Kind.MIRROR))


def test_comments_of_others_stay():
    of_others = replace(lake().columns[1], comment="What the customer said")
    table = replace(lake(), columns=(lake().columns[0], of_others))

    longer = version(2, column(1, "id", "int", 1), column(2, "note", "varchar(max)"))
    assert statements(longer, table=table) == ["record"]


def test_a_column_that_somebody_else_added_is_in_nobodys_way_but_its_names():
    table = replace(lake(), foreign=frozenset({"price"}))

    assert statements(FIRST, table=table) == []
    with pytest.raises(UnsupportedSchemaChange, match=r"column Price: .* has a column"):
        statements(version(2, *FIRST.columns, column(3, "Price", "int")), table=table)


def test_longer_text_changes_the_comment_only():
    found = statements(version(2, column(1, "id", "int", 1), column(2, "note", "varchar(max)")))

    assert found == ["ALTER COLUMN `note` COMMENT 'varchar(max)'", "record"]


def test_columns_that_the_publisher_masks_or_leaves_out_are_followed():
    masked = ColumnTransform(TransformKind.MASK, "***")
    note = SchemaColumn(2, "note", ColumnType("nvarchar", length=3), transform=masked, ordinal=2)
    key = replace(FIRST.columns[0], ordinal=1)

    assert not [text for text in statements(version(2, key, note)) if "TYPE" in text]
    assert statements(version(2, key)) == ["record"]
    priced = as_created(version(1, FIRST.columns[0], column(2, "note", "int")))
    with pytest.raises(UnsupportedSchemaChange, match=r"note.*tailrace snapshot"):
        evolve(priced, [version(2, key, note)])


def test_exchanged_names_go_by_way_of_a_third():
    table = as_created(
        version(1, column(1, "id", "int", 1), column(2, "a", "int"), column(3, "b", "int"))
    )
    found = statements(
        version(2, column(1, "id", "int", 1), column(2, "b", "int"), column(3, "a", "int")),
        table=table,
    )

    assert [text for text in found if "RENAME" in text] == [
        "RENAME COLUMN `a` TO `_cdc_renaming_2`",
        "RENAME COLUMN `b` TO `_cdc_renaming_3`",
        "RENAME COLUMN `_cdc_renaming_2` TO `b`",
        "RENAME COLUMN `_cdc_renaming_3` TO `a`",
    ]


def test_a_dropped_column_stays_and_makes_room_for_its_name():
    dropped = version(2, column(1, "id", "int", 1))
    again = version(3, column(1, "id", "int", 1), column(5, "note", "int"))

    assert len(statements(dropped)) == 1
    assert statements(dropped, again) == [
        MAPPING,
        "announce",
        "RENAME COLUMN `note` TO `note_dropped_2`",
        "announce",
        "ADD COLUMNS (`note` INT COMMENT 'int')",
        "record",
    ]


def test_an_older_version_neither_renames_nor_narrows():
    newer, _ = evolve(
        lake(),
        [version(3, column(1, "id", "bigint", 1), column(2, "remark", "varchar(20)"))],
    )

    assert statements(FIRST, table=newer) == []


class Catalog:
    """What Delta keeps of a table, changed by the statements as Delta changes it."""

    def __init__(self, table: LakeTable) -> None:
        self.fields = {column.name: column.type for column in table.columns}
        self.properties = {"tailrace.columns": table.recorded}

    def run(self, text: str) -> None:
        names = re.findall(r"`([^`]*)`", text)
        if text.startswith("RENAME"):
            old, new = names
            assert new.lower() not in map(str.lower, self.fields), "Spark compares without case"
            self.fields = {new if n == old else n: type_ for n, type_ in self.fields.items()}
        elif text.startswith("ADD"):
            for name, type_ in re.findall(r"`([^`]*)` (\w+)", text):
                assert name not in self.fields, "there already"
                self.fields[name] = type_
        elif " TYPE " in text:
            self.fields[names[0]] = text.rsplit(" ", 1)[1]
        elif text.startswith("SET"):
            self.properties |= dict(re.findall(r"'([^']*)' = '([^']*)'", text))

    def read(self) -> LakeTable:
        identities, must_have = known_identities(self.properties, {})
        columns = tuple(
            LakeColumn(name, *identities[name][:1], type_, *identities[name][1:])
            for name, type_ in self.fields.items()
        )
        assert must_have <= {c.column_id for c in columns}, "none is missing"
        recorded = self.properties["tailrace.columns"]
        lsn = self.properties.get("tailrace.schemaLsn", str(Lsn(1, 1, 1)))
        return LakeTable(TABLE, Kind.MIRROR, columns, lsn, recorded=recorded)


@pytest.mark.parametrize(
    "target",
    [
        version(2, column(1, "id", "bigint", 1), column(2, "b", "int"), column(3, "a", "int")),
        version(2, column(1, "id", "int", 1), column(3, "a", "int"), column(4, "b", "int")),
        version(2, column(1, "a", "int", 1), column(2, "id", "bigint"), column(9, "c", "int")),
        version(2, column(1, "ID", "int", 1), column(2, "A", "int"), column(3, "b", "int")),
    ],
    ids=["exchanged", "dropped and its name taken", "key renamed", "renamed by case"],
)
def test_after_every_prefix_of_the_statements_the_rest_follows(target: TableSchema):
    """A crash between two ALTERs: what the table has is read back and followed again."""
    table = as_created(
        version(1, column(1, "id", "int", 1), column(2, "a", "int"), column(3, "b", "int"))
    )
    after, every = evolve(table, [target])
    for done in range(len(every) + 1):
        catalog = Catalog(table)
        for statement in every[:done]:
            catalog.run(statement)
        again, rest = evolve(catalog.read(), [target])
        for statement in rest:
            catalog.run(statement)
        assert {c.column_id: c for c in again.columns} == {c.column_id: c for c in after.columns}
        assert catalog.read().identities == again.identities
        assert catalog.properties["tailrace.columns.pending"] == ""


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (
            version(2, column(1, "id", "int", 1), column(2, "note", "int")),
            "column note.*became int",
        ),
        (version(2, column(1, "id", "int"), column(2, "note", "varchar(20)", 1)), "key changed"),
        (
            version(2, column(1, "id", "int", 1), column(2, "ID", "int")),
            "cannot distinguish it from id",
        ),
        (
            version(2, column(1, "id", "int", 1), column(2, "_CDC_op", "int")),
            "reserved for the sink",
        ),
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


def test_iceberg_widens_what_it_promotes_and_no_more():
    few = replace(lake(), has_few_widenings=True, features=frozenset(Feature))
    wider = version(2, column(1, "id", "bigint", 1), column(2, "note", "varchar(20)"))
    price = column(3, "price", "decimal(9,2)")
    with_price = evolve(few, [version(2, *FIRST.columns, price)])[0]
    longer = version(3, *FIRST.columns, column(3, "price", "decimal(12,2)"))
    finer = version(3, *FIRST.columns, column(3, "price", "decimal(12,4)"))

    assert "ALTER COLUMN `id` TYPE BIGINT" in evolve(few, [wider])[1]
    assert "ALTER COLUMN `price` TYPE DECIMAL(12,2)" in evolve(with_price, [longer])[1]
    as_delta = replace(with_price, has_few_widenings=False)
    assert "ALTER COLUMN `price` TYPE DECIMAL(12,4)" in evolve(as_delta, [finer])[1]
    with pytest.raises(UnsupportedSchemaChange, match=r"became decimal\(12,4\)"):
        evolve(with_price, [finer])
    for wanted in ("float", "decimal(20,0)"):
        changed = version(2, FIRST.columns[0], column(2, "n", "int"))
        known = replace(as_created(changed), has_few_widenings=True, features=frozenset(Feature))
        with pytest.raises(UnsupportedSchemaChange, match="cannot be widened"):
            evolve(known, [version(3, FIRST.columns[0], column(2, "n", wanted))])


def test_identities_round_trip_and_those_in_comments_are_taken_over():
    assert parse_identities(lake().identities) == {c.name: c.identity for c in lake().columns}
    assert parse_identities(None) == {}
    with pytest.raises(ValueError, match="Expecting value"):
        parse_identities("mine")
    assert parse_comment("int; column_id=1; key=2") == Identity(1, "int", 2)
    assert parse_comment("the user's own words") is None
    assert parse_comment(None) is None
    comments = {"id": "int; column_id=1; key=1", "mine": "a note", "x": None}
    assert known_identities({}, comments) == ({"id": Identity(1, "int", 1)}, frozenset({1}))


def test_paths_and_names_cannot_break_out():
    assert table_path(TableName("a/b", "d.e", "..")) == "a_x002F_b/d_x002E_e/_x002E__x002E_"
    assert quote("a`b") == "`a``b`"
    assert literal("it's \\") == "'it\\'s \\\\'"


def test_merge_guards_by_position_and_names_every_column():
    text = merge_statement("t", "v", lake(), [], DeleteMode.HARD)

    assert "t.`id` <=> s.`id`" in text
    assert "s._cdc_op = 'd' AND (t._cdc_position IS NULL OR s._cdc_position > t" in text
    assert (
        "INSERT (`id`, `note`, `_cdc_position`, `_cdc_lsn`, `_cdc_op`, `_cdc_commit_time`)" in text
    )


def test_merge_with_soft_deletes_never_deletes():
    assert "DELETE" not in merge_statement("t", "v", lake(), [], DeleteMode.SOFT)


def test_a_whole_table_takes_away_what_it_does_not_have():
    cut = "00000001:00000009:0001"
    hard = merge_statement("t", "v", lake(), [], DeleteMode.HARD, cut)
    soft = merge_statement("t", "v", lake(), [], DeleteMode.SOFT, cut)

    assert hard.endswith("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert "DELETE" not in soft
    assert (
        f"BY SOURCE AND t._cdc_op <> 'd' THEN UPDATE SET _cdc_op = 'd', _cdc_lsn = '{cut}'" in soft
    )
    assert "BY SOURCE" not in merge_statement("t", "v", lake(), [], DeleteMode.HARD)


def test_merge_keeps_what_a_change_does_not_carry():
    text = merge_statement("t", "v", lake(), ["note"], DeleteMode.HARD)

    assert "t.`note` = CASE WHEN s._cdc_available_0 THEN s.`note` ELSE t.`note` END" in text
