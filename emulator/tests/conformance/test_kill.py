"""Durability: kill -9 at random moments under load loses and repeats nothing, again and again.

Writers commit transactions over two tables, roll some back and leave some open, while the capture
job scans without pause. After each restart the tables must hold every acknowledged transaction as a
whole and nothing that was not committed, and the change tables, replayed, must give the tables, by
LSNs that grow from round to round. ``--kill-rounds`` asks for more rounds than the suite has.
"""

import contextlib
import random
import threading
from collections import defaultdict
from dataclasses import dataclass, field

import pyodbc
import pytest

from emulator.tests.fix_emulator import EmulatorProcess

WRITERS = 3
ROWS_PER_TRANSACTION = 4
TRANSACTIONS_BEFORE_KILL = (5, 60)
"""How many are acknowledged at least before the server is killed: somewhere in between."""
WAIT_S = 60


@pytest.fixture
def server(tmp_path):
    made = EmulatorProcess(tmp_path / "emulator", agent="auto")
    made.start()
    yield made
    made.close_connections()
    if made.process is not None:
        made.stop()


def prepare(server: EmulatorProcess) -> None:
    connection = server.connect()
    connection.execute("CREATE DATABASE shop")
    connection.execute("USE shop")
    connection.execute("EXEC sys.sp_cdc_enable_db")
    for table in ("a", "b"):
        connection.execute(
            f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, tran_number int NOT NULL,"
            " n int NOT NULL)"
        )
        connection.execute(f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL")
    connection.execute("EXEC sys.sp_cdc_stop_job")
    connection.execute("EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 0")
    connection.close()


@dataclass
class Known:
    """What the clients know of the transactions of all rounds, by number."""

    acknowledged: set[int] = field(default_factory=set)
    rolled_back: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Writer(threading.Thread):
    """Commits, and rolls back every fifth transaction, until its server is gone."""

    def __init__(
        self, server: EmulatorProcess, first: int, known: Known, one_more: threading.Semaphore
    ) -> None:
        super().__init__(daemon=True)
        self.connection = server.connect("shop", autocommit=False)
        self.first = first
        self.known = known
        self.one_more = one_more

    def run(self) -> None:
        with contextlib.suppress(pyodbc.Error):
            for number in range(self.first, self.first + 100_000):
                self.write(number)
                if number % 5 == 0:
                    with self.known.lock:
                        self.known.rolled_back.add(number)
                    self.connection.rollback()
                    continue
                self.connection.commit()
                with self.known.lock:
                    self.known.acknowledged.add(number)
                self.one_more.release()

    def write(self, number: int) -> None:
        rows = range(number * ROWS_PER_TRANSACTION, (number + 1) * ROWS_PER_TRANSACTION)
        values = ", ".join(f"({row}, {number}, 0)" for row in rows)
        for table in ("a", "b"):
            self.connection.execute(f"INSERT INTO dbo.{table} VALUES {values}")
        self.connection.execute("UPDATE dbo.a SET n = 1 WHERE id = ?", rows[0])
        self.connection.execute("DELETE dbo.b WHERE id = ?", rows[-1])


def committed(cursor: pyodbc.Cursor, known: Known) -> dict[str, dict[int, tuple[int, int]]]:
    """Both tables by id, after seeing that each transaction is there as a whole or not at all."""
    tables = {
        table: {
            row[0]: (row[1], row[2])
            for row in cursor.execute(f"SELECT id, tran_number, n FROM dbo.{table}").fetchall()
        }
        for table in ("a", "b")
    }
    there: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for table, rows in tables.items():
        found = there[table] = defaultdict(list)
        for row, (number, n) in rows.items():
            found[number].append((row - number * ROWS_PER_TRANSACTION, n))
    assert there["a"].keys() == there["b"].keys()
    for number in there["a"]:
        assert sorted(there["a"][number]) == [(0, 1), (1, 0), (2, 0), (3, 0)]
        assert sorted(there["b"][number]) == [(0, 0), (1, 0), (2, 0)]
    assert known.acknowledged <= there["a"].keys()
    assert not known.rolled_back & there["a"].keys()
    return tables


def replayed(cursor: pyodbc.Cursor, table: str) -> tuple[dict[int, tuple[int, int]], set[bytes]]:
    """The table as its change rows make it, and their LSNs; no row may come twice or be missing."""
    rows: dict[int, tuple[int, int]] = {}
    lsns = set()
    for number, tran_number, n, operation, lsn in cursor.execute(
        f"SELECT id, tran_number, n, __$operation, __$start_lsn FROM cdc.dbo_{table}_CT"
        " ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation"
    ).fetchall():
        lsns.add(lsn)
        if operation == 2:
            assert number not in rows
        else:
            assert rows.pop(number) == (tran_number, n if operation != 4 else 0)
        if operation != 1:
            rows[number] = (tran_number, n)
    return rows, lsns


def load_and_kill(server: EmulatorProcess, number: int, known: Known, chance: random.Random):
    one_more = threading.Semaphore(0)
    writers = [
        Writer(server, 1 + (number * WRITERS + writer) * 100_000, known, one_more)
        for writer in range(WRITERS)
    ]
    with contextlib.suppress(pyodbc.Error):  # it starts with the server from the second round on
        server.connect("shop").execute("EXEC sys.sp_cdc_start_job")
    for writer in writers:
        writer.start()
    for _ in range(chance.randint(*TRANSACTIONS_BEFORE_KILL)):
        assert one_more.acquire(timeout=WAIT_S)
    server.kill()
    for writer in writers:
        writer.join(WAIT_S)
        assert not writer.is_alive()


def test_kill_under_load_loses_and_repeats_nothing(server, request):
    seed = random.SystemRandom().randrange(10**6)
    print(f"the moments of the kills: seed {seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    prepare(server)
    known = Known()
    captured: set[bytes] = set()
    for number in range(request.config.getoption("--kill-rounds")):
        load_and_kill(server, number, known, chance)
        server.start()
        cursor = server.connect("shop").cursor()
        tables = committed(cursor, known)
        with contextlib.suppress(pyodbc.Error):  # it may not have been started before the kill
            cursor.execute("EXEC sys.sp_cdc_stop_job")
        cursor.execute("EXEC sys.sp_cdc_scan @maxscans = 100")
        lsns: set[bytes] = set()
        for table, rows in tables.items():
            made, of_table = replayed(cursor, table)
            assert made == rows
            lsns |= of_table
        assert captured <= lsns
        assert not captured or max(captured) < min(lsns - captured, default=b"\xff")
        mapped = (
            "SELECT start_lsn FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
            " AND tran_begin_lsn NOT IN (SELECT start_lsn FROM cdc.change_tables)"
        )
        assert {row[0] for row in cursor.execute(mapped).fetchall()} == lsns
        captured = lsns
        server.close_connections()
