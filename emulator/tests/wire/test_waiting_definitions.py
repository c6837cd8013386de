"""What waits for another session's open DDL, and with which definition it continues.

SQL Server keeps a schema modification lock until the transaction ends, and a statement that is
compiled takes a schema stability lock: who waited finds what was committed, or nothing.

See: Transaction locking and row versioning guide, schema locks.
Numbers: sys.messages.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field

import pyodbc
import pytest

WAIT_S = 60
_numbers = itertools.count(1)

TABLE = "CREATE TABLE z (x int, k int); INSERT z VALUES (1, 2)"
NEW = "CREATE TABLE z (x int)"
COLUMNS = "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('z') ORDER BY column_id"


@dataclass
class Waiting:
    """A statement in a thread of its own."""

    connection: pyodbc.Connection
    sql: str
    error: int = 0
    rows: list[tuple] = field(default_factory=list)
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            cursor = self.connection.execute(self.sql)
            if cursor.description is not None:
                self.rows = [tuple(row) for row in cursor.fetchall()]
        except pyodbc.Error as error:
            self.error = number_of(error)

    def end(self) -> int:
        """The error that it ended with, 0 for none."""
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive(), f"{self.sql} still waits"
        return self.error


def number_of(error: pyodbc.Error) -> int:
    """The native number of an error."""
    return int(error.args[1].rsplit("(", 2)[1].split(")")[0])


class Sessions:
    """A database with two sessions, and one that looks at them."""

    def __init__(self, emulator) -> None:
        name = f"waits_{next(_numbers)}"
        emulator.create_database(name)
        self.first = emulator.connect(name)
        self.second = emulator.connect(name)
        self.looking = emulator.connect(name)
        self.number = self.second.execute("SELECT @@SPID").fetchone()[0]

    def begin(self, *statements: str) -> None:
        """The first session does something in a transaction that stays open."""
        self.first.execute("BEGIN TRANSACTION")
        for statement in statements:
            self.first.execute(statement)

    def waiting(self, sql: str) -> Waiting:
        """The second session's statement, once it waits for the first one."""
        statement = Waiting(self.second, sql)
        statement.start()
        blocked = (
            "SELECT blocking_session_id FROM sys.dm_exec_requests"
            f" WHERE session_id = {self.number} AND blocking_session_id <> 0"
        )
        deadline = time.monotonic() + WAIT_S
        while not self.looking.execute(blocked).fetchall():
            assert statement.thread.is_alive(), f"{sql} did not wait: {statement.error}"
            assert time.monotonic() < deadline, f"{sql} is not seen to wait"
        return statement

    def after(self, end: str, sql: str) -> int:
        """The error of a statement that waited until the first session's transaction ended."""
        statement = self.waiting(sql)
        self.first.execute(end)
        return statement.end()

    def rows(self, sql: str) -> list[tuple]:
        """What a third session sees."""
        return [tuple(row) for row in self.looking.execute(sql).fetchall()]


@pytest.fixture
def sessions(module_emulator):
    yield Sessions(module_emulator)
    module_emulator.close_connections()


@pytest.mark.parametrize(
    "first",
    [
        "ALTER TABLE z DROP COLUMN x",
        "ALTER TABLE z ADD y int",
        "ALTER TABLE z ALTER COLUMN x varchar(20)",
        "ALTER TABLE z ADD CONSTRAINT ck CHECK (x > 0)",
        "EXEC sp_rename 'z.x', 'xx', 'COLUMN'",
    ],
)
def test_a_column_is_added_to_what_the_rollback_left(sessions, first):
    sessions.looking.execute(TABLE)
    sessions.begin(first)
    assert sessions.after("ROLLBACK", "ALTER TABLE z ADD w int") == 0
    assert sessions.rows(COLUMNS) == [("x",), ("k",), ("w",)]
    assert sessions.rows("SELECT * FROM z") == [(1, 2, None)]
    sessions.looking.execute("INSERT z VALUES (-1, 0, 0)")
    types = "SELECT data_type FROM information_schema.columns WHERE column_name = 'x'"
    assert sessions.rows(types) == [("int",)]


def test_a_column_is_added_to_what_the_commit_left(sessions):
    sessions.looking.execute(TABLE)
    sessions.begin("ALTER TABLE z ADD y int")
    assert sessions.after("COMMIT", "ALTER TABLE z ADD w int") == 0
    assert sessions.rows(COLUMNS) == [("x",), ("k",), ("y",), ("w",)]


