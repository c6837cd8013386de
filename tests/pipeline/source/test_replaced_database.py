"""A database is known by the commits that were published of it, and the operator knows better."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tailrace.audit.audit import audit
from tailrace.cli.root import cli
from tailrace_publisher.errors import DatabaseReplaced
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def accept(pipe: Pipe, *more: str) -> str:
    """What ``tailrace accept-database`` says."""
    options = pipe.options()
    source, kafka = options["source"], options["kafka"]
    flags = {
        "prefix": options["prefix"],
        "registry.url": options["registry"]["url"],
        "kafka.bootstrap": kafka["bootstrap"],
        **{f"source.{name}": value for name, value in source.items()},
    }
    arguments = ["accept-database", *more]
    for name, value in flags.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        arguments += ["--set", f"publisher.{name}={text}"]
    result = CliRunner().invoke(cli, arguments)
    return f"{result.exit_code}: {result.output}"


def begun(pipe: Pipe) -> None:
    """A table whose first change is out."""
    pipe.source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    pipe.source.enable("t")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        pipe.source.execute("INSERT dbo.t VALUES (1)")
        publisher.until(pipe.is_caught_up, "the change is out")


NEWEST = "(SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping)"


@pytest.mark.parametrize(
    ("restored", "told"),
    [
        # Another transaction ended at that LSN; or none did, and later ones have come since.
        (
            f"UPDATE cdc.lsn_time_mapping SET tran_id = 0x77 WHERE start_lsn = {NEWEST}",
            "transaction 77",
        ),
        (
            f"DELETE cdc.lsn_time_mapping WHERE start_lsn = {NEWEST}",
            "is not in cdc.lsn_time_mapping",
        ),
    ],
    ids=["another", "none"],
)
def test_a_restore_in_place_is_noticed_and_can_be_accepted(pipe: Pipe, restored: str, told: str):
    source = pipe.source
    begun(pipe)
    source.execute(restored, "INSERT dbo.t VALUES (2)")
    source.scan()

    with Running(pipe.config()) as publisher:
        error = publisher.ended()
    assert isinstance(error, DatabaseReplaced)
    assert told in str(error)

    told_of_loss = accept(pipe)
    assert f"  {pipe.topic('t')}: 1 events, committed from " in told_of_loss
    assert "would take new snapshots of" in told_of_loss
    assert accept(pipe, "--run", "--no-snapshots").startswith("0: ")
    with SchemaRegistry(pipe.topics.registry_url) as registry:
        (lost,) = audit(pipe.topics.bootstrap, pipe.topics.names, registry).lost
    assert lost["events"] == {pipe.topic("t"): 1}
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")
    pipe.assert_exactly_once("t")


def is_quiet(pipe: Pipe) -> bool:
    """Whether several heartbeats said up to when nothing newer was committed."""
    pipe.source.scan()
    records = pipe.topics.progress()
    of_newest = [r for r in records if r["through_lsn"] == records[-1]["through_lsn"]]
    return len({record["through_commit_ms"] for record in of_newest} - {None}) > 3


def test_rows_that_differ_from_a_restored_database_are_read_again(pipe: Pipe):
    """Both histories changed rows up to the published LSN; no table is read as a whole."""
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20), price decimal(9, 2),"
        " at datetime2(7))"
    )
    source.enable("t")

    def many(first: int) -> str:
        return ", ".join(f"({n}, N'lost', 1, NULL)" for n in range(first, first + 700))

    new = "INSERT dbo.t VALUES ({}, N'name {}', 1.50, '9999-12-31T23:59:59.9999999')".format
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        publisher.until(lambda: is_quiet(pipe), "heartbeats have later times than the first LSN")
        source.execute(*(new(number, number) for number in (1, 2, 3, 4)))
        publisher.until(pipe.is_caught_up, "the common history is out")
        publisher.until(lambda: is_quiet(pipe), "heartbeats have later times than the commit")
    kept = f"0x{pipe.topics.through().to_bytes().hex()}"
    with Running(pipe.config()) as publisher:
        source.execute(
            "UPDATE dbo.t SET price = 2 WHERE id = 1",
            "DELETE dbo.t WHERE id = 2",
            new(5, 5),
            *(f"INSERT dbo.t VALUES {many(first)}" for first in (1000, 1700)),
        )
        publisher.until(pipe.is_caught_up, "the lost history is out")
    through = f"0x{pipe.topics.through().to_bytes().hex()}"
    source.execute(
        "UPDATE dbo.t SET price = 1.5 WHERE id = 1", "DELETE dbo.t WHERE id >= 5", new(2, 2)
    )
    source.scan()
    source.execute(
        f"DELETE cdc.dbo_t_CT WHERE [__$start_lsn] > {kept}",
        f"DELETE cdc.lsn_time_mapping WHERE start_lsn > {kept}",
        "UPDATE dbo.t SET name = N'own' WHERE id = 3",
    )
    source.scan()
    source.execute(
        f"UPDATE cdc.dbo_t_CT SET [__$start_lsn] = {through} WHERE [__$start_lsn] > {through}",
        f"UPDATE cdc.lsn_time_mapping SET start_lsn = {through} WHERE start_lsn > {through}",
        "DELETE dbo.t WHERE id = 4",
    )
    source.scan()

    shown = accept(pipe, "--repair")
    assert "has the published commits up to" in shown, shown
    assert f"{pipe.topic('t')}: 1,403 events" in shown
    assert "would read the rows of" in shown
    assert "Nothing was written" in shown
    assert "No table is read as a whole." in accept(pipe, "--run", "--repair")
    snapshot = {"mode": "initial", "chunk_rows": 500}
    with Running(pipe.config(snapshot=snapshot)) as publisher:
        publisher.until(lambda: bool(publisher.told("lost_rows_repaired")), "rows are repaired")
        publisher.until(pipe.is_caught_up, "it goes on")

    rows = source.query("SELECT id, name, CAST(price AS varchar(9)) FROM dbo.t")
    found = pipe.topics.state(source.name, "t", "id").values()
    assert sorted((row["id"], row["name"], str(row["price"])) for row in found) == sorted(
        map(tuple, rows)
    )
    changes = pipe.topics.changes(source.name, "t")
    repaired = [e.as_envelope for e in changes if e.as_envelope["source"]["snapshot"]]
    assert {event["source"]["snapshot"] for event in repaired} == {"repair"}
    ids = [(event["after"] or event["before"])["id"] for event in repaired]
    assert sorted(ids) == [1, 2, 3, 5, *range(1000, 2400)]
    assert not pipe.topics.snapshot(source.name, "t")
    with SchemaRegistry(pipe.topics.registry_url) as registry:
        told = audit(pipe.topics.bootstrap, pipe.topics.names, registry)
    assert not told.problems.texts


def test_a_database_whose_log_ends_below_what_was_published_is_not_accepted(pipe: Pipe):
    """Its next changes would be left out without a word."""
    begun(pipe)
    pipe.source.execute(f"DELETE cdc.lsn_time_mapping WHERE start_lsn = {NEWEST}")

    assert "cannot be accepted yet: its newest LSN is" in accept(pipe)
    told = accept(pipe, "--run")

    assert told.startswith("1: ")
    assert "its newest LSN is" in told


def test_accepting_needs_something_that_was_published(pipe: Pipe):
    assert accept(pipe).startswith("1: ")
    assert f"nothing of {pipe.source.name} was published" in accept(pipe)
