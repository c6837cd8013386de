"""Tables with dynamic data masks, with and without UNMASK: no mask is ever published (ADR 0118)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tailrace.enable.plan import plan_grants
from tailrace.enable.tsql import create_account
from tailrace.explain.explain import explain_key_or_moment
from tailrace.reading.moments import Moment
from tailrace.signals.request import SignalNotTaken, ask
from tailrace.verify.pace import Pace
from tailrace.verify.source_rows import SourceRows
from tailrace.verify.table_shape import shape_of
from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.errors import ValuesHidden
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.catalog.instances import KnownCatalog, read_catalog
from tailrace_publisher.source.catalog.table_instances import by_table
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

PASSWORD = "Least-privilege-1"
MASKED = "MASKED WITH (FUNCTION = 'default()')"


def _config(pipe: Pipe, **options: object) -> PublisherConfig:
    source = pipe.options()["source"]
    return pipe.config(source=source | {"user": _user(pipe), "password": PASSWORD}, **options)


def _user(pipe: Pipe) -> str:
    return f"reader_{pipe.source.name}"


def _grants(pipe: Pipe) -> list[str]:
    """What ``tailrace grants`` prints for the database itself."""
    config = _config(pipe)
    plan = plan_grants(config, pipe.config().source, _user(pipe))
    return [s.sql for s in plan.statements if s.database is None]


@pytest.fixture
def people(pipe: Pipe) -> Iterator[Pipe]:
    """A table that is masked before it is captured; the login may do all but see values."""
    pipe.source.execute(
        f"CREATE TABLE dbo.people (id int PRIMARY KEY, name nvarchar(50) {MASKED})",
        "INSERT dbo.people VALUES (1, N'Ada')",
        "CREATE TABLE dbo.plain (id int PRIMARY KEY, name nvarchar(50))",
        "INSERT dbo.plain VALUES (1, N'Bob')",
        *(sql for sql, _ in create_account(_user(pipe), f"N'{PASSWORD}'")),
    )
    pipe.source.enable("people")
    pipe.source.enable("plain")
    pipe.source.execute(*(sql for sql in _grants(pipe) if "UNMASK" not in sql))
    pipe.source.scan()
    return pipe


def _names(pipe: Pipe) -> dict[int, str]:
    rows = pipe.topics.state(pipe.source.name, "people", "id")
    return {number: row["name"] for number, row in rows.items()}


@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_a_first_start_without_unmask_leaves_the_table_out_by_name(people: Pipe, mode: str) -> None:
    with Running(_config(people, snapshot={"mode": mode})) as publisher:
        publisher.until(lambda: bool(publisher.told("table_stopped")), "it is told")
        people.source.execute("UPDATE dbo.plain SET name = N'Eve'")
        people.source.scan()
        publisher.until(
            lambda: bool(people.topics.changes(people.source.name, "plain")),
            "the other table is published",
        )
    (stopped,) = publisher.told("table_stopped")
    assert "columns name: in change table cdc.dbo_people_CT" in stopped["reason"]
    assert f"GRANT UNMASK TO [{_user(people)}]" in stopped["reason"]
    assert "plain" not in stopped["table"]
    assert people.topics.events(people.source.name, "people") == []


def test_explain_shows_no_mask_for_a_value(people: Pipe) -> None:
    people.source.execute("UPDATE dbo.people SET name = N'Eve'")
    people.source.scan()
    with Running(_config(people)) as publisher:
        publisher.until(lambda: bool(publisher.told("table_stopped")), "it has topics")
    for asked in ("1", Moment(lsn=Lsn.ZERO)):
        found = explain_key_or_moment(_config(people), None, ("dbo", "people"), asked, 9)
        assert {change.values["id"]: len(change.values) for change in found.changes} == {1: 1}
        assert found.now == ({"id": 1} if asked == "1" else None)


def test_what_grants_prints_is_enough_for_snapshot_and_stream(people: Pipe) -> None:
    granted = [sql for sql in _grants(people) if "UNMASK" in sql]
    assert granted == [f"GRANT UNMASK TO [{_user(people)}]"]
    people.source.execute(*granted)
    with Running(_config(people)) as publisher:
        publisher.until(people.is_caught_up, "the snapshot is out")
        people.source.execute(
            "UPDATE dbo.people SET name = N'Eve'", "INSERT dbo.people VALUES (2, N'Zoe')"
        )
        publisher.until(people.is_caught_up, "the changes are out")
    assert _names(people) == {1: "Eve", 2: "Zoe"}
    people.assert_exactly_once("people")


def test_unmask_that_is_revoked_stops_the_table_and_no_mask_is_out(people: Pipe) -> None:
    people.source.execute(f"GRANT UNMASK TO [{_user(people)}]")
    with Running(_config(people)) as publisher:
        publisher.until(people.is_caught_up, "the snapshot is out")
        people.source.execute(
            f"REVOKE UNMASK TO [{_user(people)}]",
            f"GRANT UNMASK ON dbo.people TO [{_user(people)}]",  # does not reach the change table
            "UPDATE dbo.people SET name = N'Eve'",
            "UPDATE dbo.plain SET name = N'Eve'",
        )
        people.source.scan()
        publisher.until(lambda: bool(publisher.told("table_stopped")), "it is told")
        publisher.until(
            lambda: people.topics.state(people.source.name, "plain", "id")[1]["name"] == "Eve",
            "the other table continues",
        )
    (stopped,) = publisher.told("table_stopped")
    assert stopped["error"] == "ValuesHidden"
    assert f"GRANT UNMASK TO [{_user(people)}]" in stopped["reason"]
    assert _names(people) == {1: "Ada"}


def test_a_mask_of_the_source_table_alone_refuses_its_snapshots(pipe: Pipe) -> None:
    """Older change tables have no mask: the stream continues, and is right."""
    pipe.source.execute(
        "CREATE TABLE dbo.people (id int PRIMARY KEY, name nvarchar(50))",
        "INSERT dbo.people VALUES (1, N'Ada')",
        *(sql for sql, _ in create_account(_user(pipe), f"N'{PASSWORD}'")),
    )
    pipe.source.enable("people")
    pipe.source.scan()
    pipe.source.execute(*_grants(pipe))
    with Running(_config(pipe)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        pipe.source.execute(f"ALTER TABLE dbo.people ALTER COLUMN name ADD {MASKED}")
        pipe.source.scan()
        with pytest.raises(SignalNotTaken, match=r"snapshot: table .*dbo\.people, columns name"):
            ask(pipe.config(), ["dbo.people"], 30)
        pipe.source.execute("INSERT dbo.people VALUES (2, N'Zoe')")
        publisher.until(pipe.is_caught_up, "the change is out")
    assert "GRANT UNMASK" in publisher.told("signal_refused")[0]["reason"]
    assert len(pipe.topics.snapshot(pipe.source.name, "people")) == 1
    assert _names(pipe) == {1: "Ada", 2: "Zoe"}


def test_verify_compares_no_mask_although_unmask_is_granted_while_it_reads(people: Pipe) -> None:
    grant = f"GRANT UNMASK TO [{_user(people)}]"

    class Granted(Pace):
        """UNMASK comes between the rows and the question."""

        def took(self, rows: int) -> None:
            people.source.execute(grant)
            super().took(rows)

    with OdbcConnection(_config(people).source) as connection:
        catalog = read_catalog(connection, people.source.name, {}, KnownCatalog())
        tables = by_table(catalog.instances)
        (found,) = (tables[name] for name in tables if name.table == "people")
        read = SourceRows(connection, connection, Granted())
        with pytest.raises(ValuesHidden, match="people"):
            read.rows(shape_of(found, (), ColumnRules()))
        people.source.execute(grant)
        assert read.rows(shape_of(found, (), ColumnRules())).count == 1
