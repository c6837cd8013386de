"""The initial snapshot beside running writers, then the stream: no gap, no duplicate."""

from __future__ import annotations

import itertools
import threading

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def test_rows_from_before_come_as_reads_and_later_changes_once_each(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.airlines (carrier char(2) PRIMARY KEY, name nvarchar(50) NOT NULL)",
        "INSERT dbo.airlines VALUES ('UA', N'United'), ('AA', N'American'), ('DL', N'Delta')",
    )
    source.enable("airlines")

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute(
            "INSERT dbo.airlines VALUES ('B6', N'JetBlue')",
            "UPDATE dbo.airlines SET name = N'United Airlines' WHERE carrier = 'UA'",
            "DELETE dbo.airlines WHERE carrier = 'AA'",
        )
        publisher.until(pipe.is_caught_up, "the changes are out")

    reads = pipe.topics.snapshot(source.name, "airlines")
    assert {event.key["carrier"] for event in reads if event.key} == {"UA", "AA", "DL"}
    pipe.assert_exactly_once("airlines")
    operations = [
        e.envelope["op"] for e in pipe.topics.changes(source.name, "airlines") if e.envelope
    ]
    assert sorted(operations) == ["c", "d", "u"]
    state = pipe.topics.state(source.name, "airlines", "carrier")
    assert {key: row["name"] for key, row in state.items()} == {
        "UA": "United Airlines",
        "DL": "Delta",
        "B6": "JetBlue",
    }


