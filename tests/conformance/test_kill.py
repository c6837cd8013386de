"""Capture survives a kill -9: nothing that was acknowledged is lost, nothing comes twice."""

import contextlib
import threading

import pyodbc
import pytest

from tests.fix_emulator import EmulatorProcess

WRITERS = 2
ROWS_BEFORE_KILL = 150
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
    connection.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, n int NOT NULL)")
    connection.execute("EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL")
    connection.execute("EXEC sys.sp_cdc_stop_job")
    connection.execute("EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 0")
    connection.execute("EXEC sys.sp_cdc_start_job")
    connection.close()


class Writer(threading.Thread):
    """Inserts and updates rows of its own until its server is gone."""

    def __init__(self, server: EmulatorProcess, first: int, enough: threading.Semaphore) -> None:
        super().__init__(daemon=True)
        self.connection = server.connect("shop")
        self.first = first
        self.enough = enough
        self.acknowledged: list[int] = []

    def run(self) -> None:
        with contextlib.suppress(pyodbc.Error):
            for number in range(self.first, self.first + 1_000_000):
                self.connection.execute("INSERT INTO dbo.t VALUES (?, 0)", number)
                self.acknowledged.append(number)
                self.connection.execute("UPDATE dbo.t SET n = 1 WHERE id = ?", number)
                self.enough.release()


def test_kill_under_load_loses_and_repeats_nothing(server):
    prepare(server)
    enough = threading.Semaphore(0)
    writers = [Writer(server, 1_000_000 * n, enough) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for _ in range(ROWS_BEFORE_KILL):
        assert enough.acquire(timeout=WAIT_S)
    server.kill()
    for writer in writers:
        writer.join(WAIT_S)
        assert not writer.is_alive()

    server.start()
    cursor = server.connect("shop").cursor()
    with contextlib.suppress(pyodbc.Error):
        cursor.execute("EXEC sys.sp_cdc_stop_job")
    cursor.execute("EXEC sys.sp_cdc_scan @maxscans = 100")

    table = {row[0]: row[1] for row in cursor.execute("SELECT id, n FROM dbo.t").fetchall()}
    changes = cursor.execute(
        "SELECT id, n, __$operation, __$start_lsn FROM cdc.dbo_t_CT"
        " ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation"
    ).fetchall()
    replayed: dict[int, int] = {}
    for number, n, operation, _ in changes:
        if operation == 2:
            assert number not in replayed
            replayed[number] = n
        elif operation == 3:
            assert replayed[number] == n
        elif operation == 4:
            replayed[number] = n
    assert replayed == table
    assert {number for writer in writers for number in writer.acknowledged} <= set(table)
    mapped = cursor.execute(
        "SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
    ).fetchval()
    assert mapped == len({row[3] for row in changes})