def test_a_column_that_was_committed_meanwhile(sessions):
    sessions.looking.execute(TABLE)
    sessions.begin("ALTER TABLE z ADD w int")
    assert sessions.after("COMMIT", "ALTER TABLE z ADD w int") == 2705


def test_an_index_is_created_on_what_the_rollback_left(sessions):
    sessions.looking.execute(TABLE)
    sessions.begin("CREATE INDEX i ON z (x)")
    assert sessions.after("ROLLBACK", "CREATE INDEX j ON z (x)") == 0
    names = "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('z') AND index_id > 0"
    assert sessions.rows(names) == [("j",)]


GONE = [
    ("EXEC sp_rename 'z', 'z9'", 15225),
    ("CREATE TRIGGER tz ON z AFTER INSERT AS SELECT 1 AS one", 8197),
    ("GRANT SELECT ON z TO public", 15151),
    ("DROP TABLE z", 3701),
    ("DROP TABLE IF EXISTS z", 0),
    ("ALTER TABLE z ADD w int", 4902),
    ("ALTER TABLE z DROP COLUMN x", 4902),
    ("ALTER TABLE z ALTER COLUMN x bigint", 4902),
    ("CREATE INDEX i ON z (x)", 1088),
    ("TRUNCATE TABLE z", 4701),
    ("INSERT z VALUES (1)", 208),
    ("UPDATE z SET x = 1", 208),
    ("DELETE z", 208),
    ("SELECT * FROM z", 208),
    ("SELECT * FROM z WITH (NOLOCK)", 208),
    ("CREATE TABLE c (x int REFERENCES z (x))", 1767),
    ("CREATE TABLE z (other int)", 0),
    ("SELECT 1 AS other INTO z", 0),
]


@pytest.mark.parametrize(("sql", "error"), GONE, ids=[sql for sql, _ in GONE])
def test_a_table_that_was_never_committed(sessions, sql, error):
    sessions.begin(NEW)
    assert sessions.after("ROLLBACK", sql) == error
    assert sessions.rows("SELECT name FROM sys.triggers") == []
    assert sessions.rows("SELECT 1 FROM sys.database_permissions WHERE major_id > 0") == []
    left = [("other",)] if "other" in sql else []
    assert sessions.rows("SELECT name FROM sys.columns WHERE object_id > 0 AND object_id IN"
                         " (SELECT object_id FROM sys.tables)") == left  # fmt: skip


def test_an_insert_into_a_table_that_is_not_committed_waits_for_it(sessions):
    sessions.begin(NEW)
    assert sessions.after("COMMIT", "INSERT z VALUES (1)") == 0
    assert sessions.rows("SELECT * FROM z") == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE z ADD w int",
        "DROP TABLE z",
        "SELECT * FROM z",
        "INSERT z VALUES (3, 4)",
        "CREATE INDEX i ON z (x)",
        "TRUNCATE TABLE z",
        "EXEC sp_rename 'z', 'z9'",
        "CREATE TRIGGER tz ON z AFTER INSERT AS SELECT 1 AS one",
    ],
)
@pytest.mark.parametrize("first", ["DROP TABLE z", "EXEC sp_rename 'z', 'y'"])
def test_a_table_that_is_back_after_a_rollback(sessions, first, sql):
    sessions.looking.execute(TABLE)
    sessions.begin(first)
    assert sessions.after("ROLLBACK", sql) == 0


@pytest.mark.parametrize(
    ("create", "change", "statement", "error"),
    [
        ("PROCEDURE p AS SELECT 1 AS one", "", "EXEC p", 2812),
        ("PROCEDURE p AS SELECT 1 AS one", "", "DROP PROCEDURE p", 3701),
        ("VIEW v AS SELECT 1 AS one", "", "SELECT * FROM v", 208),
        ("VIEW v AS SELECT 1 AS one", "", "DROP VIEW v", 3701),
        ("SEQUENCE s AS int", "", "DROP SEQUENCE s", 3701),
        ("SYNONYM n FOR z", "", "DROP SYNONYM n", 3701),
        ("FUNCTION f() RETURNS int AS BEGIN RETURN 1 END", "", "SELECT dbo.f()", 4121),
        ("TYPE u FROM int", "", "DROP TYPE u", 218),
        ("VIEW v AS SELECT 1 AS one", "ALTER VIEW v AS SELECT 2 AS two", "SELECT one FROM v", 0),
    ],
)
def test_other_objects(sessions, create, change, statement, error):
    if change:
        sessions.looking.execute(f"CREATE {create}")
    sessions.begin(change or f"CREATE {create}")
    assert sessions.after("ROLLBACK", statement) == error


