"""What a session waits for: isolation levels, table hints, deadlocks, in two sessions and more."""

from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from emulator.tests.unit.tsql.conftest import Session

TIMEOUT = 1222
WAIT_S = 30


@pytest.fixture
def bank(sql, other):
    """Accounts 1 to 5; the second session gives up at once where it would have to wait."""
    sql(
        "CREATE TABLE account (id int NOT NULL PRIMARY KEY, owner varchar(10) NOT NULL,"
        " balance int NOT NULL); CREATE INDEX by_owner ON account (owner);"
        " INSERT account VALUES (1,'a',10), (2,'b',20), (3,'c',30), (4,'d',40), (5,'e',50)"
    )
    other("SET LOCK_TIMEOUT 0")
    return sql


def waits(session, query):
    """Whether a query gives up because it would have to wait; its rows otherwise."""
    outcome = session(query)
    if outcome.errors == [TIMEOUT]:
        assert outcome.texts == ["Lock request time out period exceeded."]
        return True
    assert not outcome.errors, outcome.texts
    return outcome.rows if outcome.sets else outcome.counts


@pytest.mark.parametrize(
    ("change", "query"),
    [
        ("UPDATE account SET balance = 0 WHERE id = 2", "SELECT * FROM account WHERE id = 2"),
        ("UPDATE account SET balance = 0 WHERE id = 2", "SELECT COUNT(*) FROM account"),
        ("UPDATE account SET balance = 0 WHERE id = 2", "SELECT id FROM account WHERE balance = 1"),
        ("UPDATE account SET owner = 'z' WHERE id = 2", "SELECT id FROM account WHERE owner = 'z'"),
        ("UPDATE account SET owner = 'z' WHERE id = 2", "SELECT id FROM account WHERE owner = 'b'"),
        ("UPDATE account SET id = 9 WHERE id = 2", "SELECT id FROM account WHERE id = 9"),
        ("DELETE account WHERE id = 2", "SELECT * FROM account WHERE id = 2"),
        ("INSERT account VALUES (6,'f',60)", "SELECT COUNT(*) FROM account"),
        ("INSERT account VALUES (6,'f',60)", "SELECT id FROM account WHERE id = 6"),
        ("INSERT account VALUES (6,'f',60)", "SELECT id FROM account WHERE owner = 'f'"),
        ("DELETE account WHERE id = 2", "UPDATE account SET balance = 1 WHERE balance = 77"),
        ("INSERT account VALUES (6,'f',60)", "DELETE account WHERE id = 6"),
        ("DELETE account WHERE id = 2", "IF EXISTS (SELECT * FROM account WHERE id = 2) SELECT 1"),
        ("DELETE account WHERE id = 2", "INSERT account SELECT 10 + id, owner, 0 FROM account"),
        ("DELETE account WHERE id = 2", "SELECT * FROM account (TABLOCK) WHERE id = 1"),
        (
            "INSERT account SELECT 100 + a.id * 6000 + n.n, 'm', 0 FROM account AS a CROSS JOIN"
            " (SELECT TOP 1500 ROW_NUMBER() OVER (ORDER BY (SELECT 1)) AS n FROM account a,"
            " account b, account c, account d, account e) AS n",
            "SELECT * FROM account WHERE id = 1",
        ),
    ],
)
def test_read_committed_waits_for_rows_that_others_changed(bank, other, change, query):
    bank("BEGIN TRAN")
    assert not bank(change).errors
    assert waits(other, query) is True
    bank("ROLLBACK")
    assert waits(other, query) is not True


@pytest.mark.parametrize(
    "query",
    [
        "SELECT balance FROM account WHERE id = 1",
        "SELECT balance FROM account WHERE owner = 'a'",
        "SELECT balance FROM account WHERE id < 2",
    ],
)
def test_read_committed_does_not_wait_for_rows_that_it_does_not_read(bank, other, query):
    bank("BEGIN TRAN; UPDATE account SET balance = 0 WHERE id = 2; INSERT account VALUES (7,'g',0)")
    assert waits(other, query) == [(10,)]
    assert bank("SELECT balance FROM account WHERE id IN (1, 2, 7)").rows == [(10,), (0,), (0,)]


