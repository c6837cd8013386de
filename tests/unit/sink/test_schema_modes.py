"""How a lake table follows its source in each schema mode, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import SNAPSHOT_HELPS, SchemaChangeRefused, UnsupportedSchemaChange
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.table_options import SchemaMode
from tailrace_sink.tables.lake_table import LakeTable
from tailrace_sink.tables.schema_changes import evolve
from tailrace_sink.tables.schema_record import record_of
from tests.unit.sink.test_config import MINIMAL
from tests.unit.sink.test_lake_table import FIRST, Catalog, as_created, column, lake, version

ID, NOTE = FIRST.columns
ADDED = version(2, ID, NOTE, column(3, "price", "int"))
DROPPED = version(2, ID)
RENAMED = version(2, ID, column(2, "remark", "varchar(20)"))
LONGER = version(2, ID, column(2, "note", "varchar(max)"))
WIDENED = version(2, column(1, "id", "bigint", 1), NOTE)
RETYPED = version(2, ID, column(2, "note", "int"))
NEW_KEY = version(2, column(1, "id", "int"), column(2, "note", "varchar(20)", 1))


def followed(
    mode: SchemaMode, *versions: TableSchema, table: LakeTable | None = None
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Columns with their types, and what the record says, after a batch 7."""
    found, _ = evolve(table or lake(), versions, mode=mode, batch=7)
    columns = {c.name: c.type for c in found.columns}
    changes = [(c["change"], c["column"]) for c in record_of(found.schema_record, 7)]
    return columns, changes


@pytest.mark.parametrize(
    ("target", "columns", "changes"),
    [
        (ADDED, {"id": "INT", "note": "STRING", "price": "INT"}, [("added", "price")]),
        (DROPPED, {"id": "INT", "note": "STRING"}, [("dropped", "note")]),
        (RENAMED, {"id": "INT", "remark": "STRING"}, [("renamed", "remark")]),
        (LONGER, {"id": "INT", "note": "STRING"}, [("retyped", "note")]),
        (WIDENED, {"id": "BIGINT", "note": "STRING"}, [("retyped", "id")]),
        (FIRST, {"id": "INT", "note": "STRING"}, []),
    ],
)
def test_evolve_and_lenient_follow_what_fits(
    target: TableSchema, columns: dict[str, str], changes: list[tuple[str, str]]
):
    for mode in (SchemaMode.EVOLVE, SchemaMode.LENIENT):
        assert followed(mode, target) == (columns, changes)


@pytest.mark.parametrize(
    ("target", "column_name", "change"),
    [
        (ADDED, "price", "was added"),
        (DROPPED, "note", "was dropped"),
        (RENAMED, "note", "was renamed to remark"),
        (WIDENED, "id", "its type became bigint"),
        (RETYPED, "note", r"its type became int \(it was varchar\(20\)\)"),
        (NEW_KEY, "", "its key changed"),
    ],
)
def test_fail_names_what_changed_and_the_way_on(target: TableSchema, column_name: str, change: str):
    with pytest.raises(SchemaChangeRefused, match=change) as raised:
        followed(SchemaMode.FAIL, target)

    assert raised.value.column == column_name
    text = str(raised.value)
    assert text.startswith("table shop.dbo.orders")
    assert "sink.schema_modes" in text
    assert "tailrace snapshot 'dbo.orders'" in text
    assert SNAPSHOT_HELPS not in text  # the sink would request one, which changes nothing


def test_fail_follows_what_the_table_holds_and_what_was_dropped_before():
    assert followed(SchemaMode.FAIL, LONGER)[0] == {"id": "INT", "note": "STRING"}
    dropped, _ = evolve(lake(), [DROPPED])
    captured_again = replace(DROPPED, schema_lsn=version(3).schema_lsn)
    assert followed(SchemaMode.FAIL, captured_again, table=dropped)[1] == []
    assert followed(SchemaMode.EVOLVE, captured_again, table=dropped)[1] == []