def test_a_snapshot_in_chunks_beside_writers_ends_in_the_source_state(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.stock (region varchar(5) NOT NULL, item int NOT NULL, n int NOT NULL,"
        " PRIMARY KEY (region, item))"
    )
    for region in ("east", "West", "north"):
        rows = ", ".join(f"('{region}', {item}, 0)" for item in range(40))
        source.execute(f"INSERT dbo.stock VALUES {rows}")
    source.enable("stock")
    may_write = threading.Event()
    pause = threading.Event()

    def write() -> None:
        may_write.wait(30)
        with source.server.connect(source.name) as connection:
            for number in range(1, 2000):
                if not may_write.is_set():
                    break
                item = number * 7 % 40
                connection.execute(f"UPDATE dbo.stock SET n = n + 1 WHERE item = {item}")
                if number % 5 == 0:
                    connection.execute(f"DELETE dbo.stock WHERE region = 'east' AND item = {item}")
                    connection.execute(f"INSERT dbo.stock VALUES ('south', {number}, {number})")
                pause.wait(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    with Running(pipe.config(snapshot={"chunk_rows": 17})) as publisher:
        publisher.until(lambda: "snapshot_read" in publisher.steps, "the first chunk is read")
        may_write.set()

        def snapshot_is_out() -> bool:
            source.scan()
            records = pipe.topics.progress()
            return bool(records) and not records[-1]["snapshotting"]

        publisher.until(snapshot_is_out, "the snapshot is out")
        may_write.clear()
        writer.join()
        publisher.until(pipe.is_caught_up, "the changes are out")

    pipe.assert_exactly_once("stock")
    held = {}
    for event in pipe.topics.events(source.name, "stock"):
        if event.envelope is not None:
            row = event.envelope["after"]
            key = (event.key["region"], event.key["item"]) if event.key else None
            held[key] = None if row is None else row["n"]
    assert {key: n for key, n in held.items() if n is not None} == {
        (region, item): n for region, item, n in source.query("SELECT * FROM dbo.stock")
    }
    reads = [e.key for e in pipe.topics.snapshot(source.name, "stock")]
    assert len(reads) == len({tuple(key.values()) for key in reads if key}), "a row read twice"


def test_transactions_over_several_tables_are_merged(pipe: Pipe):
    source = pipe.source
    for table in ("a", "b", "c"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int)")
        source.enable(table)

    with Running(pipe.config(page_rows=3, rows_per_transaction=5)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        for number in range(12):
            source.transaction(
                f"INSERT dbo.a VALUES ({number}, 0), ({number + 100}, 0)",
                f"INSERT dbo.b VALUES ({number}, 0)",
                "UPDATE dbo.a SET v = v + 1",
                f"INSERT dbo.c VALUES ({number}, 0)",
            )
        publisher.until(pipe.is_caught_up, "the changes are out")

    for table in ("a", "b", "c"):
        pipe.assert_exactly_once(table)
    records = pipe.topics.progress()
    for before, after in itertools.pairwise(records):
        assert after["after_lsn"] == before["through_lsn"]
    for table in ("a", "b", "c"):
        events = pipe.topics.changes(source.name, table)
        for partition in (0, 1):
            positions = [event.position for event in events if event.partition == partition]
            assert positions == sorted(positions)


def test_a_quiet_poll_costs_one_statement(pipe: Pipe):
    source = pipe.source
    for number in range(5):
        source.execute(f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY)")
        source.enable(f"t{number}")

    with Running(pipe.config(heartbeat_s=600)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")

        def sample(name: str) -> float:
            value = publisher.metrics.registry.get_sample_value(name)
            assert value is not None
            return value

        def polls() -> float:
            return sample("tailrace_queries_per_poll_count")

        def queries() -> float:
            return sample("tailrace_source_queries_total")

        polls_before, queries_before = polls(), queries()
        publisher.until(lambda: polls() > polls_before + 10, "some polls")
        assert queries() - queries_before <= polls() - polls_before + 1


def test_a_second_capture_instance_takes_over(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.crew (id int PRIMARY KEY, name nvarchar(20))",
        "INSERT dbo.crew VALUES (1, N'Ada')",
    )
    source.enable("crew")

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute("INSERT dbo.crew VALUES (2, N'Grace')")
        source.execute("ALTER TABLE dbo.crew ADD rank int NULL")
        source.execute("INSERT dbo.crew VALUES (3, N'Edith', 7)")
        source.enable("crew", capture_instance="N'crew_2'")
        source.execute("INSERT dbo.crew VALUES (4, N'Radia', 9)")
        publisher.until(pipe.is_caught_up, "the changes are out")
        publisher.until(lambda: bool(publisher.told("patch_finished")), "and earlier values")

    events = sorted(pipe.topics.changes(source.name, "crew"), key=lambda event: event.position)
    found = [event.envelope for event in events if event.envelope]
    envelopes = [e for e in found if e["source"]["snapshot"] != "patch"]
    assert [(e["after"]["id"], e["source"]["capture_instance"]) for e in envelopes] == [
        (2, "dbo_crew"),
        (3, "dbo_crew"),
        (4, "crew_2"),
    ]
    assert envelopes[-1]["after"]["rank"] == 9
    state = pipe.topics.state(source.name, "crew", "id")
    assert {key: row.get("rank") for key, row in state.items()} == {1: None, 2: None, 3: 7, 4: 9}
    assert len(pipe.topics.snapshot(source.name, "crew")) == 1


def test_a_table_that_is_enabled_later_is_taken_in_with_its_snapshot(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.first (id int PRIMARY KEY)",
        "CREATE TABLE dbo.second (id int PRIMARY KEY)",
        "INSERT dbo.second VALUES (1), (2)",
    )
    source.enable("first")

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.enable("second")
        source.execute("INSERT dbo.first VALUES (1)", "INSERT dbo.second VALUES (3)")
        publisher.until(
            lambda: (
                pipe.is_caught_up() and len(pipe.topics.state(source.name, "second", "id")) == 3
            ),
            "the second table is out",
        )

    pipe.assert_exactly_once("first")
    assert len(pipe.topics.state(source.name, "second", "id")) == 3


def test_a_clean_stop_and_start_goes_on_where_it_was(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, v int)", "INSERT dbo.t VALUES (1, 0), (2, 0)"
    )
    source.enable("t")

    for _ in range(3):
        with Running(pipe.config()) as publisher:
            publisher.until(pipe.is_caught_up, "caught up")
            source.execute("UPDATE dbo.t SET v = v + 1")
            publisher.until(pipe.is_caught_up, "the changes are out")
        source.execute("UPDATE dbo.t SET v = v + 1")

    assert len(pipe.topics.snapshot(source.name, "t")) == 2
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the last change is out")
    pipe.assert_exactly_once("t")
    assert {row["v"] for row in pipe.topics.state(source.name, "t", "id").values()} == {6}
