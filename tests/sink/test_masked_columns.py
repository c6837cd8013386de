"""A lake table goes on when the publisher begins to mask, cut or leave out its columns."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tests.fix_envelopes import Source, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def source(kafka: str, registry: str) -> Iterator[Source]:
    """With a prefix that has dots and underscores."""
    source = Source(kafka, registry, prefix=f"shop_eu.t{uuid.uuid4().hex[:8]}")
    yield source
    source.close()


def test_columns_that_are_masked_and_left_out_from_now_on(source: Source, lake: Lake):
    key, note = column(1, "id", "int", key=1), column(2, "note", "nvarchar(20)")
    mail, body = column(3, "mail", "varchar(20)"), column(4, "body", "nvarchar(max)")
    table = source.table("people", key, note, mail, body)
    source.commit(
        *(lambda t, n=n: t.insert(table, id=n, note="n", mail="m", body="b") for n in (1, 2, 3))
    )
    source.publish()
    assert lake.catch_up() == 1

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
    source.publish()
    assert lake.catch_up() == 1

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
