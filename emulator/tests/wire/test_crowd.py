"""Many connections at once: logins, work beside each other, timeouts under load."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyodbc
import pytest

CONNECTIONS = 100
ROWS_EACH = 3


@pytest.fixture(scope="module")
def crowd(module_emulator):
    """A database whose table everybody writes to."""
    connection = module_emulator.connect()
    connection.execute("CREATE DATABASE crowd")
    connection.execute("USE crowd; CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, who int)")
    connection.close()
    return module_emulator


def test_a_hundred_connections_at_once(crowd):
    everybody = threading.Barrier(CONNECTIONS)

    def work(number: int) -> int:
        connection = crowd.connect("crowd", autocommit=False, timeout=60)
        everybody.wait(60)
        for row in range(number * ROWS_EACH, (number + 1) * ROWS_EACH):
            connection.execute("INSERT INTO dbo.t VALUES (?, ?)", row, number)
        connection.commit()
        spid = connection.execute("SELECT @@SPID").fetchval()
        connection.rollback()
        everybody.wait(60)
        connection.close()
        return spid

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        spids = list(pool.map(work, range(CONNECTIONS)))
    assert len(set(spids)) == CONNECTIONS
    cursor = crowd.connect("crowd").cursor()
    written = "SELECT COUNT(*), COUNT(DISTINCT who) FROM dbo.t WHERE who >= 0"
    count, different = cursor.execute(written).fetchone()
    assert (count, different) == (CONNECTIONS * ROWS_EACH, CONNECTIONS)


def test_query_timeouts_under_load_end_their_statement_only(crowd):
    stop = threading.Event()

    def load(number: int) -> int:
        connection = crowd.connect("crowd")
        done = 0
        while not stop.is_set():
            connection.execute("SELECT COUNT(*) FROM dbo.t AS a CROSS JOIN dbo.t AS b").fetchall()
            connection.execute("INSERT INTO dbo.t VALUES (?, -1)", 10**6 + number * 10**4 + done)
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, number) for number in range(4)]
        holder = crowd.connect("crowd", autocommit=False)
        holder.execute("CREATE TABLE dbo.held (id int PRIMARY KEY); INSERT dbo.held VALUES (1)")
        holder.commit()
        holder.execute("UPDATE dbo.held SET id = 2 WHERE id = 1")
        waiting = crowd.connect("crowd", autocommit=False)
        waiting.timeout = 1
        for sql in ("SELECT id FROM dbo.held", "WAITFOR DELAY '00:01:00'"):
            waiting.execute("INSERT INTO dbo.t VALUES (900001, -2)")
            with pytest.raises(pyodbc.OperationalError, match="HYT00"):
                waiting.execute(sql)
            assert waiting.execute("SELECT @@TRANCOUNT").fetchval() == 1
            waiting.rollback()
        holder.rollback()
        assert waiting.execute("SELECT id FROM dbo.held").fetchval() == 1
        stop.set()
        assert all(future.result(60) > 0 for future in loads)
