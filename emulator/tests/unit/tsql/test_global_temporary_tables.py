"""##tables: seen by all sessions, gone with the one that made them."""

from __future__ import annotations

import pytest

from emulator.tests.unit.tsql.conftest import NOW, Session
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.values.clock import ManualClock

EXISTS = "CASE WHEN OBJECT_ID('tempdb..##t') IS NULL THEN 0 ELSE 1 END"


@pytest.fixture
def maker(engine):
    session = Session(engine, 60)
    assert session("CREATE TABLE ##t (id int IDENTITY PRIMARY KEY, a int)").errors == []
    yield session
    session.runner.close()


def test_all_sessions_read_and_write_it(maker, other):
    assert other("INSERT ##t (a) VALUES (1), (2)").errors == []
    assert maker("SELECT id, a FROM tempdb..##t ORDER BY id").rows == [(1, 1), (2, 2)]
    assert other("UPDATE ##t SET a = 9 WHERE id = 1; CREATE INDEX ix ON ##t (a)").errors == []
    assert maker("SELECT a FROM ##t WHERE a = 9").rows == [(9,)]
    assert other("SELECT name FROM tempdb.sys.tables WHERE name LIKE '##%'").rows == [("##t",)]
    assert other("CREATE TABLE ##T (b int)").errors == [2714]


def test_it_goes_with_its_session(engine, other):
    maker = Session(engine, 60)
    maker("CREATE TABLE ##t (a int); SELECT 1 AS b INTO ##u; INSERT ##t VALUES (1)")
    assert other("SELECT a FROM ##t; SELECT b FROM ##u").rows == [(1,)]
    assert other.value(EXISTS) == 1
    maker.runner.close()
    assert other("SELECT a FROM ##t").errors == [208]
    assert other("SELECT b FROM ##u").errors == [208]
    assert other.value(EXISTS) == 0
    assert other("CREATE TABLE ##t (z int)").errors == []


def test_a_reset_connection_drops_its_tables_and_no_others(engine, maker, other):
    other("CREATE TABLE ##other (a int)")
    maker.runner.reset()
    assert other("SELECT a FROM ##t").errors == [208]
    assert maker("SELECT a FROM ##other").errors == []
    other.runner.reset()


def test_a_table_that_another_transaction_holds_is_out_of_sight_and_dropped_later(engine, other):
    maker = Session(engine, 60)
    maker("CREATE TABLE ##t (a int)")
    other("BEGIN TRANSACTION; INSERT ##t VALUES (1)")
    maker.runner.close()
    assert other("SELECT a FROM ##t").errors == [208]
    third = Session(engine, 61)
    assert third("SET LOCK_TIMEOUT 0; CREATE TABLE ##t (b int)").errors == [1222]
    other("COMMIT")
    assert third("CREATE TABLE ##t (b int); INSERT ##t VALUES (5)").errors == []
    assert other("SELECT b FROM ##t").rows == [(5,)]
    third.runner.close()
    assert engine.abandoned_tables == set()


def test_transactions_undo_and_lock_it(maker, other):
    maker("BEGIN TRANSACTION; INSERT ##t (a) VALUES (1); SAVE TRANSACTION s; UPDATE ##t SET a = 2")
    assert other("SET LOCK_TIMEOUT 0; SELECT a FROM ##t").errors == [1222]
    maker("ROLLBACK TRANSACTION s; COMMIT")
    assert other("SELECT a FROM ##t").rows == [(1,)]
    maker("BEGIN TRANSACTION; CREATE TABLE ##gone (a int); DELETE ##t; ROLLBACK")
    assert other("SELECT a FROM ##t").rows == [(1,)]
    assert other("SELECT a FROM ##gone").errors == [208]


def test_any_session_may_drop_it(maker, other):
    assert other("DROP TABLE ##t").errors == []
    assert maker("SELECT a FROM ##t").errors == [208]
    assert other("DROP TABLE IF EXISTS ##t").errors == []
    assert other("DROP TABLE ##t").errors == [3701]


def test_it_outlives_the_procedure_and_the_database_it_was_made_in(maker, other):
    maker("CREATE PROCEDURE made AS CREATE TABLE ##p (a int)")
    maker("EXEC made; USE master")
    assert other("INSERT ##p VALUES (3); SELECT a FROM ##p").rows == [(3,)]
    assert maker("SELECT a FROM shop.dbo.##p").rows == [(3,)]


def test_what_it_may_not_have(maker):
    assert maker("CREATE TRIGGER tr ON ##t AFTER INSERT AS RETURN").errors == [167]
    assert maker("CREATE VIEW v AS SELECT a FROM ##t").errors == [4508]


def test_a_restart_leaves_none(tmp_path):
    for _ in range(2):
        engine = Engine(tmp_path, ManualClock(NOW))
        if "shop" not in engine.databases:
            engine.create_database("shop")
        session = Session(engine, 51)
        assert session("CREATE TABLE ##t (a int); INSERT ##t VALUES (1)").errors == []
        assert session("SELECT a FROM ##t").rows == [(1,)]
        session.context.store.close()
        engine.close()
