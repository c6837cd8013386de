"""The canonical text that SQL Server writes of values of every type."""

from __future__ import annotations

import uuid

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.verify.canonical_text import CanonicalColumn, canonical_column, source_row
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tests.pipeline.source_database import SourceDatabase
from tests.verify_mutants import missed
from tests.verify_values import COLUMNS, VALUES, row_hash, rows_of_values


@pytest.fixture(scope="module")
def source(source_server: SourceServer) -> SourceDatabase:
    return SourceDatabase(source_server, f"db_{uuid.uuid4().hex[:8]}", cdc=False)


def column_of(
    type_text: str, *, lossless: bool = False, transform: ColumnTransform | None = None
) -> CanonicalColumn:
    declared = ColumnType.parse(type_text)
    published = declared if transform is None else transform.published_type(declared)
    column = SchemaColumn(1, "v", published, lossless=lossless, transform=transform)
    return canonical_column(column, declared)


@pytest.mark.parametrize("type_text", VALUES)
def test_each_value_has_its_text(source, type_text):
    values = VALUES[type_text]
    table = f"t_{uuid.uuid4().hex[:8]}"
    source.execute(f"CREATE TABLE {table} (n int, v {type_text})")
    for number, value in enumerate(values):
        source.execute(f"INSERT {table} VALUES ({number}, {value.literal})")
    source.execute(f"INSERT {table} VALUES (999, NULL)")

    column = column_of(type_text)
    found = source.query(f"SELECT {column.source}, {source_row([column])} FROM {table} ORDER BY n")

    texts = [value.text for value in values]
    assert [row[0] for row in found] == [*texts, None]
    assert [bytes(row[1]) for row in found] == [
        row_hash([column], [text]) for text in [*texts, None]
    ]


@pytest.mark.parametrize(
    ("type_text", "literal", "column", "text"),
    [
        (
            "datetime2(7)",
            "'2024-01-01T00:00:00.1234567'",
            column_of("datetime2(7)", lossless=True),
            "2024-01-01 00:00:00.1234567",
        ),
        ("time(7)", "'01:00'", column_of("time(7)", lossless=True), "01:00:00.0000000"),
        (
            "int",
            "1",
            column_of("int", transform=ColumnTransform(TransformKind.MASK, "it's")),
            "it's",
        ),
        (
            "nvarchar(20)",
            "N'ab\U0001f600c'",
            column_of("nvarchar(20)", transform=ColumnTransform(TransformKind.TRUNCATE, "3")),
            "ab",
        ),
        (
            "varchar(20)",
            "'ab '",
            column_of("varchar(20)", transform=ColumnTransform(TransformKind.TRUNCATE, "3")),
            "ab ",
        ),
        (
            "xml",
            "'<a/>'",
            column_of("xml", transform=ColumnTransform(TransformKind.TRUNCATE, "3")),
            "<a/",
        ),
        (
            "int",
            "7",
            column_of("int", transform=ColumnTransform(TransformKind.HASH, "salt", 11)),
            "1",
        ),
    ],
)
def test_options_decide_the_text(source, type_text, literal, column, text):
    table = f"t_{uuid.uuid4().hex[:8]}"
    source.execute(f"CREATE TABLE {table} (n int, v {type_text})")
    source.execute(f"INSERT {table} VALUES (1, {literal})", f"INSERT {table} VALUES (2, NULL)")

    found = source.query(f"SELECT {column.source} FROM {table} ORDER BY n")

    assert found == [(text,), (None,)]


def test_a_wrong_rule_of_any_type_changes_a_text(source, monkeypatch):
    """Of the lake's side: tests/end_to_end/test_verified_lake.py."""
    source.execute(f"CREATE TABLE every (n int, {', '.join(COLUMNS)})")
    for number, row in enumerate(rows_of_values()[1:]):
        source.execute(f"INSERT every VALUES ({number}, {', '.join(row)})")

    def texts_of(expressions):
        return source.query(f"SELECT {', '.join(expressions)} FROM every ORDER BY n")

    assert missed("source", texts_of, monkeypatch) == []


def test_a_row_of_a_thousand_columns_has_a_hash(source):
    """An expression that is nested as deep as there are columns is refused (8631)."""
    table = f"t_{uuid.uuid4().hex[:8]}"
    names = [f"c{n}" for n in range(1000)]
    source.execute(
        f"CREATE TABLE {table} ({', '.join(f'{name} nvarchar(9) NULL' for name in names)})",
        f"INSERT {table} (c0, c500, c999) VALUES (N'a', N'b', N'')",
    )
    declared = ColumnType.parse("nvarchar(9)")
    columns = [canonical_column(SchemaColumn(1, name, declared), declared) for name in names]

    ((found,),) = source.query(f"SELECT {source_row(columns)} FROM {table}")

    texts = ["a", *[None] * 499, "b", *[None] * 498, ""]
    assert bytes(found) == row_hash(columns, texts)


def test_long_texts_are_hashed_whole(source):
    column = column_of("nvarchar(max)")
    text = "x" * 9000
    ((found,),) = source.query(
        f"SELECT {source_row([column] * 3)} FROM (SELECT REPLICATE(CAST(N'x' AS nvarchar(max)),"
        " 9000) AS v) AS t"
    )
    assert bytes(found) == row_hash([column] * 3, [text] * 3)
