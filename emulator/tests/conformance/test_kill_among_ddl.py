"""Durability: kill -9 while tables are altered, change tables are cleaned up and scans run.

Each table has one writer, whose rows have growing ids, so whatever the moment of the kill: a table
holds the ids up to the last acknowledged one, or one more, and its change table the same ones, each
once and in order; where cleanup runs, from some id on, and nothing below the low watermark is left
half deleted. ``--kill-rounds`` asks for more rounds than the suite has.
"""

import contextlib
import itertools
import random
import threading

import pyodbc
import pytest

from emulator.tests.fix_emulator import EmulatorProcess

WAIT_S = 60
STEPS_BEFORE_KILL = (3, 40)
"""How many steps the slowest worker has done at least before the server is killed."""


@pytest.fixture
def server(tmp_path):
    made = EmulatorProcess(tmp_path / "emulator", agent="manual")
    made.start()
    yield made
    made.close_connections()
    if made.process is not None:
        made.stop()


class Worker(threading.Thread):
    """Repeats a step on a connection of its own until the server is gone."""

    def __init__(self, server: EmulatorProcess) -> None:
        super().__init__(daemon=True)
        self.cursor = server.connect("shop").cursor()
        self.steps = threading.Semaphore(0)
        self.gone = False
        self.failure: pyodbc.Error | None = None

    def run(self) -> None:
        try:
            for number in itertools.count():
                self.step(number)
                self.steps.release()
        except pyodbc.Error as error:
            if not str(error.args[0]).startswith("08"):  # anything but a lost connection
                self.failure = error

    def step(self, number: int) -> None:
        raise NotImplementedError


class Inserting(Worker):
    """One row, one transaction."""

    def __init__(self, server: EmulatorProcess, table: str) -> None:
        super().__init__(server)
        self.table = table
        newest = self.cursor.execute(f"SELECT MAX(id) FROM dbo.{table}").fetchval()
        self.acknowledged = newest or 0

    def step(self, number: int) -> None:
        del number
        sql = f"INSERT INTO dbo.{self.table} (id, v) VALUES (?, ?)"
        self.cursor.execute(sql, self.acknowledged + 1, f"row {self.acknowledged + 1}")
        self.acknowledged += 1


class Altering(Inserting):
    """Rows between changes of their table: a type that comes and goes, a column likewise."""

    CHANGES = (
        "ALTER COLUMN v nvarchar(60) NULL",
        "ADD extra int NULL",
        "ALTER COLUMN v varchar(40) NULL",
        "DROP COLUMN extra",
    )

    def __init__(self, server: EmulatorProcess, table: str) -> None:
        super().__init__(server, table)
        columns = self.cursor.execute(f"SELECT * FROM dbo.{table} WHERE 1 = 0").description
        if len(columns) > 2:
            self.cursor.execute(f"ALTER TABLE dbo.{table} DROP COLUMN extra")

    def step(self, number: int) -> None:
        super().step(number)
        self.cursor.execute(f"ALTER TABLE dbo.{self.table} {self.CHANGES[number % 4]}")


class CleaningUp(Worker):
    def step(self, number: int) -> None:
        self.cursor.execute(
            "DECLARE @mark binary(10) = (SELECT MAX(__$start_lsn) FROM (SELECT TOP (20)"
            " __$start_lsn FROM cdc.dbo_cleaned_CT ORDER BY __$start_lsn) AS first);"
            " IF @mark IS NOT NULL"
            f" EXEC sys.sp_cdc_cleanup_change_table N'dbo_cleaned', @mark, {1 + number % 7}"
        )


class Scanning(Worker):
    def step(self, number: int) -> None:
        self.cursor.execute(f"EXEC sys.sp_cdc_scan @maxtrans = {1 + number % 50}, @maxscans = 2")


def prepare(server: EmulatorProcess) -> None:
    connection = server.connect()
    connection.execute("CREATE DATABASE shop; USE shop; EXEC sys.sp_cdc_enable_db")
    for table in ("cleaned", "altered"):
        connection.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v varchar(40) NULL)")
        connection.execute(
            f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL,"
            " @supports_net_changes = 0"
        )
    connection.close()


def load_and_kill(server: EmulatorProcess, chance: random.Random) -> dict[str, int]:
    """Ids that were acknowledged, by table."""
    tables = [Inserting(server, "cleaned"), Altering(server, "altered")]
    workers = [*tables, CleaningUp(server), Scanning(server)]
    for worker in workers:
        worker.start()
    for _ in range(chance.randint(*STEPS_BEFORE_KILL)):
        for worker in workers:
            while not worker.steps.acquire(timeout=0.5):
                assert worker.is_alive(), worker.failure
    server.kill()
    for worker in workers:
        worker.join(WAIT_S)
        assert not worker.is_alive()
        assert worker.failure is None
    return {worker.table: worker.acknowledged for worker in tables}


def test_kill_among_ddl_and_cleanup_loses_and_repeats_nothing(server, request):
    seed = random.SystemRandom().randrange(10**6)
    print(f"the moments of the kills: seed {seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    prepare(server)
    for _ in range(request.config.getoption("--kill-rounds")):
        acknowledged = load_and_kill(server, chance)
        server.start()
        cursor = server.connect("shop").cursor()
        cursor.execute("EXEC sys.sp_cdc_scan @maxscans = 100")
        for table, last in acknowledged.items():
            rows = cursor.execute(f"SELECT id, v FROM dbo.{table} ORDER BY id").fetchall()
            assert [tuple(row) for row in rows] == [(n, f"row {n}") for n, _ in enumerate(rows, 1)]
            assert len(rows) in {last, last + 1}
            changes = cursor.execute(
                f"SELECT id, v, __$start_lsn, __$operation FROM cdc.dbo_{table}_CT"
                " ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation"
            ).fetchall()
            first = 1 if table == "altered" or not changes else changes[0][0]
            found = [tuple(row[:2]) for row in changes]
            assert found == [(n, f"row {n}") for n in range(first, len(rows) + 1)]
            assert {row[3] for row in changes} <= {2}
            low = cursor.execute("SELECT sys.fn_cdc_get_min_lsn(?)", f"dbo_{table}").fetchval()
            seen = cursor.execute(
                "DECLARE @low binary(10) = sys.fn_cdc_get_min_lsn(?),"
                " @high binary(10) = sys.fn_cdc_get_max_lsn();"
                f" SELECT id FROM cdc.fn_cdc_get_all_changes_dbo_{table}(@low, @high, N'all')",
                f"dbo_{table}",
            ).fetchall()
            assert [row[0] for row in seen] == [row[0] for row in changes if row[2] >= low]
        ddl = "SELECT COUNT(*), COUNT(DISTINCT ddl_lsn) FROM cdc.ddl_history"
        count, lsns = cursor.execute(ddl).fetchone()
        assert count == lsns
        with contextlib.suppress(pyodbc.Error):
            cursor.close()
        server.close_connections()
