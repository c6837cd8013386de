"""Keys that identify no row, and names that look like patterns: every row arrives as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.verify.verify import PublishedShapes
from tailrace_publisher.errors import ColumnsRefused, PreflightError
from tailrace_publisher.source.connection.connection import OdbcConnection
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

NAMES = ("Cust$Ledger", "Sales (LCY)", "what?", "a+b", "x[1]", "c^d", "100%|50%", "trail ")


def rows_of(pipe: Pipe, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Values of all events with an after image, in order of the values."""
    events = pipe.topics.events(pipe.source.name, table)
    images = [e.as_envelope["after"] for e in events if e.envelope is not None]
    return sorted(tuple(image[column] for column in columns) for image in images)


def keys_of(pipe: Pipe, table: str) -> set[object]:
    return {repr(event.key) for event in pipe.topics.events(pipe.source.name, table)}


def test_a_key_that_identifies_no_row_or_is_not_captured_is_no_key(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.addresses"
        " (person int NOT NULL, is_main bit NOT NULL, street nvarchar(30) NOT NULL)",
        "CREATE UNIQUE INDEX ux_main ON dbo.addresses (person) WHERE is_main = 1",
        "INSERT dbo.addresses VALUES (1, 0, N'a'), (1, 1, N'b'), (1, 0, N'c'), (2, 1, N'd')",
        "CREATE TABLE dbo.parcels (region char(2) NOT NULL, number int NOT NULL,"
        " code AS (region + CAST(number AS varchar(5))) PERSISTED NOT NULL,"
        " CONSTRAINT pk_parcels PRIMARY KEY (code))",
        "INSERT dbo.parcels (region, number) VALUES ('de', 1), ('fr', 2)",
    )
    source.enable("addresses", index_name="N'ux_main'")
    source.enable("parcels")

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are published")
        source.execute(
            "INSERT dbo.addresses VALUES (2, 0, N'e')",
            "INSERT dbo.parcels (region, number) VALUES ('it', 3)",
        )
        publisher.until(pipe.is_caught_up, "the changes are published")

    assert [street for (street,) in rows_of(pipe, "addresses", "street")] == list("abcde")
    assert rows_of(pipe, "parcels", "region", "number") == [("de", 1), ("fr", 2), ("it", 3)]
    assert keys_of(pipe, "addresses") == keys_of(pipe, "parcels") == {"None"}
    warned = {e["table"] for e in publisher.events if e["event"] == "table_without_key"}
    assert {name.rpartition(".")[2] for name in warned} == {"addresses", "parcels"}


def test_a_message_key_whose_values_cdc_does_not_hold_is_refused_by_name(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.people (id int NOT NULL PRIMARY KEY, first_name nvarchar(20) NOT NULL,"
        " full_name AS (first_name + N' x') PERSISTED NOT NULL)"
    )
    source.enable("people")

    with Running(pipe.config(message_keys={"dbo.people": ["full_name"]})) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert "message_keys.dbo.people: column full_name is computed" in str(error)


def test_names_that_are_patterns_select_the_tables_that_are_spelled_so(pipe: Pipe):
    source = pipe.source
    for name in NAMES:
        source.execute(
            f"CREATE TABLE dbo.[{name.replace(']', ']]')}] (id int PRIMARY KEY, v int)",
            f"INSERT dbo.[{name.replace(']', ']]')}] VALUES (1, 1)",
        )
        source.enable(name)

    config = pipe.config(tables={"include": [f"dbo.{name}" for name in NAMES]})
    with Running(config) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are published")

    for name in NAMES:
        assert rows_of(pipe, name, "id", "v") == [(1, 1)], name


def test_a_pattern_that_is_a_name_and_selects_another_table_is_refused_by_name(pipe: Pipe):
    source = pipe.source
    for name in ("a+b", "aab", "other"):
        source.execute(f"CREATE TABLE dbo.[{name}] (id int PRIMARY KEY)")
        source.enable(name)

    with Running(pipe.config(tables={"include": ["dbo.a+b", r"sales\..*"]})) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert "tables.include dbo.a+b: it is the name of table dbo.a+b, and as a pattern selects" in (
        str(error)
    )
    assert "dbo.aab, too" in str(error)
    idle = [e for e in publisher.events if e["event"] == "pattern_selects_nothing"]
    assert [e["pattern"] for e in idle] == [r"sales\..*"]


def test_what_is_compared_of_a_table_does_not_depend_on_other_tables(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.plain (id int PRIMARY KEY, v int)",
        "CREATE TABLE dbo.parcels (number int NOT NULL, code AS (number + 1) PERSISTED NOT NULL,"
        " CONSTRAINT pk_parcels PRIMARY KEY (code))",
    )
    for name in ("plain", "parcels"):
        source.enable(name)
    config = pipe.config(message_keys={"dbo.plain": ["gone"]})
    with OdbcConnection(config.source) as connection:
        shapes = PublishedShapes(config, connection, source.name)
        plain, parcels = reversed(shapes.names([]))

        assert [column.name for column in shapes.of(parcels).columns] == ["number"]
        assert shapes.of(parcels).key == ()
        with pytest.raises(ColumnsRefused, match=r"message_keys\.dbo\.plain: column gone"):
            shapes.of(plain)
