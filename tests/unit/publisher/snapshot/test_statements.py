"""The condition of rows is in every statement that reads them, and in the key to go on behind."""

from __future__ import annotations

import json

import pytest

from tailrace_publisher.snapshot.resume_key import read_resume_key, write_resume_key
from tailrace_publisher.snapshot.statements import ChunkStatements, check_statement
from tests.unit.publisher.snapshot.table_source import instance_of, pending

WHERE = "a = 1 OR note IS NULL"
COLUMNS = "[a], [b], [c], [note]"


def statements_of(where: str | None, *identity: str) -> ChunkStatements:
    table = pending(instance_of(identity))
    return ChunkStatements(table.instance, table.schema, where)


def test_all_of_them_have_it_in_parentheses():
    statements = statements_of(WHERE, "a", "b")

    assert statements.whole == f"SELECT {COLUMNS} FROM [dbo].[t] WHERE ({WHERE})"
    select = f"SELECT TOP (?) {COLUMNS} FROM [dbo].[t] WHERE ({WHERE})"
    order = " ORDER BY [a], [b]"
    assert statements.first() == select + order
    assert statements.rows_after(0) == f"{select} AND [a] > CAST(? AS int){order}"
    further = "[a] = CAST(? AS int) AND [b] > CAST(? AS int)"
    assert statements.rows_after(1) == f"{select} AND {further}{order}"


def test_without_one_they_are_what_they_were():
    statements = statements_of(None, "a")

    assert statements.whole == f"SELECT {COLUMNS} FROM [dbo].[t]"
    select = f"SELECT TOP (?) {COLUMNS} FROM [dbo].[t]"
    assert statements.first() == f"{select} ORDER BY [a]"
    assert statements.rows_after(0) == f"{select} WHERE [a] > CAST(? AS int) ORDER BY [a]"


def test_the_server_is_asked_about_the_same_condition():
    expected = f"SELECT TOP (?) 1 FROM [dbo].[t] WHERE ({WHERE})"
    assert check_statement(instance_of(("a",)), WHERE) == expected


@pytest.mark.parametrize(
    ("before", "now", "goes_on"),
    [
        (None, None, True),
        (WHERE, WHERE, True),
        (None, WHERE, False),
        (WHERE, None, False),
        (WHERE, "a = 2", False),
    ],
)
def test_other_rows_are_read_from_the_beginning(before: str | None, now: str | None, goes_on: bool):
    kept = write_resume_key(["a"], ["41"], before)

    assert read_resume_key(kept, ["a"], ["a"], now) == (["41"] if goes_on else None)
    assert WHERE not in kept


def test_keys_of_former_versions_are_of_all_rows():
    assert read_resume_key(json.dumps(["41"]), ["a"], ["a"], None) == ["41"]
    assert read_resume_key(json.dumps(["41"]), ["a"], ["a"], WHERE) is None
