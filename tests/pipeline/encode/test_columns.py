"""Columns left out, masked, cut and hashed, from snapshot and stream; and told by nobody."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tailrace_publisher.errors import PreflightError
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

SALT = "salt-from-a-file"
SECRET = "Geheimnis"


def digest(text: str) -> str:
    return hashlib.sha256(f"{SALT}{text}".encode()).hexdigest()


@pytest.fixture
def people(pipe: Pipe) -> Pipe:
    pipe.source.execute(
        "CREATE TABLE dbo.people (id int PRIMARY KEY, name nvarchar(50), mail varchar(50),"
        " pay decimal(9, 2), letter nvarchar(max), born date)",
        f"INSERT dbo.people VALUES (1, N'{SECRET}', '{SECRET}@x', 7.5, N'{SECRET}', '2000-01-01')",
        "INSERT dbo.people (id) VALUES (2)",
    )
    pipe.source.enable("people")
    return pipe


def test_values_are_made_into_what_the_options_say(people: Pipe, tmp_path: Path):
    source = people.source
    salt = tmp_path / "salt"
    salt.write_text(SALT, encoding="utf-8")
    columns: dict[str, Any] = {
        "exclude": [r"dbo\.people\.born"],
        "mask": {r"dbo\.people\.(pay|letter)": "***"},
        "truncate": {"dbo.people.name": 3},
        "hash": ["dbo.people.mail"],
        "salt_file": str(salt),
    }
    config = people.config(columns=columns)
    with Running(config) as publisher:
        publisher.until(people.is_caught_up, "the snapshot is out")
        source.execute(
            f"INSERT dbo.people VALUES (3, N'{SECRET}', '{SECRET}@y', 1, N'{SECRET}', NULL)",
            "UPDATE dbo.people SET pay = 2, born = '2001-01-01' WHERE id = 3",
            f"UPDATE dbo.people SET letter = N'{SECRET}2' WHERE id = 3",
            "DELETE dbo.people WHERE id = 2",
        )
        publisher.until(people.is_caught_up, "the changes are out")

    people.assert_exactly_once("people")
    made = {"name": SECRET[:3], "pay": "***", "letter": "***"}
    read = (e.envelope["after"] for e in people.topics.snapshot(source.name, "people"))
    assert {row["id"]: row for row in read} == {
        1: {"id": 1, **made, "mail": digest(f"{SECRET}@x")},
        2: {"id": 2, **dict.fromkeys(("name", "mail", "pay", "letter"))},
    }
    insert, pay, letter, delete = (
        e.envelope
        for e in sorted(people.topics.changes(source.name, "people"), key=lambda e: e.position)
        if e.envelope
    )
    assert insert["after"] == {"id": 3, **made, "mail": digest(f"{SECRET}@y")}
    assert pay["source"]["changed"] == ["pay"]
    assert letter["source"]["changed"] == ["letter"]
    assert delete["before"]["id"] == 2
    assert SECRET not in repr(publisher.events)
    assert SALT not in repr(publisher.events)

    shown = invoke(people, tmp_path, "schema", "dbo.people", columns=columns)
    assert shown.exit_code == 0, shown.output
    assert "truncate 3" in shown.output
    assert "hash SHA-256, salt" in shown.output
    told = invoke(people, tmp_path, "explain", "dbo.people", "3", columns=columns)
    assert told.exit_code == 0, told.output
    assert SECRET not in told.output
    audited = invoke(people, tmp_path, "audit", columns=columns)
    assert audited.exit_code == 0, audited.output


def test_other_options_hold_for_everything_that_is_not_out(people: Pipe):
    source = people.source
    with Running(people.config()) as publisher:
        publisher.until(people.is_caught_up, "the snapshot is out")
        source.execute(f"INSERT dbo.people (id, name) VALUES (3, N'{SECRET}')")
        publisher.until(people.is_caught_up, "the change is out")
    source.execute(
        f"INSERT dbo.people (id, name) VALUES (4, N'{SECRET}')",
        "ALTER TABLE dbo.people ALTER COLUMN name nvarchar(60)",
        f"INSERT dbo.people (id, name) VALUES (5, N'{SECRET}')",
    )
    columns = {"mask": {"dbo.people.name": "x"}, "include": [r".*\.(id|name)"]}
    for _ in range(2):  # the second life finds the version that the first one has registered
        with Running(people.config(columns=columns)) as publisher:
            publisher.until(people.is_caught_up, "it goes on")
            (number,) = source.query("SELECT MAX(id) + 1 FROM dbo.people")[0]
            source.execute(f"INSERT dbo.people (id, name) VALUES ({number}, N'{SECRET}')")
            publisher.until(people.is_caught_up, "the change is out")

    people.assert_exactly_once("people")
    events = sorted(people.topics.changes(source.name, "people"), key=lambda e: e.position)
    afters = [e.envelope["after"] for e in events if e.envelope]
    assert afters[0] == {"id": 3, "name": SECRET} | dict.fromkeys(("mail", "pay", "letter", "born"))
    assert afters[1:] == [{"id": number, "name": "x"} for number in (4, 5, 6, 7)]
    # One version of the options before, one of those behind, one of the ALTER.
    assert len({e.schema_id for e in events}) == 3


def test_what_the_options_cannot_mean_refuses_the_start_by_name(people: Pipe, tmp_path: Path):
    columns = {
        "mask": {"dbo.people.id": "x"},
        "truncate": {"dbo.people.born": 3},
        "exclude": ["dbo.people.nmae"],
    }

    with Running(people.config(columns=columns)) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert len(error.problems) == 3
    for told in ("columns.exclude dbo.people.nmae", "column id: columns.mask", "column born"):
        assert any(told in problem for problem in error.problems), told
    looked = invoke(people, tmp_path, "doctor", columns=columns)
    assert looked.exit_code != 0
    assert "column id: columns.mask" in " ".join(looked.output.split())


def test_a_delete_with_null_in_a_column_declared_not_null_stops_nothing(pipe: Pipe):
    """Servers were seen to delete rows with NULL in a bit NOT NULL column."""
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, flag bit NOT NULL, name nvarchar(9) NOT NULL)",
        "INSERT dbo.t VALUES (1, 1, N'one'), (2, 0, N'two')",
    )
    source.enable("t")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
    source.execute("DELETE dbo.t WHERE id = 1")
    source.scan()
    source.execute("UPDATE cdc.dbo_t_CT SET flag = NULL WHERE [__$operation] = 1")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the delete is out")
        assert not publisher.told("table_stopped")
    (deleted,) = pipe.topics.changes(source.name, "t")
    assert deleted.as_envelope["op"] == "d"
    assert deleted.as_envelope["before"] == {"id": 1, "flag": None, "name": "one"}
