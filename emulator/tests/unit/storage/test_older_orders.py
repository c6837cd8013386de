"""A file whose Unicode columns have the order that an older release gave them."""

from __future__ import annotations

import apsw

from emulator.tests.unit.tsql.conftest import NOW, Session
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.fetching import fetch

WORDS = ["AA", "ab", "a-c", "coop", "co-op"]


def aged(engine: Engine) -> None:
    """The file as a release before version 3 of the orders wrote it; the engine is closed."""
    with engine.write() as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'MSSQL_CI_W', 'MSSQL_CI')"
            " WHERE type = 'table' AND name GLOB 't[0-9]*_[0-9]*'"
        )
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute("REINDEX; PRAGMA user_version = 2")
    engine.close()


def test_columns_and_indexes_get_the_new_order(tmp_path):
    engine = Engine(tmp_path, ManualClock(NOW))
    engine.create_database("shop")
    sql = Session(engine, 51)
    sql("CREATE TABLE t (n nvarchar(9) NOT NULL PRIMARY KEY, v varchar(9)); CREATE INDEX i ON t(v)")
    sql("ALTER TABLE t ADD later nvarchar(9)")
    for word in WORDS:
        assert not sql(f"INSERT t VALUES (N'{word}', '{word}', N'{word}')").errors
    name = engine.database("shop").table("dbo", "t").sqlite_name
    sql.context.store.close()
    aged(engine)
    with apsw.Connection(str(next(tmp_path.glob("*.db*")))) as raw:
        assert "MSSQL_CI_W" not in made(raw, name)

    engine = Engine(tmp_path, ManualClock(NOW))
    sql = Session(engine, 51)
    text = made(sql.context.store.connection, name)
    assert (text.count("MSSQL_CI_W"), text.count("MSSQL_CI")) == (2, 3)
    for column in ("n", "later"):
        found = sql(f"SELECT {column} FROM t ORDER BY {column}").rows
        assert [row[0] for row in found] == WORDS
    assert [row[0] for row in sql("SELECT n FROM t WHERE n > N'ab' ORDER BY n").rows] == WORDS[2:]
    assert sql("SELECT v FROM t WHERE v < 'ab' ORDER BY v").rows == [("a-c",), ("AA",)]
    assert sql("INSERT t VALUES (N'CO-OP', '', NULL)").errors == [2627]
    ((checked,),) = fetch(sql.context.store.connection, "PRAGMA integrity_check")
    assert checked == "ok"
    sql.context.store.close()
    engine.close()
    again = Engine(tmp_path, ManualClock(NOW))
    store = StoreSession(again, 52)
    assert made(store.connection, name) == text
    store.close()
    again.close()


def made(connection: apsw.Connection, name: str) -> str:
    ((text,),) = fetch(connection, "SELECT sql FROM sqlite_schema WHERE name = ?", (name,))
    return str(text)
