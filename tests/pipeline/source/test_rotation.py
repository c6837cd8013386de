"""Capture instances come and go while changes flow: nothing is lost without a word."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.enable.tsql import Captured, create_account, least_grants, primary_grants
from tailrace.reading.topics import Event
from tailrace.signals.request import ask
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.test_kill import scanning
from tests.pipeline.daemon.test_stopped_tables import (
    keeps_is_out,
    snapshot_keys,
    topic_of,
    two_tables,
)
from tests.pipeline.proxy import Proxy
from tests.pipeline.running import Running, live_until_killed
from tests.pipeline.source_database import SourceDatabase

pytestmark = pytest.mark.kafka

ROTATIONS = 8
SECRET = "Rotates-instances-1"


def enable(source: SourceDatabase, table: str, name: str) -> None:
    """A capture instance beside the first; the capture process recognises it at its next scan."""
    source.execute(
        f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @capture_instance = N'{name}',"
        " @role_name = NULL"
    )


def disable(source: SourceDatabase, table: str, name: str) -> None:
    source.execute(f"EXEC sys.sp_cdc_disable_table N'dbo', N'{table}', N'{name}'")


def change_both(source: SourceDatabase) -> None:
    source.execute("DELETE dbo.loses WHERE id = 1", "UPDATE dbo.keeps SET note = 10 WHERE id = 1")
    source.scan()


def lose_the_older_instance(pipe: Pipe) -> None:
    """The older instance, whose changes are not published yet, goes: the newer one lacks them."""
    source = pipe.source
    change_both(source)
    enable(source, "loses", "loses_2")
    source.scan()
    source.execute("INSERT dbo.loses VALUES (3, 3)")
    source.scan()
    # The newer one is in the checkpoint, at a position before its start.
    live_until_killed(pipe.options(), "window")
    disable(source, "loses", "dbo_loses")


@pytest.mark.slow("a publisher waits for an instance that goes")
def test_an_instance_that_goes_before_it_was_read_to_its_end_stops_its_table(pipe: Pipe):
    two_tables(pipe)
    lose_the_older_instance(pipe)

    with Running(pipe.config()) as publisher:
        publisher.until(lambda: keeps_is_out(pipe), "the other table goes on")
        (told,) = publisher.told("table_stopped")
        assert told["error"] == "PositionExpired"
        assert told["table"].endswith("dbo.loses")
        assert "dbo_loses" in told["reason"]
        assert "sys.sp_cdc_disable_table" in told["reason"]
        publisher.until(
            lambda: pipe.topics.progress()[-1]["snapshotting"] == [topic_of(pipe, "loses")],
            "it is named as no part of the cut",
        )
    assert not pipe.topics.changes(pipe.source.name, "loses"), "nothing behind the gap is out"

    with Running(pipe.config()) as publisher:
        ask(pipe.config(), ["dbo.loses"], 60)
        publisher.until(pipe.is_caught_up, "its new snapshot is out")
        assert publisher.told("table_restarted")
    assert snapshot_keys(pipe, "loses") == [1, 2, 2, 3]
    pipe.assert_exactly_once("keeps")


@contextmanager
def writing(source: SourceDatabase, may_write: Callable[[int], bool]) -> Iterator[list[int]]:
    """A writer that inserts, updates and deletes until the block ends; its number of rounds.

    Before a round it waits until it may write it: a machine on which it outruns the publisher
    would otherwise be asked how fast the publisher is.
    """
    stop = threading.Event()
    errors: list[Exception] = []
    rounds = [0]

    def write() -> None:
        connection = source.server.connect(source.name)
        try:
            for number in itertools.count():
                while not may_write(number):
                    if stop.wait(0.01):
                        return
                if stop.wait(0.002):
                    return
                connection.execute(
                    f"INSERT dbo.busy (id, v) VALUES ({number}, 0);"
                    f" UPDATE dbo.busy SET v = v + 1 WHERE id >= {number - 2};"
                    f" DELETE dbo.busy WHERE id = {number - 5}"
                )
                rounds[0] = number
        except Exception as error:  # noqa: BLE001 - raised behind the block
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield rounds
    finally:
        stop.set()
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.slow("capture instances are replaced one after the other, under load")
@pytest.mark.timeout(240)
def test_rotation_under_load(pipe: Pipe):
    """A column, a second instance, the hand-over, the first one disabled, and so on at once."""
    source = pipe.source
    source.execute("CREATE TABLE dbo.busy (id int PRIMARY KEY, v int)")
    enable(source, "busy", "busy_0")
    source.scan()
    seen: set[ChangePosition] = set()
    config = pipe.config(page_rows=7, window_transactions=11)

    with Running(config) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")

        def is_near(number: int) -> bool:
            transactions = publisher.metrics.registry.get_sample_value(
                "tailrace_transactions_total"
            )
            return 3 * number < (transactions or 0) + 200  # a round is three transactions

        with writing(source, is_near) as rounds, scanning(source):
            for number in range(ROTATIONS):
                source.execute(f"ALTER TABLE dbo.busy ADD c{number} int NULL")
                enable(source, "busy", f"busy_{number + 1}")
                source.scan()
                start = source.max_lsn()
                publisher.until(lambda start=start: pipe.topics.through() > start, "handed over")
                seen.update(source.positions(f"busy_{number}"))
                disable(source, "busy", f"busy_{number}")
            written = rounds[0] + 3
            publisher.until(lambda: rounds[0] > written, "it still writes")
        publisher.until(pipe.is_caught_up, "everything is out")
        seen.update(source.positions(f"busy_{ROTATIONS}"))
        assert not publisher.told("retrying")
        assert not publisher.told("table_stopped")

    begin = Lsn.parse(pipe.topics.progress()[0]["after_lsn"])
    published = pipe.topics.positions(source.name, "busy")
    assert published == Counter(position for position in seen if position.commit_lsn > begin)
    state = pipe.topics.state(source.name, "busy", "id")
    assert {(row["id"], row["v"]) for row in state.values()} == set(
        source.query("SELECT id, v FROM dbo.busy")
    )


def first_change(pipe: Pipe, table: str) -> Event:
    """The first by position: partitions are read in any order."""
    return min(pipe.topics.changes(pipe.source.name, table), key=lambda event: event.position)


@pytest.fixture
def primary(source_server: SourceServer) -> Iterator[Proxy]:
    """A second address of the server."""
    proxy = Proxy(source_server.host, source_server.port)
    proxy.open()
    yield proxy
    proxy.close()


@pytest.mark.slow("the publisher rotates capture instances twice")
def test_the_publisher_rotates_with_a_login_of_its_own(pipe: Pipe, tmp_path: Path, primary: Proxy):
    """It keeps what the first instance has, and its own login only reads.

    As with a readable secondary, all that changes the source has an address of its own, which may
    be away.
    """
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, code int NOT NULL, note nvarchar(20),"
        " CONSTRAINT uq_code UNIQUE (code))",
        "INSERT dbo.orders VALUES (1, 1, N'first')",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = N'gate',"
        " @supports_net_changes = 1, @index_name = N'uq_code',"
        " @filegroup_name = N'PRIMARY', @allow_partition_switch = 0",
    )
    source.scan()
    definition = (
        "SELECT role_name, index_name, filegroup_name, supports_net_changes, partition_switch"
        " FROM cdc.change_tables"
    )
    defined = source.query(definition)
    reader, owner = f"reader_{source.name}", f"owner_{source.name}"
    source.execute(*(sql for u in (reader, owner) for sql, _ in create_account(u, f"N'{SECRET}'")))
    captured = Captured([("dbo", "orders")], ["gate"])
    source.execute(*(sql for sql, _ in least_grants(reader, captured)))
    cleanup = {"wait_for": "topics", "every_s": 1}
    options = pipe.options(tables={"schema_change": "rotate"}, cleanup=cleanup)
    login = {"user": reader, "password": SECRET, "application_intent": "ReadOnly"}
    changes = {"host": "127.0.0.1", "port": primary.port, "user": owner, "password": SECRET}
    options["source"] |= {**login, "primary": changes}
    config = pipe.config(**options)

    with Running(config) as publisher:
        publisher.until(pipe.is_caught_up, "its snapshot is out")
        source.execute("ALTER TABLE dbo.orders ADD city nvarchar(20) NULL")
        # Of a column that is not captured: SQL Server writes no change row.
        source.execute("UPDATE dbo.orders SET city = N'Bern' WHERE id = 1")
        source.scan()
        publisher.until(lambda: bool(publisher.told("rotation_refused")), "it lacks the role")
        assert "source.primary" in publisher.told("rotation_refused")[0]["reason"]
    looked = invoke(pipe, tmp_path, "doctor", **options)
    assert "is not in the role db_owner" in looked.output
    assert "@capture_instance = N'dbo_orders_r1'" in looked.output
    granted = invoke(pipe, tmp_path, "grants", **options)
    (role,) = (sql for sql, _ in primary_grants(owner, "rotate"))
    assert role in granted.output
    source.execute(role)

    with Running(config) as publisher, scanning(source):
        names = "SELECT capture_instance FROM cdc.change_tables"
        publisher.until(lambda: source.query(names) == [("dbo_orders_r1",)], "it rotated")
        publisher.until(lambda: bool(publisher.told("patch_finished")), "the update is out")
        assert pipe.topics.state(source.name, "orders", "id")[1]["city"] == "Bern"
        source.execute("INSERT dbo.orders VALUES (2, 2, N'second', N'Rome')")
        publisher.until(lambda: 2 in pipe.topics.state(source.name, "orders", "id"), "it is out")
        source.execute("ALTER TABLE dbo.orders DROP COLUMN note")
        publisher.until(lambda: source.query(names) == [("dbo_orders_r2",)], "and again")
        source.execute("INSERT dbo.orders VALUES (3, 3, N'Oslo')")
        publisher.until(lambda: 3 in pipe.topics.state(source.name, "orders", "id"), "it is out")
        source.execute("UPDATE dbo.orders SET city = N'Bergen' WHERE id = 3")
        publisher.until(
            lambda: pipe.topics.state(source.name, "orders", "id")[3]["city"] == "Bergen",
            "the update is out",
        )
        rows = "SELECT COUNT(DISTINCT __$start_lsn) FROM cdc.dbo_orders_r2_CT"
        publisher.until(lambda: source.query(rows) == [(1,)], "the insert's rows are removed")
        primary.close()
        source.execute("ALTER TABLE dbo.orders ADD street nvarchar(20) NULL")
        publisher.until(lambda: bool(publisher.told("rotation_retried")), "the primary is away")
        source.execute("DELETE dbo.orders WHERE id = 1")
        publisher.until(lambda: 1 not in pipe.topics.state(source.name, "orders", "id"), "it reads")
        assert not publisher.told("table_stopped")
    state = pipe.topics.state(source.name, "orders", "id")
    assert state[2] == {"id": 2, "code": 2, "note": "second", "city": "Rome"}
    assert state[3] == {"id": 3, "code": 3, "city": "Bergen"}
    patch = first_change(pipe, "orders").as_envelope
    assert patch["source"]["snapshot"] == "patch"
    assert (patch["op"], patch["before"], patch["after"]["id"]) == ("u", None, 1)
    (told,) = publisher.told("patch_finished")
    assert patch["source"]["commit_lsn"] == told["whole_from_lsn"]
    assert source.query(definition) == defined


def test_the_author_of_a_column_list_is_asked_about_new_columns(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20), secret nvarchar(20))",
        "INSERT dbo.orders VALUES (1, N'first', N'hidden')",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = NULL,"
        " @captured_column_list = N'id, note'",
    )
    source.scan()
    names = "SELECT capture_instance FROM cdc.change_tables"
    with Running(pipe.config(tables={"schema_change": "rotate"})) as publisher, scanning(source):
        publisher.until(pipe.is_caught_up, "its snapshot is out")
        source.execute("ALTER TABLE dbo.orders DROP COLUMN note")
        publisher.until(lambda: source.query(names) == [("dbo_orders_r1",)], "the list is copied")
        source.execute("ALTER TABLE dbo.orders DROP COLUMN secret")
        source.execute("ALTER TABLE dbo.orders ADD secret nvarchar(20) NULL, city int NULL")
        publisher.until(
            lambda: any(
                "left out secret" in told["reason"] for told in publisher.told("rotation_waiting")
            ),
            "nobody asked for it",
        )
        asked = "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = NULL,"
        source.execute(
            f"{asked} @capture_instance = N'dbo_orders_r2', @captured_column_list = N'id, city'"
        )
        publisher.until(lambda: source.query(names) == [("dbo_orders_r2",)], "it hands over")
        source.execute("INSERT dbo.orders VALUES (2, N'hidden', 7)")
        publisher.until(lambda: 2 in pipe.topics.state(source.name, "orders", "id"), "it is out")
    assert pipe.topics.state(source.name, "orders", "id")[2] == {"id": 2, "city": 7}
