"""Identity and sequence counters belong to their objects: they go and come back with a rollback."""

from __future__ import annotations

import pytest

from emulator.tests.unit.tsql.conftest import NOW, Session
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.values.clock import ManualClock

LETTERS = "('a'), ('b')"


def numbers(sql, table="t"):
    return [row[0] for row in sql(f"SELECT id FROM {table} ORDER BY id").rows]


def run(sql, *batches):
    for batch in batches:
        outcome = sql(batch)
        assert not outcome.errors, (batch, outcome.texts)


UNDOING = [
    "BEGIN TRAN; {} ROLLBACK",
    "BEGIN TRAN; SAVE TRAN s; {} ROLLBACK TRAN s; COMMIT",
    "BEGIN TRAN; CREATE TABLE other (id int); SAVE TRAN s; {} ROLLBACK TRAN s; COMMIT",
    "BEGIN TRY BEGIN TRAN; {} SELECT 1 / 0 END TRY BEGIN CATCH ROLLBACK END CATCH",
]


@pytest.mark.parametrize("undoing", UNDOING)
def test_a_rolled_back_table_leaves_no_identity(sql, undoing):
    made = f"CREATE TABLE t (id int IDENTITY(1, 1), v char(1)); INSERT t (v) VALUES {LETTERS};"
    run(sql, undoing.format(made))
    run(sql, f"CREATE TABLE t (id int IDENTITY(100, 10), v char(1)); INSERT t VALUES {LETTERS}")
    assert numbers(sql) == [100, 110]
    assert sql.text("IDENT_CURRENT('t')") == "110"


@pytest.mark.parametrize("undoing", UNDOING)
def test_a_rolled_back_sequence_leaves_no_value(sql, undoing):
    made = "CREATE SEQUENCE s AS int START WITH 1; DECLARE @x int = NEXT VALUE FOR s;"
    run(sql, undoing.format(made + " SET @x = NEXT VALUE FOR s;"))
    run(sql, "CREATE SEQUENCE s AS int START WITH 100 INCREMENT BY 10")
    assert [sql.value("NEXT VALUE FOR s") for _ in range(2)] == [100, 110]


@pytest.mark.parametrize("undoing", UNDOING)
@pytest.mark.parametrize("change", ["ALTER SEQUENCE s RESTART;", "DROP SEQUENCE s;"])
def test_a_sequence_goes_on_after_a_rolled_back_change(sql, undoing, change):
    run(sql, "CREATE SEQUENCE s AS int START WITH 1")
    assert [sql.value("NEXT VALUE FOR s") for _ in range(3)] == [1, 2, 3]
    used = "" if "DROP" in change else "DECLARE @x int = NEXT VALUE FOR s;"
    run(sql, undoing.format(f"{change} {used}"))
    assert sql.value("NEXT VALUE FOR s") == 4
    run(sql, "ALTER SEQUENCE s RESTART WITH 50")
    assert [sql.value("NEXT VALUE FOR s") for _ in range(2)] == [50, 51]


@pytest.mark.parametrize("undoing", UNDOING)
@pytest.mark.parametrize("change", ["TRUNCATE TABLE t;", "DROP TABLE t;"])
def test_an_identity_goes_on_after_a_rolled_back_change(sql, undoing, change):
    run(sql, f"CREATE TABLE t (id int IDENTITY, v char(1)); INSERT t VALUES {LETTERS}")
    used = "" if "DROP" in change else "INSERT t VALUES ('x');"
    run(sql, undoing.format(f"{change} {used}"))
    run(sql, "INSERT t VALUES ('c')")
    assert numbers(sql) == [1, 2, 3]
    run(sql, "TRUNCATE TABLE t", f"INSERT t VALUES {LETTERS}")
    assert numbers(sql) == [1, 2]


def test_a_rolled_back_identity_column_leaves_nothing(sql):
    run(sql, "CREATE TABLE t (v char(1))", f"INSERT t VALUES {LETTERS}")
    run(sql, "BEGIN TRAN; ALTER TABLE t ADD id int IDENTITY(1, 1); ROLLBACK")
    run(sql, "ALTER TABLE t ADD id int IDENTITY(100, 10)", "INSERT t VALUES ('c')")
    assert numbers(sql) == [100, 110, 120]


def test_another_identity_column_begins_at_its_seed(sql):
    run(sql, f"CREATE TABLE t (n int IDENTITY, v char(1)); INSERT t VALUES {LETTERS}")
    change = "ALTER TABLE t DROP COLUMN n; ALTER TABLE t ADD id int IDENTITY(100, 10);"
    run(sql, f"BEGIN TRAN; {change} INSERT t VALUES ('c'); ROLLBACK", "INSERT t VALUES ('c')")
    assert sql("SELECT n FROM t ORDER BY n").rows == [(1,), (2,), (3,)]
    run(sql, change, "INSERT t VALUES ('d')")
    assert numbers(sql) == [100, 110, 120, 130]


def test_a_failed_select_into_leaves_no_identity(sql):
    run(sql, f"CREATE TABLE t (id int IDENTITY(5, 5), v char(1)); INSERT t VALUES {LETTERS}")
    run(sql, "BEGIN TRAN; SELECT id, v INTO u FROM t; INSERT u VALUES ('c'); ROLLBACK")
    run(sql, "CREATE TABLE u (id int IDENTITY(7, 1), v char(1)); INSERT u VALUES ('a')")
    assert numbers(sql, "u") == [7]


def test_after_a_restart_of_the_server(tmp_path):
    def opened():
        engine = Engine(tmp_path, ManualClock(NOW))
        return engine, Session(engine, 51)

    engine = Engine(tmp_path, ManualClock(NOW))
    engine.create_database("shop")
    engine.close()
    engine, sql = opened()
    run(sql, "CREATE SEQUENCE s START WITH 1; CREATE TABLE t (id int IDENTITY, v char(1))")
    run(sql, f"INSERT t VALUES {LETTERS}; DECLARE @x bigint = NEXT VALUE FOR s")
    run(sql, "BEGIN TRAN; ALTER SEQUENCE s RESTART; TRUNCATE TABLE t; ROLLBACK")
    run(
        sql,
        "BEGIN TRAN; SAVE TRAN p; CREATE TABLE u (id int IDENTITY(1, 1), v char(1));"
        " CREATE SEQUENCE r START WITH 1; SET @x = NEXT VALUE FOR r;"
        f" INSERT u VALUES {LETTERS}; ROLLBACK TRAN p; COMMIT".replace("SET @x", "DECLARE @x int"),
    )
    sql.context.store.close()
    engine.close()
    engine, sql = opened()
    run(sql, "INSERT t VALUES ('c'); CREATE SEQUENCE r START WITH 9")
    run(sql, "CREATE TABLE u (id int IDENTITY(7, 1), v char(1)); INSERT u VALUES ('a')")
    assert numbers(sql) == [1, 2, 3]
    assert numbers(sql, "u") == [7]
    assert sql.value("NEXT VALUE FOR s") > 1
    assert sql.value("NEXT VALUE FOR r") == 9
    sql.context.store.close()
    engine.close()
