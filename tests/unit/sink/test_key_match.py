"""Some keys as a condition, and which rows have one of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.files.key_match import FILE, ROW, listed_condition, matches
from tailrace_sink.tables.lake_table import POSITION, Kind, LakeColumn, LakeTable


def table(*types: str) -> LakeTable:
    columns = tuple(LakeColumn(f"k`{n}", n, type_, type_, n) for n, type_ in enumerate(types, 1))
    return LakeTable(TableName("d", "s", "t"), Kind.MIRROR, columns, str(Lsn(1, 1, 1)))


def rows(*keys: Any, position: bytes = b"\x05") -> pa.Table:
    names = [f"k`{n}" for n in range(1, len(keys[0]) + 1)]
    columns = {name: [key[n] for key in keys] for n, name in enumerate(names)}
    return pa.table({**columns, POSITION: pa.array([position] * len(keys), pa.binary())})


def test_one_column_is_a_list():
    found = listed_condition(rows((3,), (5,)), table("INT"))
    assert found == "coalesce(`k``1` IN (3, 5), false)"


def test_a_null_is_a_key():
    found = listed_condition(rows((3,), (None,)), table("BIGINT"))
    assert found == "coalesce(`k``1` IN (3L) OR `k``1` IS NULL, false)"
    only = listed_condition(rows((None,)), table("BIGINT"))
    assert only == "coalesce(`k``1` IS NULL, false)"


def test_each_column_of_a_key_has_its_list():
    day = dt.date(2026, 1, 2)
    found = listed_condition(rows((day, "o'k"), (day, "b")), table("DATE", "STRING"))
    assert found == (
        "coalesce(`k``1` IN (DATE'2026-01-02'), false)"
        " AND coalesce(`k``2` IN ('o\\'k', 'b'), false)"
    )


@pytest.mark.parametrize(
    ("types", "keys"),
    [
        (["DOUBLE"], [(1.0,)]),
        (["STRING"], [("x" * 1_000,)]),
        (["INT"], [(n,) for n in range(2_000)]),
        (["INT", "INT"], [(n, -n) for n in range(200)]),
    ],
    ids=["type", "long", "many", "combinations"],
)
def test_others_are_joined(types: list[str], keys: list[Any]):
    assert listed_condition(rows(*keys), table(*types)) is None


def test_nothing_is_no_list():
    assert listed_condition(rows((1,)).slice(0, 0), table("INT")) is None


def found_rows(*given: tuple[Any, ...]) -> pa.Table:
    """Key of two columns, position, file, row index."""
    first, second, position, file, row = zip(*given, strict=True)
    return pa.table({"k`1": first, "k`2": second, POSITION: position, FILE: file, ROW: row})


def test_rows_with_a_key_are_told_by_file():
    changes = rows((1, "a"), (2, "b"), (None, "c"))
    there = found_rows(
        (1, "a", b"\x04", "one", 7),
        (1, "b", b"\x09", "one", 8),  # let through by the lists, and newer; but nobody's
        (2, "b", None, "two", 0),
        (None, "c", b"\x01", "one", 2),
    )
    found, has_newer = matches(there, changes, table("INT", "STRING"))
    assert {file: list(indexes) for file, indexes in found.items()} == {"one": [7, 2], "two": [0]}
    assert not has_newer


@pytest.mark.parametrize("position", [b"\x05", b"\x06"])
def test_a_row_as_new_as_its_change_is_told(position: bytes):
    there = found_rows((1, "a", position, "one", None))
    found, has_newer = matches(there, rows((1, "a")), table("INT", "STRING"))
    assert list(found) == ["one"]
    assert has_newer
