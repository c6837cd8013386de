"""Debezium's SQL Server connector from Maven Central, unmodified, against the embedded server.

One scenario for both query modes at once, because a worker takes seconds to start: a snapshot, a
stream of changes, the hand-over to a second capture instance, a restart of the worker with changes
made meanwhile. In the end every event is compared with its change rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyodbc
import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace_compose.local.connect import ConnectWorker, sqlserver_connector
from tailrace_publisher.checkpoint.debezium_offsets import chosen_offset, connector_offsets
from tailrace_publisher.checkpoint.java_map import read_map
from tailrace_schemas.position.lsn import Lsn
from tests.debezium.change_rows import (
    Event,
    Topics,
    differences,
    expected_events,
    lsn_text,
    snapshot_rows,
)

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow("starts Kafka Connect with Debezium's connector, twice"),
]

DATABASE = "Shop"
MODES = ("function", "direct")
TABLES = ("Orders", "Lines", "Kinds", "Large")
REACHED_WITHIN_S = 120
KINDS = """CREATE TABLE dbo.Kinds (
    id int IDENTITY(10, 5) PRIMARY KEY, [bit column] bit, tiny tinyint, small smallint, big bigint,
    r real, f float, dec38 decimal(38, 10), num numeric(5, 0), m money, sm smallmoney,
    c char(5), vc varchar(30), nc nchar(4), nvc nvarchar(30), b binary(3), vb varbinary(20),
    u uniqueidentifier, rv rowversion,
    d date, t0 time(0), t7 time(7), sdt smalldatetime, dt datetime, dt2_3 datetime2(3),
    dt2_7 datetime2(7), dto datetimeoffset(7))"""
KINDS_ROWS = (
    "(1, 255, -32768, -9223372036854775808, 1.5, -2.25, 1234567890123456789012345678.0123456789,"
    " 99999, 922337203685477.5807, -214748.3648, 'ab', 'Grüße', N'zß',"
    " N'日本 🎉', 0x010203, 0x, '6F9619FF-8B86-D011-B42D-00C04FC964FF', '9999-12-31', '23:59:59',"
    " '23:59:59.9999999', '2079-06-06T23:59:00', '9999-12-31T23:59:59.997',"
    " '0001-01-01T00:00:00.001', '9999-12-31T23:59:59.9999999',"
    " '2026-11-21T10:11:12.1234567+05:30')",
    "(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', N'', N'', 0x, 0x,"
    " '00000000-0000-0000-0000-000000000000', '0001-01-01', '00:00:00', '00:00:00',"
    " '1900-01-01', '1753-01-01', '0001-01-01', '0001-01-01', '1900-01-01T00:00:00-14:00')",
    "(NULL" + ", NULL" * 24 + ")",
)
KINDS_COLUMNS = (
    "[bit column], tiny, small, big, r, f, dec38, num, m, sm, c, vc, nc, nvc, b, vb, u,"
    " d, t0, t7, sdt, dt, dt2_3, dt2_7, dto"
)

LARGE = """CREATE TABLE dbo.Large (
    id int PRIMARY KEY, vmax varchar(max), nmax nvarchar(max), bmax varbinary(max), x xml,
    txt text, ntxt ntext, img image)"""
LARGE_ROW = (
    "(1, REPLICATE(CAST('v' AS varchar(max)), 9000), REPLICATE(CAST(N'日' AS nvarchar(max)), 5000),"
    " 0xDEADBEEF, N'<a b=\"1\">t</a>', 'Grüße', N'日本 🎉', 0x00FF)"
)


class QuickToStore(ConnectWorker):
    """A worker that stores its offsets every second instead of every minute."""

    def _settings(self, bootstrap: str) -> dict[str, str]:
        return {**super()._settings(bootstrap), "offset.flush.interval.ms": "1000"}


class Shop:
    """The source database, its capture job in the test's hand."""

    def __init__(self, emulator: EmulatorProcess) -> None:
        self.emulator = emulator
        master = emulator.connect()
        master.execute(f"CREATE DATABASE [{DATABASE}]")
        self.connection: pyodbc.Connection = emulator.connect(DATABASE)
        self.execute(
            "EXEC sys.sp_cdc_enable_db",
            "CREATE TABLE dbo.Orders (id int NOT NULL PRIMARY KEY, name nvarchar(40), total money)",
            "CREATE TABLE dbo.Lines (order_id int NOT NULL, line int NOT NULL, item varchar(20),"
            " PRIMARY KEY (order_id, line))",
            KINDS,
            LARGE,
        )
        for table in TABLES:
            self.execute(f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL")
        self.execute("INSERT INTO dbo.Orders VALUES (1, N'one', 1), (2, N'two', 2.5)")
        self.execute("INSERT INTO dbo.Lines VALUES (1, 1, 'pen'), (1, 2, 'ink'), (2, 1, 'cup')")
        self.execute(
            f"INSERT INTO dbo.Large VALUES {LARGE_ROW}, (2, '', N'', 0x, N'', '', N'', 0x)"
        )
        self.insert_kinds()

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def insert_kinds(self) -> None:
        for row in KINDS_ROWS:
            self.execute(f"INSERT INTO dbo.Kinds ({KINDS_COLUMNS}) VALUES {row}")

    def scan(self) -> None:
        """One pass of the capture process."""
        self.execute("EXEC sys.sp_cdc_scan")

    def max_lsn(self) -> bytes:
        return bytes(self.connection.execute("SELECT sys.fn_cdc_get_max_lsn()").fetchval())

    def min_lsn(self, instance: str) -> bytes:
        row = self.connection.execute("SELECT sys.fn_cdc_get_min_lsn(?)", instance)
        return bytes(row.fetchval())

    def events(self, stream: dict[bytes, str], mode: str) -> list[Event]:
        """What a table's capture instances hold, each from its LSN to that of the next."""
        starts = [*stream, b"\xff"]
        return [
            event
            for (first, instance), last in zip(stream.items(), starts[1:], strict=True)
            for event in expected_events(self.connection, instance, mode, first=first, last=last)
        ]


@pytest.fixture
def shop(emulator: EmulatorProcess) -> Shop:
    return Shop(emulator)


@pytest.fixture
def topics(kafka: str) -> Iterator[Topics]:
    reader = Topics(kafka, [topic_of(mode, table) for mode in MODES for table in TABLES])
    yield reader
    reader.close()


@pytest.fixture
def worker(shop: Shop, kafka: str, tmp_path: Path) -> Iterator[ConnectWorker]:
    """A worker that is not started yet, with one connector for each mode.

    They differ in encryption, too, so that both ways of connecting are used.
    """
    emulator = shop.emulator
    connectors = [
        sqlserver_connector(
            mode,
            port=emulator.port,
            user=emulator.user,
            password=emulator.password,
            database=DATABASE,
            bootstrap=kafka,
            data__query__mode=mode,
            database__encrypt="true" if mode == "direct" else "false",
        )
        for mode in MODES
    ]
    connect = QuickToStore(tmp_path / "connect", kafka, connectors)
    try:
        yield connect
    finally:
        connect.stop()


def topic_of(mode: str, table: str) -> str:
    return f"{mode}.{DATABASE}.dbo.{table}"


def wait_for_sizes(worker: ConnectWorker, topics: Topics, sizes: dict[str, int]) -> None:
    """Wait until each table's topic has that many messages in both modes."""
    deadline = time.monotonic() + REACHED_WITHIN_S
    pause = threading.Event()
    wanted = {topic_of(mode, table): size for mode in MODES for table, size in sizes.items()}
    while True:
        found = {topic: topics.size(topic) for topic in wanted}
        if all(found[topic] >= size for topic, size in wanted.items()):
            return
        if failures := worker.failures():
            pytest.fail("\n".join(failures))
        assert time.monotonic() < deadline, f"{found}, wanted {wanted}; see {worker.log}"
        pause.wait(0.1)


def wait_for_offsets(worker: ConnectWorker, lsn: bytes) -> None:
    """Wait until both connectors have stored that they read up to a commit.

    A worker that stops may leave out what brokers acknowledged last; it would read that again.
    """
    deadline = time.monotonic() + REACHED_WITHIN_S
    pause = threading.Event()
    while any(stored_lsn(worker, mode) != Lsn.from_bytes(lsn) for mode in MODES):
        found = {mode: str(stored_lsn(worker, mode)) for mode in MODES}
        assert time.monotonic() < deadline, f"{found}, wanted {lsn.hex()}; see {worker.log}"
        pause.wait(0.1)


def stored_lsn(worker: ConnectWorker, mode: str) -> Lsn | None:
    """The commit in a connector's offset; None before it is written, and while it is."""
    try:
        offsets = connector_offsets(read_map((worker.folder / "offsets").read_bytes()))
        return chosen_offset(offsets, DATABASE, mode).commit_lsn()
    except (FileNotFoundError, ValueError):
        return None


def messages_for(events: list[Event]) -> int:
    """How many messages the events are: each delete is followed by a tombstone."""
    return len(events) + sum(event.op == "d" for event in events)


def change_everything(shop: Shop) -> None:
    """Inserts, updates, deletes, key updates; several rows, statements and tables at once."""
    shop.execute(
        "INSERT INTO dbo.Orders VALUES (3, N'three', 3), (4, N'four', NULL)",
        "UPDATE dbo.Orders SET total = total + 1",
        "UPDATE dbo.Orders SET id = 30 WHERE id = 3",
        "DELETE FROM dbo.Orders WHERE id = 1",
        "BEGIN TRAN; INSERT INTO dbo.Orders VALUES (5, N'five', 5);"
        " INSERT INTO dbo.Lines VALUES (5, 1, 'a'), (5, 2, 'b');"
        " UPDATE dbo.Orders SET name = N'FIVE' WHERE id = 5; DELETE FROM dbo.Lines WHERE line = 2;"
        " COMMIT",
        "UPDATE dbo.Lines SET order_id = order_id + 100",
        "BEGIN TRAN; DELETE FROM dbo.Orders; ROLLBACK",
        "UPDATE dbo.Kinds SET vc = 'new' WHERE id = 10",
        "UPDATE dbo.Kinds SET big = 7, dt2_7 = NULL, u = NULL WHERE id IN (10, 20)",
        "DELETE FROM dbo.Kinds WHERE id = 15",
        "INSERT INTO dbo.Large (id) VALUES (3)",
        "UPDATE dbo.Large SET vmax = 'new'",
        "UPDATE dbo.Large SET nmax = N'short', bmax = NULL WHERE id = 1",
        "UPDATE dbo.Large SET x = NULL, txt = 'new', img = NULL WHERE id = 1",
        "DELETE FROM dbo.Large WHERE id = 2",
    )
    shop.insert_kinds()
    shop.scan()


def test_snapshot_stream_hand_over_and_restart(
    shop: Shop, worker: ConnectWorker, topics: Topics
) -> None:
    shop.scan()
    snapshot_lsn = shop.max_lsn()
    snapshots = {table: snapshot_rows(shop.connection, table) for table in TABLES}
    streamed_from = (int.from_bytes(snapshot_lsn, "big") + 1).to_bytes(10, "big")
    streams: dict[str, dict[bytes, str]] = {t: {streamed_from: f"dbo_{t}"} for t in TABLES}

    def wait_for_all() -> None:
        sizes = {
            table: len(rows) + messages_for(shop.events(streams[table], "direct"))
            for table, rows in snapshots.items()
        }
        wait_for_sizes(worker, topics, sizes)

    worker.start()
    wait_for_all()
    change_everything(shop)
    wait_for_all()

    # A second capture instance, with the new column; changes of its time are in both.
    shop.execute(
        "ALTER TABLE dbo.Orders ADD note varchar(20) NULL",
        "INSERT INTO dbo.Orders VALUES (6, N'six', 6, 'not in the first')",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'Orders', @role_name = NULL,"
        " @capture_instance = N'dbo_Orders_2'",
        "INSERT INTO dbo.Orders VALUES (7, N'seven', 7, 'in the second')",
        "UPDATE dbo.Orders SET note = 'noted', total = 60 WHERE id = 6",
    )
    shop.scan()
    streams["Orders"][shop.min_lsn("dbo_Orders_2")] = "dbo_Orders_2"
    wait_for_all()
    wait_for_offsets(worker, shop.max_lsn())

    worker.stop()
    shop.execute("UPDATE dbo.Orders SET note = 'while away' WHERE id > 5")
    shop.execute("UPDATE dbo.Lines SET item = 'away'")
    shop.scan()
    worker.start()
    shop.execute("DELETE FROM dbo.Orders WHERE id = 2", "DELETE FROM dbo.Lines WHERE line = 1")
    shop.scan()
    wait_for_all()
    # Where the publisher would go on: at the last commit that the connector has read.
    wait_for_offsets(worker, shop.max_lsn())
    worker.stop()

    for mode in MODES:
        for table in TABLES:
            found = topics.events(topic_of(mode, table))
            copied = [event for event in found if event.op == "r"]
            assert sorted(repr(event.after) for event in copied) == sorted(
                map(repr, snapshots[table])
            ), (mode, table)
            assert {event.commit_lsn for event in copied} == {lsn_text(snapshot_lsn)}
            streamed = shop.events(streams[table], mode)
            assert {event.op for event in streamed} == {"c", "u", "d"}
            changes = found[len(copied) :]
            assert changes == streamed, "\n".join(
                [f"{mode} {table}", *differences(changes, streamed)]
            )
        assert stored_lsn(worker, mode) == Lsn.from_bytes(shop.max_lsn()), mode
