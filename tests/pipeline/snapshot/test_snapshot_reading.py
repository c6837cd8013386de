"""How a snapshot is read: beside the stream, in chunks of what tells rows apart, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyodbc
import pytest

from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.table_reader import TableReader
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

LOCKED_S = 0.5


@contextmanager
def locked(pipe: Pipe, statement: str) -> Iterator[pyodbc.Connection]:
    """A writer that has changed rows and has not committed."""
    connection = pipe.source.server.connect(pipe.source.name, autocommit=False)
    connection.execute(statement)
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Chunk]]:
    """The chunks that are read, by table."""
    found: dict[str, list[Chunk]] = {}
    read = TableReader.read

    def noted(self: TableReader, *arguments: Any) -> Chunk | None:
        chunk = read(self, *arguments)
        if chunk is not None:
            found.setdefault(self.table.instance.table.table, []).append(chunk)
        return chunk

    monkeypatch.setattr(TableReader, "read", noted)
    return found


def filled(pipe: Pipe, *tables: str, rows: int = 5) -> None:
    for table in tables:
        values = ", ".join(f"({number}, 0)" for number in range(1, rows + 1))
        pipe.source.execute(
            f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int NOT NULL)",
            f"INSERT dbo.{table} VALUES {values}",
        )
        pipe.source.enable(table)


def snapshot_ids(pipe: Pipe, table: str, column: str = "id") -> list[int]:
    """What the snapshot brought."""
    pipe.source.scan()
    events = pipe.topics.snapshot(pipe.source.name, table)
    return sorted(event.envelope["after"][column] for event in events if event.envelope)


@pytest.mark.slow("waits for the lock timeout of a locked table")
@pytest.mark.parametrize("tables_at_once", [1, 2])
def test_a_locked_table_holds_up_neither_the_stream_nor_other_snapshots(
    pipe: Pipe, tables_at_once: int
):
    source = pipe.source
    filled(pipe, "first", "open", "live")
    options = {"lock_timeout_s": LOCKED_S, "tables_at_once": tables_at_once}

    with (
        locked(pipe, "UPDATE dbo.first SET v = 1 WHERE id = 2") as writer,
        Running(pipe.config(snapshot=options)) as publisher,
    ):
        publisher.until(
            lambda: (
                snapshot_ids(pipe, "open") == [1, 2, 3, 4, 5]
                and snapshot_ids(pipe, "live") == [1, 2, 3, 4, 5]
            ),
            "the other tables are out",
        )
        publisher.until(lambda: bool(publisher.told("snapshot_retrying")), "it is told")
        for number in range(10, 13):
            source.execute(f"INSERT dbo.live VALUES ({number}, 0)")
            source.scan()
            publisher.until(
                lambda n=number: n in pipe.topics.state(source.name, "live", "id"),
                "the stream goes on",
            )
        assert not snapshot_ids(pipe, "first")
        writer.rollback()
        publisher.until(pipe.is_caught_up, "the table is read when the lock is gone")

        (told,) = publisher.told("snapshot_retrying")
        assert told["table"].endswith("dbo.first")
        assert "1222" in told["reason"] or "Lock request time out" in told["reason"]
        assert publisher.told("snapshot_resumed")
        assert not publisher.told("retrying"), "no life ended"

    assert snapshot_ids(pipe, "first") == [1, 2, 3, 4, 5]
    pipe.assert_exactly_once("live")


def test_where_snapshot_isolation_is_allowed_no_lock_is_waited_for(pipe: Pipe):
    source = pipe.source
    source.execute(f"ALTER DATABASE {source.name} SET ALLOW_SNAPSHOT_ISOLATION ON")
    filled(pipe, "first")

    with (
        locked(pipe, "UPDATE dbo.first SET v = 1 WHERE id = 2") as writer,
        Running(pipe.config(snapshot={"lock_timeout_s": 60})) as publisher,
    ):
        publisher.until(lambda: snapshot_ids(pipe, "first") == [1, 2, 3, 4, 5], "it is out")
        writer.commit()
        publisher.until(pipe.is_caught_up, "the change is out")
        assert not publisher.told("snapshot_retrying")

    assert pipe.topics.state(source.name, "first", "id")[2]["v"] == 1
    pipe.assert_exactly_once("first")


def test_a_stop_does_not_wait_for_a_lock_longer_than_its_bound(pipe: Pipe):
    filled(pipe, "first", "open")

    with locked(pipe, "UPDATE dbo.first SET v = 1 WHERE id = 2"):
        with Running(pipe.config(snapshot={"lock_timeout_s": LOCKED_S})) as publisher:
            publisher.until(lambda: bool(snapshot_ids(pipe, "open")), "the other table is out")
        assert publisher.told("stopped")


def test_a_message_key_that_is_not_the_primary_key_leaves_the_chunks_small(
    pipe: Pipe, chunks: dict[str, list[Chunk]]
):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, customer int NOT NULL, n int NOT NULL)",
        "INSERT dbo.orders VALUES "
        + ", ".join(f"({number}, {number % 3}, 0)" for number in range(50)),
    )
    source.enable("orders")
    keys = {"dbo.orders": ["customer"]}

    with Running(pipe.config(message_keys=keys, snapshot={"chunk_rows": 10})) as publisher:
        publisher.until(lambda: "snapshot_read" in publisher.steps, "the first chunk is read")
        source.execute("UPDATE dbo.orders SET n = 1 WHERE id = 4", "DELETE dbo.orders WHERE id = 5")
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        publisher.until(
            lambda: source.scan() or len(pipe.topics.changes(source.name, "orders")) == 2,
            "the changes are out",
        )

    assert len(chunks["orders"]) >= 5
    assert max(map(len, chunks["orders"])) == 10
    reads = pipe.topics.snapshot(source.name, "orders")
    assert {tuple(event.key) for event in reads if event.key} == {("customer",)}
    state = pipe.topics.state(source.name, "orders", "id")
    assert {key: row["n"] for key, row in state.items()} == dict(
        source.query("SELECT id, n FROM dbo.orders")
    )
    assert len(snapshot_ids(pipe, "orders")) == len(set(snapshot_ids(pipe, "orders")))


def test_an_update_of_one_row_drops_no_other_row_with_its_message_key(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, customer int NOT NULL, n int NOT NULL)",
        "INSERT dbo.orders VALUES (1, 7, 0), (2, 7, 0), (3, 7, 0)",
    )
    source.enable("orders")

    with Running(pipe.config(message_keys={"dbo.orders": ["customer"]})) as publisher:
        with publisher.held():  # at its next step, which is before anything is published
            source.execute("UPDATE dbo.orders SET n = 1 WHERE id = 2")
        publisher.until(
            lambda: (
                pipe.is_caught_up() and len(pipe.topics.state(source.name, "orders", "id")) == 3
            ),
            "all rows are out",
        )

    state = pipe.topics.state(source.name, "orders", "id")
    assert {key: row["n"] for key, row in state.items()} == {1: 0, 2: 1, 3: 0}


@pytest.mark.parametrize(
    ("columns", "key", "values"),
    [
        (
            "region varchar(5) COLLATE Latin1_General_CS_AS NOT NULL, item uniqueidentifier"
            " NOT NULL, n decimal(20, 8) NOT NULL",
            "region, item, n",
            "('{a}', CAST(CAST({n} * 7919 % 251 AS binary(16)) AS uniqueidentifier), {n} / 3.0)",
        ),
        (
            "a datetime2(7) NOT NULL, b nvarchar(20) NOT NULL, c int NOT NULL",
            "a, b, c",
            "(DATEADD(nanosecond, 100 * ({n} % 4), CAST('2026-01-01' AS datetime2(7))),"
            " N'{a}{a}', {n})",
        ),
        ("a int NOT NULL, b time(7) NOT NULL", "b, a", "({n}, '10:00:00.000000{d}')"),
    ],
)
@pytest.mark.parametrize("chunk_rows", [1, 7])
def test_composite_keys_of_any_type_are_read_once_and_whole(
    pipe: Pipe, columns: str, key: str, values: str, chunk_rows: int
):
    source = pipe.source
    rows = [values.format(a="aBbAcZ"[n % 6], n=n, d=n % 10) for n in range(40)]
    source.execute(
        f"CREATE TABLE dbo.t (row_number int NOT NULL, {columns}, PRIMARY KEY ({key}))",
        *(f"INSERT dbo.t VALUES ({n}, {row[1:]}" for n, row in enumerate(rows)),
    )
    source.enable("t")

    with Running(pipe.config(snapshot={"chunk_rows": chunk_rows})) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")

    assert snapshot_ids(pipe, "t", "row_number") == list(range(40))


def test_wide_rows_are_read_in_small_chunks(pipe: Pipe, chunks: dict[str, list[Chunk]]):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(max))")
    for number in range(40):
        size = 10 if number < 20 else 100_000
        source.execute(
            f"INSERT dbo.t VALUES ({number}, REPLICATE(CAST('x' AS nvarchar(max)), {size}))"
        )
    source.enable("t")

    with Running(pipe.config(snapshot={"chunk_mb": 1})) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")

    assert snapshot_ids(pipe, "t") == list(range(40))
    assert len(chunks["t"]) >= 3
    assert max(chunk.size for chunk in chunks["t"]) < 1_250_000


def test_a_table_without_a_key_is_bounded_and_stops_alone_above(pipe: Pipe):
    source = pipe.source
    for table, size in (("fits", 1000), ("large", 200_000)):
        source.execute(f"CREATE TABLE dbo.{table} (id int NOT NULL, text varchar(max))")
        for number in range(10):
            text = f"REPLICATE(CAST('x' AS varchar(max)), {size})"
            source.execute(f"INSERT dbo.{table} VALUES ({number}, {text})")
        source.enable(table)

    with Running(pipe.config(snapshot={"memory_mb": 1, "chunk_mb": 1})) as publisher:
        publisher.until(lambda: snapshot_ids(pipe, "fits") == list(range(10)), "one is out")
        publisher.until(lambda: bool(publisher.told("table_stopped")), "the other is told")
        (told,) = publisher.told("table_stopped")
        source.execute("INSERT dbo.fits VALUES (10, 'new')")
        publisher.until(
            lambda: source.scan() or 10 in pipe.topics.state(source.name, "fits", "id"),
            "the stream goes on",
        )

    assert told["error"] == "SnapshotTooLarge"
    assert told["table"].endswith("dbo.large")
    assert "@index_name" in told["reason"]
    assert not pipe.topics.events(source.name, "large")


def test_several_chunks_wait_for_one_scan(pipe: Pipe, chunks: dict[str, list[Chunk]]):
    filled(pipe, "first", rows=50)

    with Running(pipe.config(snapshot={"chunk_rows": 10})) as publisher:
        publisher.until(lambda: len(chunks.get("first", ())) >= 5, "all chunks are read")
        publisher.until(pipe.is_caught_up, "the snapshot is out")

    assert snapshot_ids(pipe, "first") == list(range(1, 51))


def test_a_column_that_is_dropped_while_a_snapshot_is_read_stops_nothing(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, v int, gone int)",
        "INSERT dbo.t VALUES " + ", ".join(f"({n}, 0, 0)" for n in range(30)),
    )
    source.enable("t")

    with Running(pipe.config(snapshot={"chunk_rows": 4})) as publisher:
        with publisher.held():
            source.execute("ALTER TABLE dbo.t DROP COLUMN gone")
        # The rows that were read are the table behind the drop: its snapshot waits for an LSN
        # there, as a commit has, or the mark that the capture job makes every five minutes.
        source.execute("UPDATE dbo.t SET v = 1 WHERE id = 29")
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        assert not publisher.told("table_stopped")

    assert snapshot_ids(pipe, "t") == list(range(30))


def test_a_snapshot_begins_when_the_stream_has_caught_up(pipe: Pipe):
    source = pipe.source
    filled(pipe, "live")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
    for number in range(10, 50):
        source.execute(f"INSERT dbo.live VALUES ({number}, 0)")
    filled(pipe, "later")

    with Running(pipe.config(window_transactions=1)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        windows = publisher.steps[: publisher.steps.index("snapshot_read")].count("window")

    assert windows >= 40
    assert snapshot_ids(pipe, "later") == [1, 2, 3, 4, 5]
    pipe.assert_exactly_once("live")