def test_reader_goes_on_with_the_new_version_once_it_is_committed(bank, other):
    other("SET LOCK_TIMEOUT -1")
    bank("BEGIN TRAN; UPDATE account SET balance = 99 WHERE id = 2; DELETE account WHERE id = 3")
    bank("INSERT account VALUES (8,'h',80)")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(other, "SELECT id, balance FROM account ORDER BY id")
        wait_until_blocked(bank.context.engine)
        bank("COMMIT")
        assert reading.result(WAIT_S).rows == [(1, 10), (2, 99), (4, 40), (5, 50), (8, 80)]


def wait_until_blocked(engine, sessions=1):
    deadline = monotonic() + WAIT_S
    while engine.locks.waiters < sessions:
        assert monotonic() < deadline


def test_read_committed_snapshot_never_waits(bank, other):
    bank("ALTER DATABASE shop SET READ_COMMITTED_SNAPSHOT ON")
    bank("BEGIN TRAN; UPDATE account SET balance = 0; INSERT account VALUES (9,'i',0)")
    assert waits(other, "SELECT SUM(balance) FROM account") == [(150,)]
    assert waits(other, "SELECT SUM(balance) FROM account WITH (READCOMMITTEDLOCK)") is True
    assert waits(other, "UPDATE account SET balance = 1 WHERE id = 1") is True


