"""Names of the source are data everywhere, and masked columns are followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import CDC_COLUMNS, quote
from tests.envelopes.source import Source
from tests.envelopes.tables import DATABASE, column
from tests.sink.both_readers import assert_same_cut
from tests.sink.conftest import Lake
from tests.sink.stories import Stories, Story

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NAMES = ("a]b'c\"d`e/../../y %2F?#$HOME", "..", "SELECT", "Tâble 漢 😀\nend\x1b[2J")
COLUMNS = (
    "a]b'c\"d",
    "`tick``s`",
    "dot.ted",
    "SELECT",
    "*",
    "$x {y} \\",
    "<b>\n",
    "漢字 😀",
    "c" * 128,
)
shared = Stories()


@shared
def test_every_name_is_data_in_the_lake(source: Source, lake: Lake) -> Story:
    odd = [column(number + 2, name, "int") for number, name in enumerate(COLUMNS)]
    tables = [source.table(name, column(1, "the key; `", "int", key=1), *odd) for name in NAMES]
    values = {name: number for number, name in enumerate(COLUMNS)}
    for key in (1, 2):
        for table in tables:
            source.commit(
                lambda t, table=table, key=key: t.insert(table, **{"the key; `": key}, **values)
            )
    yield
    for table in tables:
        source.commit(lambda t, table=table: t.update(table, (1,), **{COLUMNS[0]: 77}))
        source.commit(lambda t, table=table: t.delete(table, (2,)))
    yield

    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    views = cut.create_views("v_")
    found = {name for name in cut.tables if name.table != "people"}  # the next story's
    assert found == {TableName(DATABASE, "dbo", name) for name in NAMES}
    assert len(set(views.values())) == len(views)
    wanted = {"the key; `": 1, **values, COLUMNS[0]: 77}
    for table in tables:
        assert_same_cut(cut, table.name)
        shown = lake.spark.sql(f"SELECT * FROM {quote(views[table.name])}")
        for frame in (cut.read(table.name), shown):
            (row,) = frame.select(
                *(quote(name) for name in frame.columns if name not in CDC_COLUMNS)
            ).collect()
            assert row.asDict() == wanted
    inside = {path.name for path in lake.path.iterdir()}
    assert inside == {"lake"}, "no name leads out of the lake"


@shared
def test_columns_that_are_masked_and_left_out_from_now_on(source: Source, lake: Lake) -> Story:
    key, note = column(1, "id", "int", key=1), column(2, "note", "nvarchar(20)")
    mail, body = column(3, "mail", "varchar(20)"), column(4, "body", "nvarchar(max)")
    table = source.table("people", key, note, mail, body)
    source.commit(
        *(lambda t, n=n: t.insert(table, id=n, note="n", mail="m", body="b") for n in (1, 2, 3))
    )
    yield

    masked = ColumnTransform(TransformKind.MASK, "***")
    source.alter(
        table,
        replace(key, ordinal=1),
        replace(note, type=ColumnType("nvarchar", length=3), transform=masked, ordinal=2),
        replace(body, type=ColumnType("nvarchar", length=MAX), transform=masked, ordinal=4),
    )
    source.placeholder = "not here"
    table.rows[5,] = {"id": 5, "note": "***", "body": "before there was a topic"}
    source.commit(
        lambda t: t.update(table, (1,), note="***"),  # body is unavailable
        lambda t: t.update(table, (5,), note="***"),  # and the lake has no row
        lambda t: t.update(table, (2,), note="***", body="***"),
        lambda t: t.insert(table, id=4, note="***", body=None),
    )
    yield

    rows = {row["id"]: (row["note"], row["body"]) for row in lake.rows("people")}
    assert rows == {
        1: ("***", "b"),
        2: ("***", "***"),
        3: ("n", "b"),
        4: ("***", None),
        5: ("***", None),
    }
    mails = {row["id"]: row["mail"] for row in lake.rows("people")}
    assert mails == {1: None, 2: None, 3: "m", 4: None, 5: None}
