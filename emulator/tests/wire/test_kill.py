"""KILL: a connection of the ODBC driver is ended by another one."""

import concurrent.futures
import time

import pyodbc
import pytest


@pytest.fixture
def shop(module_emulator):
    """A server with a table of its own for each test."""
    server = module_emulator
    server.create_database(database := f"kill_{time.monotonic_ns()}")
    server.connect(database).execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, n int); INSERT dbo.t VALUES (1, 1)"
    )
    return lambda **options: server.connect(database, **options)


def session_id(connection):
    return connection.execute("SELECT @@SPID").fetchval()


def wait_until_gone(killer, session):
    """Until KILL finds the session no more; it names it to the last."""
    with pytest.raises(pyodbc.Error, match=f"Process ID {session} is not an active process ID"):
        killer.execute(f"KILL {session}")


def test_an_idle_connection_is_ended_and_rolled_back(shop):
    killer, victim = shop(), shop(autocommit=False)
    victim.execute("UPDATE dbo.t SET n = 2")
    session = session_id(victim)
    killer.execute(f"KILL {session}")
    wait_until_gone(killer, session)
    with pytest.raises(pyodbc.Error) as caught:
        victim.execute("SELECT 1")
    assert caught.value.args[0] == "08S01"
    assert killer.execute("SELECT n FROM dbo.t").fetchval() == 1
    assert shop().execute("SELECT 1").fetchval() == 1


@pytest.mark.parametrize(
    "waits",
    [
        "UPDATE dbo.t SET n = n + 10",
        "BEGIN TRY UPDATE dbo.t SET n = n + 10 END TRY BEGIN CATCH SELECT 1 END CATCH",
        "WAITFOR DELAY '00:01:00'",
        "DECLARE @i int = 0; WHILE 1 = 1 SET @i += 1",
        "SELECT COUNT(*) FROM sys.all_columns a, sys.all_columns b, sys.all_columns c",
    ],
)
def test_a_connection_that_waits_is_told(shop, waits):
    killer, victim = shop(), shop()
    holder = shop(autocommit=False)
    holder.execute("UPDATE dbo.t SET n = 2")
    session = session_id(victim)
    victim.execute("BEGIN TRANSACTION; INSERT dbo.t VALUES (7, 7)")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: victim.execute(waits).fetchall())
        with pytest.raises(TimeoutError):
            running.result(timeout=0.3)
        killer.execute(f"KILL {session}")
        with pytest.raises(pyodbc.Error) as caught:
            running.result(timeout=30)
    assert "session is in the kill state. (596)" in str(caught.value)
    with pytest.raises(pyodbc.Error) as caught:
        victim.execute("SELECT 1")
    assert caught.value.args[0] == "08S01"
    holder.commit()
    assert [tuple(row) for row in killer.execute("SELECT id, n FROM dbo.t")] == [(1, 2)]


def test_a_client_that_does_not_read_is_not_waited_for(shop):
    killer, victim, checker = shop(), shop(autocommit=False), shop()
    victim.execute("UPDATE dbo.t SET n = 2")
    session = session_id(victim)
    cursor = victim.cursor()
    cursor.execute("SELECT REPLICATE(CAST('x' AS varchar(max)), 8000) FROM sys.all_columns")
    killer.execute(f"KILL {session}")
    checker.timeout = 15
    assert checker.execute("SELECT n FROM dbo.t").fetchval() == 1


def test_a_connection_does_not_end_itself(shop):
    connection = shop()
    with pytest.raises(pyodbc.Error, match="Cannot use KILL to kill your own process"):
        connection.execute(f"KILL {session_id(connection)}")
    assert connection.execute("SELECT 1").fetchval() == 1