def test_read_uncommitted_sees_what_is_not_committed(bank, other):
    bank("BEGIN TRAN; UPDATE account SET balance = 0 WHERE id = 2; DELETE account WHERE id = 3")
    bank("INSERT account VALUES (9,'i',90)")
    expected = [(1, 10), (2, 0), (4, 40), (5, 50), (9, 90)]
    assert waits(other, "SELECT id, balance FROM account WITH (NOLOCK) ORDER BY id") == expected
    other("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    assert waits(other, "SELECT id, balance FROM account ORDER BY id") == expected
    other("BEGIN TRAN; UPDATE account SET balance = 41 WHERE id = 4")
    assert waits(other, "SELECT SUM(balance) FROM account WHERE id IN (2, 4, 9)") == [(131,)]
    bank("ROLLBACK")
    assert waits(other, "SELECT COUNT(*), SUM(balance) FROM account") == [(5, 151)]


def test_repeatable_read_keeps_what_it_read(bank, other):
    bank("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRAN")
    assert bank("SELECT balance FROM account WHERE id = 2").rows == [(20,)]
    assert waits(other, "UPDATE account SET balance = 0 WHERE id = 2") is True
    assert waits(other, "UPDATE account SET balance = 11 WHERE id = 1") == [1]
    assert waits(other, "SELECT balance FROM account WHERE id = 2") == [(20,)]
    assert waits(other, "INSERT account VALUES (6,'f',60)") == [1]
    bank("COMMIT")
    assert waits(other, "UPDATE account SET balance = 0 WHERE id = 2") == [1]


def test_serializable_keeps_others_from_adding_rows(bank, other):
    bank("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRAN")
    assert bank("SELECT COUNT(*) FROM account WHERE id > 3").rows == [(2,)]
    assert waits(other, "INSERT account VALUES (6,'f',60)") is True
    assert waits(other, "SELECT COUNT(*) FROM account") == [(5,)]
    bank("COMMIT")
    assert waits(other, "INSERT account VALUES (6,'f',60)") == [1]


def test_update_locks_are_beside_readers_but_not_beside_each_other(bank, other):
    bank("BEGIN TRAN; SELECT * FROM account WITH (UPDLOCK) WHERE id = 2")
    assert waits(other, "SELECT balance FROM account WHERE id = 2") == [(20,)]
    other("BEGIN TRAN")
    assert waits(other, "SELECT * FROM account WITH (UPDLOCK) WHERE id = 2") is True
    assert waits(other, "SELECT balance FROM account WITH (UPDLOCK) WHERE id = 1") == [(10,)]
    assert waits(other, "UPDATE account SET balance = 0 WHERE id = 2") is True
    bank("UPDATE account SET balance = 21 WHERE id = 2; COMMIT")
    assert waits(other, "SELECT balance FROM account WITH (UPDLOCK) WHERE id = 2") == [(21,)]
    other("COMMIT")


HELD_ROW_2 = "BEGIN TRAN; SELECT * FROM account WITH ({}) WHERE id = 2"


@pytest.mark.parametrize(
    ("held", "query"),
    [
        ("UPDLOCK", "SELECT balance FROM account WITH (UPDLOCK) WHERE id = 2"),
        ("UPDLOCK", "SELECT balance FROM account WITH (XLOCK) WHERE id = 2"),
        ("UPDLOCK", "SELECT balance FROM account WITH (UPDLOCK, HOLDLOCK)"),
        ("UPDLOCK", "DECLARE @b int; SELECT @b = balance FROM account WITH (UPDLOCK) WHERE id = 2"),
        ("UPDLOCK", "IF EXISTS (SELECT 1 FROM account WITH (UPDLOCK) WHERE id = 2) SELECT 1"),
        ("XLOCK", "SELECT balance FROM account WITH (REPEATABLEREAD) WHERE id = 2"),
        ("XLOCK", "SELECT balance FROM account WITH (SERIALIZABLE) WHERE id = 2"),
    ],
)
def test_locks_that_a_query_alone_does_not_keep_are_waited_for_all_the_same(
    bank, other, held, query
):
    bank(HELD_ROW_2.format(held))
    assert waits(other, query) is True
    bank("COMMIT")
    assert waits(other, query) is not True
    assert not bank.context.engine.locks.waiters
    assert waits(bank, "UPDATE account SET balance = 21") == [5]


def test_a_query_alone_passes_locks_by_with_readpast(bank, other):
    bank(HELD_ROW_2.format("UPDLOCK"))
    take = "SELECT TOP (1) id FROM account WITH (UPDLOCK, READPAST) WHERE id > 1 ORDER BY id"
    assert waits(other, take) == [(3,)]
    shared = "SELECT COUNT(*) FROM account WITH (REPEATABLEREAD)"
    assert waits(other, shared) == [(5,)]


def test_update_lock_on_a_range_lets_others_read(bank, other):
    bank("BEGIN TRAN; SELECT * FROM account WITH (UPDLOCK, HOLDLOCK) WHERE id = 7")
    assert waits(other, "SELECT COUNT(*) FROM account") == [(5,)]
    assert waits(other, "INSERT account VALUES (7,'g',70)") is True
    bank("INSERT account VALUES (7,'g',71); COMMIT")
    assert other("INSERT account VALUES (7,'g',70)").errors == [2627]


def test_exclusive_locks_keep_readers_away(bank, other):
    bank("BEGIN TRAN; SELECT * FROM account WITH (XLOCK, ROWLOCK) WHERE id = 2")
    assert waits(other, "UPDATE account SET balance = 0 WHERE id = 2") is True
    assert waits(other, "SELECT balance FROM account WHERE id = 1") == [(10,)]
    bank("COMMIT; BEGIN TRAN; SELECT TOP (1) 1 FROM account WITH (TABLOCKX)")
    assert waits(other, "SELECT balance FROM account WHERE id = 1") is True
    assert waits(other, "SELECT balance FROM account WITH (NOLOCK) WHERE id = 1") == [(10,)]
    bank("COMMIT")


@pytest.mark.parametrize(
    ("database", "session", "hints", "is_refused"),
    [
        ("", "READ COMMITTED", "READPAST", False),
        ("", "REPEATABLE READ", "READPAST", False),
        ("", "READ UNCOMMITTED", "READPAST", True),
        ("", "SERIALIZABLE", "READPAST", True),
        ("ALLOW_SNAPSHOT_ISOLATION", "SNAPSHOT", "READPAST", True),
        ("ALLOW_SNAPSHOT_ISOLATION", "SNAPSHOT", "UPDLOCK, READPAST", False),
        ("ALLOW_SNAPSHOT_ISOLATION", "SNAPSHOT", "HOLDLOCK, READPAST", False),
        ("ALLOW_SNAPSHOT_ISOLATION", "SNAPSHOT", "READCOMMITTEDLOCK, READPAST", False),
        ("READ_COMMITTED_SNAPSHOT", "READ COMMITTED", "READPAST", True),
        ("READ_COMMITTED_SNAPSHOT", "READ COMMITTED", "READCOMMITTED, READPAST", True),
        ("READ_COMMITTED_SNAPSHOT", "READ COMMITTED", "READCOMMITTEDLOCK, READPAST", False),
    ],
)
def test_readpast_is_refused_where_row_versions_are_read(
    bank, other, database, session, hints, is_refused
):
    if database:
        assert not bank(f"ALTER DATABASE CURRENT SET {database} ON").errors
    assert not other(f"SET TRANSACTION ISOLATION LEVEL {session}").errors
    found = other(f"SELECT balance FROM account WITH ({hints}) WHERE id = 1")
    assert found.errors == ([650] if is_refused else [])


def test_a_queue_is_worked_off_by_several_with_readpast(bank, engine, other):
    take = (
        "BEGIN TRAN; DELETE TOP (1) FROM account WITH (ROWLOCK, READPAST, UPDLOCK)"
        " OUTPUT deleted.id"
    )
    third = Session(engine, 53)
    assert bank(take).rows == [(1,)]
    assert other(take).rows == [(2,)]
    assert third(take).rows == [(3,)]
    assert waits(other, "SELECT id FROM account WITH (READPAST) ORDER BY id") == [(4,), (5,)]
    bank("ROLLBACK")
    other("COMMIT")
    third("COMMIT")
    assert waits(other, "SELECT id FROM account ORDER BY id") == [(1,), (4,), (5,)]
    third.context.store.close()


def test_nowait_gives_up_at_once(bank, other):
    other("SET LOCK_TIMEOUT -1")
    bank("BEGIN TRAN; UPDATE account SET balance = 0 WHERE id = 2")
    assert waits(other, "SELECT * FROM account WITH (NOWAIT) WHERE id = 2") is True
    assert waits(other, "SELECT balance FROM account WITH (NOWAIT) WHERE id = 1") == [(10,)]


def test_snapshot_needs_leave_and_refuses_to_overwrite(bank, other):
    other("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN")
    assert other("SELECT * FROM account").errors == [3952]
    bank("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
    other("BEGIN TRAN")
    assert other("SELECT SUM(balance) FROM account").rows == [(150,)]
    bank("UPDATE account SET balance = 0 WHERE id = 2")
    assert other("SELECT SUM(balance) FROM account").rows == [(150,)]
    outcome = other("UPDATE account SET balance = balance + 1 WHERE id = 2")
    assert outcome.errors == [3960]
    assert other.value("@@TRANCOUNT") == 0


@pytest.mark.parametrize(
    ("first", "second", "victim"),
    [("NORMAL", "NORMAL", 52), ("LOW", "NORMAL", 51), ("NORMAL", "HIGH", 51), ("-6", "-7", 52)],
)
def test_deadlock_has_one_victim(bank, other, engine, first, second, victim):
    """The one of lower priority; among equals the one that closes the circle."""
    assert not bank(f"SET DEADLOCK_PRIORITY {first}").errors
    assert not other(f"SET DEADLOCK_PRIORITY {second}").errors
    for session in (bank, other):
        session("SET LOCK_TIMEOUT -1")
    bank("BEGIN TRAN; UPDATE account SET balance = 1 WHERE id = 1")
    other("BEGIN TRAN; UPDATE account SET balance = 2 WHERE id = 2")
    with ThreadPoolExecutor(2) as pool:
        running = {bank: pool.submit(bank, "UPDATE account SET balance = 1 WHERE id = 2")}
        wait_until_blocked(engine)
        running[other] = pool.submit(other, "UPDATE account SET balance = 2 WHERE id = 1")
        loser, winner = (bank, other) if victim == 51 else (other, bank)
        outcome = running[loser].result(WAIT_S)
        assert running[winner].result(WAIT_S).errors == []
    assert outcome.errors == [1205]
    assert f"Transaction (Process ID {victim}) was deadlocked on lock res" in outcome.texts[0]
    assert loser.value("@@TRANCOUNT") == 0
    winner("COMMIT")
    kept = 1 if winner is bank else 2
    assert winner("SELECT balance FROM account WHERE id < 3").rows == [(kept,), (kept,)]


def test_locks_and_who_waits_can_be_seen(bank, other, engine):
    other("SET LOCK_TIMEOUT -1")
    bank("BEGIN TRAN; UPDATE account SET balance = 1 WHERE id = 2")
    held = (
        "SELECT resource_type, request_mode, request_status FROM sys.dm_tran_locks"
        " WHERE request_session_id = {} AND resource_type IN ('KEY', 'RID', 'OBJECT')"
        " ORDER BY resource_type"
    )
    assert bank(held.format(51)).rows == [("KEY", "X", "GRANT"), ("OBJECT", "IX", "GRANT")]
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(other, "SELECT * FROM account WHERE id = 2")
        wait_until_blocked(engine)
        blocked = bank(
            "SELECT session_id, status, blocking_session_id FROM sys.dm_exec_requests"
            " WHERE blocking_session_id <> 0"
        ).rows
        waiting = bank(held.format(52)).rows
        bank("COMMIT")
        reading.result(WAIT_S)
    assert blocked == [(52, "suspended", 51)]
    assert waiting == [("KEY", "S", "WAIT")]
    assert bank(held.format(51)).rows == []


UNDONE = [
    ("UPDATE account SET balance = 0 WHERE id = 2", "SELECT balance FROM account", 5),
    ("UPDATE account SET owner = 'z' WHERE id = 2", "SELECT id FROM account WHERE owner = 'z'", 0),
    ("UPDATE account SET id = 9 WHERE id = 2", "SELECT id FROM account WHERE id IN (2, 9)", 1),
    ("DELETE account WHERE id = 2", "SELECT id FROM account WHERE id = 2", 1),
    ("INSERT account VALUES (6,'f',60)", "SELECT id FROM account", 5),
    ("INSERT account VALUES (6,'f',60)", "SELECT id FROM account (UPDLOCK) WHERE id = 6", 0),
    ("SELECT * FROM account (HOLDLOCK)", "UPDATE account SET balance = 1", 5),
    ("SELECT * FROM account (UPDLOCK) WHERE id = 2", "UPDATE account SET balance = 1", 5),
    ("SELECT * FROM account (TABLOCKX)", "SELECT id FROM account", 5),
    ("SELECT * FROM account (REPEATABLEREAD)", "DELETE account", 5),
    ("CREATE TABLE made (id int); ALTER TABLE account ADD c int", "SELECT id FROM account", 5),
]


@pytest.mark.parametrize("earlier", ["", "UPDATE account SET balance = 11 WHERE id = 1;"])
@pytest.mark.parametrize(("change", "query", "count"), UNDONE)
def test_a_savepoint_releases_what_was_locked_after_it(bank, other, change, query, count, earlier):
    """ROLLBACK TRANSACTION: "releases any locks that are acquired beyond the savepoint"."""
    assert not bank(f"BEGIN TRAN; {earlier} SAVE TRAN one; SAVE TRAN two").errors
    assert not bank(change).errors
    if "CREATE" not in change:
        assert waits(other, query) is True
    assert not bank("ROLLBACK TRAN one").errors
    if earlier:  # which stays locked
        assert waits(other, "SELECT balance FROM account WHERE id = 1") is True
        assert waits(other, "SELECT balance FROM account (NOLOCK) WHERE id = 1") == [(11,)]
        assert waits(other, "SELECT balance FROM account WHERE id = 2") == [(20,)]
        assert waits(other, "SELECT id FROM account (READPAST)") == [(2,), (3,), (4,), (5,)]
    else:
        found = waits(other, query)
        assert count in {found[0], len(found)} if found else count == 0
    assert waits(other, "UPDATE account SET balance += 1 WHERE id = 2") in ([1], [0])
    assert waits(other, "INSERT account VALUES (6,'f',60)") == [1]
    assert not bank("COMMIT").errors


def test_a_savepoint_keeps_escalated_and_converted_locks(bank, other):
    """ROLLBACK TRANSACTION: "with the exception of escalations and conversions"."""
    bank("BEGIN TRAN; SELECT * FROM account (UPDLOCK) WHERE id = 2; SAVE TRAN s")
    assert not bank("UPDATE account SET balance = 0 WHERE id = 2; ROLLBACK TRAN s").errors
    assert waits(other, "SELECT * FROM account WHERE id = 2") is True
    assert waits(other, "SELECT * FROM account WHERE id = 3") == [(3, "c", 30)]
    bank("ROLLBACK; BEGIN TRAN; SAVE TRAN s")
    many = (
        "INSERT account SELECT 100 + a.id * 6000 + n.n, 'm', 0 FROM account AS a CROSS JOIN (SELECT"
        " TOP 1500 ROW_NUMBER() OVER (ORDER BY (SELECT 1)) AS n FROM account a, account b,"
        " account c, account d, account e) AS n"
    )
    assert not bank(f"{many}; ROLLBACK TRAN s").errors
    assert waits(other, "SELECT * FROM account WHERE id = 3") is True
    bank("COMMIT")
    assert waits(other, "SELECT * FROM account WHERE id = 3") == [(3, "c", 30)]


def test_locks_before_an_inner_savepoint_stay(bank, other):
    bank("BEGIN TRAN; SAVE TRAN one; UPDATE account SET balance = 0 WHERE id = 1; SAVE TRAN two")
    bank("UPDATE account SET balance = 0 WHERE id IN (1, 2); ROLLBACK TRAN two")
    assert waits(other, "SELECT balance FROM account WHERE id = 1") is True
    assert waits(other, "SELECT balance FROM account (NOLOCK) WHERE id = 1") == [(0,)]
    assert waits(other, "SELECT balance FROM account WHERE id = 2") == [(20,)]
    bank("UPDATE account SET balance = 5 WHERE id = 2; ROLLBACK TRAN one")
    assert waits(other, "SELECT balance FROM account WHERE id < 3") == [(10,), (20,)]
    assert not bank("UPDATE account SET balance = 6 WHERE id = 2; COMMIT").errors
    assert waits(other, "SELECT balance FROM account WHERE id < 3") == [(10,), (6,)]


def test_a_savepoint_releases_application_locks(bank, other):
    get = "DECLARE @r int; EXEC @r = sp_getapplock 'name', 'Exclusive', 'Transaction', 0; SELECT @r"
    bank(f"BEGIN TRAN; SAVE TRAN s; {get}; ROLLBACK TRAN s")
    assert bank("SELECT APPLOCK_MODE('public', 'name', 'Transaction')").rows == [("NoLock",)]
    assert other(f"BEGIN TRAN; {get}; COMMIT").rows == [(0,)]
    bank("COMMIT")
