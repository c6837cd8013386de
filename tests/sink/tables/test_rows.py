"""What becomes of rows: types, schema versions, large values, names; in one lake for all tests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.guarantee(18)]

KEY = column(1, "id", "int", key=1)
TEXT = "text.with `odd' \"name"
BODY = "the body"
"""A name that is escaped in Avro."""
OPTIONS = {
    "partition_by": {"dbo.types": ["bit"]},
    "tables": {"exclude": [r"dbo\.audit"]},
}


@dataclass(frozen=True)
class Filled:
    """A lake after two batches, and the table "versions" after the first one."""

    lake: Lake
    source: Source
    first_in_lake: dict[Key, Row]
    first_at_source: dict[Key, Row]


@pytest.fixture(scope="module")
def filled(
    spark: SparkSession, kafka: str, registry: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """Tests only read it: each has a table of its own."""
    source = Source(kafka, registry)
    lake = Lake(spark, source, kafka, tmp_path_factory.mktemp("filled"))
    insert_types(source)
    versions = source.table(
        "versions", KEY, column(2, "small", "int"), column(3, "name", "varchar(10)")
    )
    insert_versions(source, versions)
    documents = insert_documents(source)
    named, audit = (source.table(name, KEY) for name in ("Order Details.2024", "audit"))
    source.commit(lambda t: t.insert(named, id=1), lambda t: t.insert(audit, id=1))
    source.publish()
    assert lake.catch_up(**OPTIONS) == 1
    first = {(row["id"],): row for row in lake.rows("versions")}
    first_at_source = source.cut()["versions"]

    source.alter(versions, KEY, column(3, "title", "varchar(max)"), column(5, "name", "date"))
    source.commit(lambda t: t.insert(versions, id=4, title="d", name=dt.date(2024, 2, 2)))
    change_documents(source, documents)
    source.publish()
    assert lake.catch_up(**OPTIONS) == 1
    yield Filled(lake, source, first, first_at_source)
    source.close()


def insert_types(source: Source) -> None:
    """The smallest, the largest and no value of every type."""
    table = source.table(
        "types",
        column(1, "id", "bigint", key=1),
        column(2, "bit", "bit"),
        column(3, "tiny", "tinyint"),
        column(4, "decimal", "decimal(38,10)"),
        column(5, "money", "money"),
        column(6, "real", "real"),
        column(7, "float", "float(53)"),
        column(8, "date", "date"),
        column(9, "moment", "datetime2(7)"),
        column(10, "time", "time(6)"),
        column(11, "offset", "datetimeoffset(7)"),
        column(12, "guid", "uniqueidentifier"),
        column(13, "bytes", "varbinary(20)"),
        column(14, TEXT, "nvarchar(20)"),
    )
    rows: list[dict[str, Any]] = [
        {
            "id": -(2**63),
            "bit": True,
            "tiny": 255,
            "decimal": Decimal("-9999999999999999999999999999.9999999999"),
            "money": Decimal("-922337203685477.5808"),
            "real": 0.5,
            "float": 1.7976931348623157e308,
            "date": dt.date(1, 1, 1),
            "moment": dt.datetime(1, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - datetime2 has no zone
            "time": dt.time(23, 59, 59, 999_999),
            "offset": "9999-12-31T23:59:59.9999999+14:00",
            "guid": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
            "bytes": b"\x00\xff",
            TEXT: "ä\u20ac\U0001f600",
        },
        {
            "id": 2**63 - 1,
            "bit": False,
            "tiny": 0,
            "decimal": Decimal("9999999999999999999999999999.9999999999"),
            "money": Decimal("922337203685477.5807"),
            "date": dt.date(9999, 12, 31),
            "moment": dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - as above
            TEXT: "",
        },
        {"id": 0},
    ]
    source.commit(*(lambda t, row=row: t.insert(table, **row) for row in rows))


def test_the_extremes_of_every_type(filled: Filled):
    expected = {key: dict(row) for key, row in filled.source.cut()["types"].items()}
    for row in expected.values():
        if row["time"] is not None:
            row["time"] = 86_399_999_999  # microseconds: the lake has no TIME
    found = {(row["id"],): row for row in filled.lake.rows("types")}
    for row in found.values():
        if row["bytes"] is not None:
            row["bytes"] = bytes(row["bytes"])
    assert found == expected


def insert_versions(source: Source, table: SourceTable) -> None:
    """Rows of three versions in one batch: columns are added, widened and renamed."""
    source.commit(lambda t: t.insert(table, id=1, small=1, name="a"))
    source.alter(
        table,
        KEY,
        column(2, "small", "bigint"),
        column(3, "name", "varchar(10)"),
        column(4, "added", "date"),
    )
    source.commit(lambda t: t.insert(table, id=2, small=2**40, name="b", added=dt.date(2024, 1, 1)))
    source.alter(
        table,
        KEY,
        column(2, "name", "bigint"),
        column(3, "title", "varchar(max)"),
        column(4, "added", "date"),
    )
    source.commit(
        lambda t: t.insert(table, id=3, name=3, title="c"),
        lambda t: t.update(table, (1,), name=2**40),
    )


def test_schema_versions_in_the_middle_of_a_batch(filled: Filled):
    """Added, widened and renamed columns, rows of three versions in one batch and after it."""
    assert filled.first_in_lake == filled.first_at_source
    newest = {row["id"]: row for row in filled.lake.rows("versions")}
    assert newest[4] == {
        "id": 4,
        "name_dropped_2": None,
        "title": "d",
        "added": None,
        "name": dt.date(2024, 2, 2),
    }
    assert newest[1]["name_dropped_2"] == 2**40


def insert_documents(source: Source) -> SourceTable:
    """Rows with large values."""
    table = source.table(
        "documents",
        KEY,
        column(2, BODY, "nvarchar(max)"),
        column(3, "scan", "varbinary(max)"),
        column(4, "views", "int"),
    )
    rows = [{"id": n, BODY: f"b{n}", "scan": b"s", "views": 0} for n in range(6)]
    source.commit(*(lambda t, row=row: t.insert(table, **row) for row in rows))
    return table


def change_documents(source: Source, table: SourceTable) -> None:
    """Changes that do not carry large values, among others that do."""
    source.commit(
        lambda t: t.update(table, (0,), views=1),  # neither in this batch: the lake's stay
        lambda t: t.update(table, (1,), **{BODY: "new"}),  # then again without it
        lambda t: t.update(table, (1,), views=1),
        lambda t: t.update(table, (2,), **{BODY: None}),  # a true NULL
        lambda t: t.update(table, (2,), views=2),
        lambda t: t.delete(table, (3,)),  # inserted anew, then changed
        lambda t: t.insert(table, id=3, **{BODY: "again"}, scan=None, views=0),
        lambda t: t.update(table, (3,), views=3),
        lambda t: t.update(table, (4,), scan=b"x"),
        lambda t: t.insert(table, id=7, **{BODY: "seven"}, views=0),
        lambda t: t.update(table, (7,), views=7),
    )


def test_large_values_that_a_change_does_not_carry(filled: Filled):
    found = {(row["id"],): row for row in filled.lake.rows("documents")}
    for row in found.values():
        row["scan"] = None if row["scan"] is None else bytes(row["scan"])
    assert found == filled.source.cut()["documents"]


def test_excluded_tables_and_names_that_need_escapes(filled: Filled):
    paths = set(filled.lake.commits()[-1]["tables"])
    assert "shop/dbo/Order_x0020_Details_x002E_2024" in paths
    assert not [path for path in paths if "audit" in path]
    assert filled.lake.rows("Order_x0020_Details_x002E_2024") == [{"id": 1}]