def test_a_definition_that_changed_while_its_rows_were_waited_for(sessions):
    """The lock that is waited for may be one of rows, and the DDL come after it."""
    sessions.looking.execute(TABLE)
    sessions.begin("INSERT z VALUES (3, 4)")
    statement = sessions.waiting("ALTER TABLE z ADD w int")
    sessions.first.execute("ALTER TABLE z DROP COLUMN k")
    sessions.first.execute("COMMIT")
    assert statement.end() == 0
    assert sessions.rows(COLUMNS) == [("x",), ("w",)]
    assert sessions.rows("SELECT x, w FROM z ORDER BY x") == [(1, None), (3, None)]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("GRANT SELECT ON z TO public", 15151),
        ("CREATE TRIGGER tz ON z AFTER INSERT AS SELECT 1 AS one", 8197),
        ("ALTER TABLE c ADD CONSTRAINT fk FOREIGN KEY (x) REFERENCES z (x)", 1767),
        ("DROP VIEW v", 3701),
    ],
)
def test_what_was_dropped_while_another_definition_was_waited_for(sessions, statement, error):
    sessions.looking.execute("CREATE TABLE z (x int NOT NULL PRIMARY KEY); CREATE TABLE c (x int)")
    sessions.looking.execute("CREATE VIEW v AS SELECT 1 AS one")
    sessions.begin("CREATE TABLE something (x int)", "INSERT c VALUES (1)")
    waiting = sessions.waiting(statement)
    sessions.first.execute("DROP TABLE z")
    sessions.first.execute("DROP VIEW v")
    sessions.first.execute("COMMIT")
    assert waiting.end() == error
    assert sessions.rows("SELECT name FROM sys.triggers") == []
    assert sessions.rows("SELECT 1 FROM sys.database_permissions WHERE major_id > 0") == []
    assert sessions.rows("SELECT name FROM sys.foreign_keys") == []


def test_in_a_transaction_of_its_own(sessions):
    sessions.looking.execute(TABLE)
    sessions.begin("ALTER TABLE z DROP COLUMN x")
    sessions.second.execute("BEGIN TRANSACTION")
    assert sessions.after("ROLLBACK", "ALTER TABLE z ADD w int") == 0
    sessions.second.execute("COMMIT")
    assert sessions.rows("SELECT * FROM z") == [(1, 2, None)]


def test_a_lock_timeout_ends_the_wait(sessions):
    sessions.begin(NEW)
    sessions.second.execute("SET LOCK_TIMEOUT 0")
    for sql in ("INSERT z VALUES (1)", "DROP TABLE z", "ALTER TABLE z ADD w int"):
        with pytest.raises(pyodbc.Error) as raised:
            sessions.second.execute(sql)
        assert number_of(raised.value) == 1222


def test_two_that_wait_for_each_other(sessions):
    sessions.looking.execute(TABLE)
    sessions.second.execute("BEGIN TRANSACTION")
    sessions.second.execute("INSERT z VALUES (3, 4)")
    sessions.begin("CREATE TABLE w (x int)")
    statement = sessions.waiting("SELECT * FROM w")
    errors = set()
    try:
        sessions.first.execute("DROP TABLE z")
        sessions.first.execute("COMMIT")
    except pyodbc.Error as error:
        errors.add(number_of(error))
    errors.add(statement.end())
    assert 1205 in errors


def test_what_nobody_is_changing_waits_for_nobody(sessions):
    sessions.looking.execute(TABLE)
    sessions.begin("CREATE TABLE other (x int)")
    assert sessions.rows("SELECT * FROM z") == [(1, 2)]
    sessions.second.execute("SET LOCK_TIMEOUT 0")
    assert [tuple(r) for r in sessions.second.execute("SELECT x FROM z").fetchall()] == [(1,)]