def test_ignore_keeps_columns_and_names_and_records_what_it_left():
    both = version(2, ID, column(2, "remark", "varchar(20)"), column(3, "_cdc_x", "int"))
    columns, changes = followed(SchemaMode.IGNORE, both)

    assert columns == {"id": "INT", "note": "STRING"}
    assert changes == [("ignored", "note"), ("ignored", "_cdc_x")]
    assert followed(SchemaMode.IGNORE, DROPPED)[1] == [("dropped", "note")]
    again, _ = evolve(lake(), [both], mode=SchemaMode.IGNORE, batch=7)
    assert evolve(again, [both], mode=SchemaMode.IGNORE, batch=8)[1] == []
    for target in (WIDENED, RETYPED, NEW_KEY):
        with pytest.raises(UnsupportedSchemaChange):
            followed(SchemaMode.IGNORE, target)


def test_evolve_after_ignore_takes_what_was_left():
    changed = version(2, ID, column(2, "remark", "varchar(20)"), column(3, "price", "int"))
    left, _ = evolve(lake(), [changed], mode=SchemaMode.IGNORE)

    columns, changes = followed(SchemaMode.EVOLVE, changed, table=left)

    assert columns == {"id": "INT", "remark": "STRING", "price": "INT"}
    assert changes == [("renamed", "remark"), ("added", "price")]


def test_lenient_keeps_the_values_of_a_type_that_does_not_fit():
    third = version(3, ID, column(2, "note", "date"))
    columns, changes = followed(SchemaMode.LENIENT, RETYPED, third)

    assert columns == {"id": "INT", "note_old_1": "STRING", "note_old_2": "INT", "note": "DATE"}
    assert sorted(changes) == [
        ("retired", "note_old_1"),
        ("retired", "note_old_2"),
        ("retyped", "note"),
    ]
    table, _ = evolve(lake(), [RETYPED, third], mode=SchemaMode.LENIENT)
    holders = [table.holder_of(of.columns[1]) for of in (FIRST, RETYPED, third)]
    assert [h.name for h in holders if h is not None] == ["note_old_1", "note_old_2", "note"]


def test_lenient_makes_room_for_an_older_type_than_the_tables():
    newer = as_created(version(3, ID, column(2, "note", "int")))

    columns, changes = followed(SchemaMode.LENIENT, FIRST, table=newer)

    assert columns == {"id": "INT", "note": "INT", "note_old_1": "STRING"}
    assert changes == [("retired", "note_old_1")]


def test_a_key_is_never_retired():
    with pytest.raises(UnsupportedSchemaChange, match="column id: its type became varchar"):
        followed(SchemaMode.LENIENT, version(2, column(1, "id", "varchar(9)", 1), NOTE))
    with pytest.raises(UnsupportedSchemaChange, match="key changed"):
        followed(SchemaMode.LENIENT, NEW_KEY)


def test_a_retirement_that_breaks_off_anywhere_is_completed():
    target = version(2, ID, column(2, "remark", "int"), column(3, "note", "int"))
    after, every = evolve(lake(), [target], mode=SchemaMode.LENIENT, batch=7)
    for done in range(len(every) + 1):
        catalog = Catalog(lake())
        for statement in every[:done]:
            catalog.run(statement)
        again, rest = evolve(catalog.read(), [target], mode=SchemaMode.LENIENT, batch=7)
        for statement in rest:
            catalog.run(statement)
        assert {c.column_id: c for c in again.columns} == {c.column_id: c for c in after.columns}
        assert catalog.read().identities == again.identities
        record = record_of(catalog.properties["tailrace.schemaChanges"], 7)
        assert sorted(map(str, record)) == sorted(map(str, record_of(after.schema_record, 7)))


def test_the_first_matching_pattern_chooses_the_mode():
    config = SinkConfig.load(
        {
            **MINIMAL,
            "schema_mode": "lenient",
            "schema_modes": {r"dbo\.ord.*": "fail", r"dbo\..*": "ignore"},
        }
    )
    tables = {"orders": "fail", "other": "ignore"}
    assert {t: config.schema_mode_of(TableName("shop", "dbo", t)) for t in tables} == tables
    assert config.schema_mode_of(TableName("shop", "x", "orders")) is SchemaMode.LENIENT
