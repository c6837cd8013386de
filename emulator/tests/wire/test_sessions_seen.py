"""What one session sees of the others: sessions, requests, open transactions."""

import pytest

from emulator.tests.wire.test_server import Client
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.tokens import Row


def rows(client, sql):
    return [t.values for t in client.batch(sql) if isinstance(t, Row)]


@pytest.fixture
def logged_in(module_emulator):
    made = []

    def log_in(user="sa", password=module_emulator.password, application="seen"):
        client = Client(module_emulator.port)
        client.log_in(Login7(user=user, password=password, application=application))
        made.append(client)
        return client

    yield log_in
    for client in made:
        client.socket.close()


def session_id(client):
    return rows(client, "SELECT @@SPID")[0][0]


def test_all_sessions_stand_in_the_view_with_their_own_options(logged_in):
    one, other = logged_in(), logged_in(application="the other")
    other.batch("SET LOCK_TIMEOUT 1234; SET DATEFIRST 3; USE tempdb")
    found = rows(
        one,
        "SELECT lock_timeout, date_first, DB_NAME(database_id), status, program_name"
        f" FROM sys.dm_exec_sessions WHERE session_id = {session_id(other)}",
    )
    assert found == [(1234, 3, "tempdb", "sleeping", "the other")]
    assert rows(one, "SELECT status FROM sys.dm_exec_sessions WHERE session_id = @@SPID") == [
        ("running",)
    ]
    assert rows(
        one,
        "SELECT COUNT(*) FROM sys.dm_exec_connections c JOIN sys.dm_exec_sessions s"
        f" ON c.session_id = s.session_id WHERE s.session_id IN (@@SPID, {session_id(other)})",
    ) == [(2,)]


def test_whoever_may_not_view_the_server_sees_itself(logged_in):
    admin = logged_in()
    admin.batch("IF SUSER_ID('seer') IS NULL CREATE LOGIN seer WITH PASSWORD = 'First-Word1'")
    admin.batch("REVOKE VIEW SERVER STATE FROM seer")
    seer = logged_in("seer", "First-Word1")
    counts = "SELECT COUNT(*), MIN(session_id) FROM sys.dm_exec_sessions"
    assert rows(seer, counts) == [(1, session_id(seer))]
    admin.batch("GRANT VIEW SERVER STATE TO seer")
    assert rows(seer, counts)[0][0] >= 2


def test_a_session_that_ended_is_gone(logged_in):
    one, other = logged_in(), logged_in()
    number = session_id(other)
    other.socket.close()
    for _ in range(400):
        if not rows(one, f"SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = {number}"):
            return
        one.batch("WAITFOR DELAY '00:00:00.050'")
    raise AssertionError("an ended session is still shown")


def test_open_transactions(logged_in):
    one, other = logged_in(), logged_in()
    one.batch("DROP TABLE IF EXISTS tempdb.dbo.seen")
    one.batch("CREATE TABLE tempdb.dbo.seen (id int)")
    number = session_id(other)
    of_other = f"WHERE session_id = {number}"
    shown = f"SELECT open_transaction_count FROM sys.dm_tran_session_transactions {of_other}"
    assert rows(one, shown) == []
    other.batch("BEGIN TRANSACTION [by name]; BEGIN TRANSACTION")
    other.batch("INSERT INTO tempdb.dbo.seen VALUES (1), (2)")
    assert rows(one, shown) == [(2,)]
    assert rows(
        one,
        "SELECT a.name, a.transaction_type, a.transaction_state, DB_NAME(d.database_id),"
        " d.database_transaction_state"
        " FROM sys.dm_tran_session_transactions s"
        " JOIN sys.dm_tran_active_transactions a ON a.transaction_id = s.transaction_id"
        " JOIN sys.dm_tran_database_transactions d ON d.transaction_id = s.transaction_id"
        f" WHERE s.session_id = {number} ORDER BY d.database_id DESC",
    ) == [("by name", 1, 2, "tempdb", 4), ("by name", 1, 2, "master", 3)]
    other.batch("ROLLBACK")
    assert rows(one, shown) == []
    other.batch("SET IMPLICIT_TRANSACTIONS ON")
    other.batch("INSERT INTO tempdb.dbo.seen VALUES (3)")
    assert rows(
        one,
        "SELECT a.name FROM sys.dm_tran_session_transactions s JOIN sys.dm_tran_active_transactions"
        f" a ON a.transaction_id = s.transaction_id {of_other}",
    ) == [("user_transaction",)]
    other.batch("ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF")


def test_sp_who_shows_the_others(logged_in):
    one, other = logged_in(), logged_in()
    number, own = session_id(other), session_id(one)
    shown = {row[0]: row[2].strip() for row in rows(one, "EXEC sp_who")}
    assert (shown[own], shown[number]) == ("runnable", "sleeping")
    assert [row[0] for row in rows(one, f"EXEC sp_who '{number}'")] == [number]
    assert number not in [row[0] for row in rows(one, "EXEC sp_who 'active'")]
