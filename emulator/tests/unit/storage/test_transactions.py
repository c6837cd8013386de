from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from emulator.tests.unit.storage.conftest import Background, rid_of, rows, wait_until_blocked
from tailrace_emulator.log.records import RowChange
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.transaction import StatementRestart, StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.fetching import fetch

Connect = Callable[[], StoreSession]


def test_nobody_sees_uncommitted_rows(connect: Connect, store: StoreSession, table: Table) -> None:
    other = connect()
    store.begin()
    store.insert(table, [(1, "a", 1)])
    assert rows(store, table) == [(1, "a", 1)]
    assert rows(other, table) == []
    store.commit()
    assert rows(other, table) == [(1, "a", 1)]


@pytest.mark.parametrize(
    ("act", "number"),
    [
        (lambda s: s.commit(), 3902),
        (lambda s: s.rollback(), 3903),
        (lambda s: s.rollback_to("x"), 3903),
        (lambda s: s.savepoint("x"), 628),
    ],
)
def test_transaction_statements_outside_one(
    store: StoreSession, act: Callable[[StoreSession], object], number: int
) -> None:
    with pytest.raises(SqlError) as raised:
        act(store)
    assert raised.value.number == number


def test_nested_transactions_only_count(store: StoreSession, table: Table) -> None:
    store.begin()
    descriptor = store.descriptor
    store.begin()
    store.insert(table, [(1, "a", 1)])
    assert store.commit() is None
    assert store.trancount == 1
    assert store.descriptor == descriptor != 0
    assert store.commit() is not None
    assert (store.trancount, store.descriptor) == (0, 0)


def test_rollback_ends_every_level(store: StoreSession, table: Table) -> None:
    store.begin()
    store.begin()
    store.insert(table, [(1, "a", 1)])
    store.rollback()
    assert store.trancount == 0
    assert rows(store, table) == []


def test_a_failed_statement_leaves_the_transaction_as_it_was(
    store: StoreSession, table: Table, database: Database
) -> None:
    store.begin()
    store.insert(table, [(1, "a", 1)])
    with pytest.raises(SqlError, match="2627"):
        store.insert(table, [(2, "b", 2), (1, "again", 3)])

    def failing() -> None:
        with store.statement():
            store.insert(table, [(3, "c", 3)])
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        failing()
    store.commit()
    assert rows(store, table) == [(1, "a", 1)]
    (transaction,) = database.log.committed(None, 10)
    assert [c.command_id for c in transaction.changes if isinstance(c, RowChange)] == [1]


def test_a_statement_of_several_operations_is_one(store: StoreSession, table: Table) -> None:
    store.insert(table, [(1, "a", 1), (2, "b", 2)])

    def failing_2() -> None:
        with store.statement("MERGE"):
            store.delete(table, [rid_of(store, table, 1)])
            store.insert(table, [(3, "c", 3), (2, "again", 3)])

    with pytest.raises(SqlError, match="2627"):
        failing_2()
    assert rows(store, table) == [(1, "a", 1), (2, "b", 2)]


def test_log_order_is_commit_order(
    connect: Connect, store: StoreSession, table: Table, database: Database, clock: ManualClock
) -> None:
    second = connect()
    store.begin()
    store.insert(table, [(1, "first to begin", 1)])
    clock.advance(1)
    second.begin()
    second.insert(table, [(2, "first to commit", 1)])
    store.insert(table, [(3, "between", 1)])
    clock.advance(1)
    early = second.commit()
    clock.advance(1)
    late = store.commit()
    assert early is not None
    assert late is not None
    assert early < late
    transactions = list(database.log.committed(None, 10))
    assert [t.commit_lsn for t in transactions] == [early, late]
    inner, outer = transactions
    # The earlier transaction began before the other, and its records lie round the other's.
    assert outer.begin_lsn < inner.begin_lsn < inner.commit_lsn < outer.commit_lsn
    assert outer.begin_ticks < inner.begin_ticks < inner.commit_ticks < outer.commit_ticks
    assert inner.tran_id != outer.tran_id
    changes = [c for c in outer.changes if isinstance(c, RowChange)]
    assert [c.after for c in changes] == [(1, "first to begin", 1), (3, "between", 1)]
    assert outer.begin_lsn < changes[0].seqval < inner.begin_lsn < changes[1].seqval
    assert database.log.last_commit() == late


def test_savepoints(store: StoreSession, table: Table, database: Database) -> None:
    store.insert(table, [(1, "a", 1), (2, "b", 2)])
    first = database.log.last_commit()
    store.begin()
    store.update(table, [(rid_of(store, table, 1), (1, "kept", 1))])
    store.savepoint("s")
    store.update(table, [(rid_of(store, table, 1), (10, "undone", 1))])
    store.delete(table, [rid_of(store, table, 2)])
    store.insert(table, [(3, "undone", 3)])
    store.rollback_to("s")
    assert rows(store, table) == [(1, "kept", 1), (2, "b", 2)]
    store.insert(table, [(4, "kept", 4)])
    store.rollback_to("s")
    store.insert(table, [(5, "kept", 5)])
    store.commit()
    assert rows(store, table) == [(1, "kept", 1), (2, "b", 2), (5, "kept", 5)]
    (transaction,) = database.log.committed(first, 10)
    changes = [c for c in transaction.changes if isinstance(c, RowChange)]
    assert [(c.command_id, c.after) for c in changes] == [
        (1, (1, "kept", 1)),
        (2, (5, "kept", 5)),
    ]


def test_a_savepoint_undoes_keys_that_moved_from_row_to_row(
    store: StoreSession, table: Table
) -> None:
    store.begin()
    store.insert(table, [(1, "a", 1), (2, "b", 2)])
    one, two = rid_of(store, table, 1), rid_of(store, table, 2)
    store.savepoint("s")
    for _ in range(2):
        store.update(table, [(one, (2, "a", 1)), (two, (3, "b", 2))])
        store.update(table, [(one, (3, "a", 1)), (two, (2, "b", 2))])
        store.rollback_to("s")
        assert rows(store, table) == [(1, "a", 1), (2, "b", 2)]
    store.rollback()


def test_an_unknown_savepoint(store: StoreSession) -> None:
    store.begin()
    store.savepoint("known")
    with pytest.raises(SqlError, match="Cannot roll back unknown") as raised:
        store.rollback_to("unknown")
    assert raised.value.number == 6401
    store.rollback()


def test_a_writer_waits_for_the_row_and_then_reads_it_again(
    engine: Engine, connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    store.insert(table, [(1, "a", 0)])
    rid = rid_of(store, table, 1)
    attempts = []

    def increment() -> None:
        def body() -> None:
            attempts.append(1)
            ((n,),) = fetch(
                other.connection,
                f"SELECT c3 FROM {other.reads.source(table)} WHERE rid = ?",
                (rid,),
            )
            other.update(table, [(rid, (1, "a", n + 1))])

        other.run(body, "UPDATE")

    store.begin()
    store.update(table, [(rid, (1, "a", 10))])
    waiting = Background(increment)
    wait_until_blocked(engine)
    store.commit()
    waiting.join()
    assert rows(store, table) == [(1, "a", 11)], "an update was lost"
    assert len(attempts) == 2


def test_after_a_rollback_the_waiter_goes_on(
    engine: Engine, connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    store.begin()
    store.insert(table, [(1, "rolled back", 1)])
    waiting = Background(lambda: other.insert(table, [(1, "b", 2)]))
    wait_until_blocked(engine)
    store.rollback()
    waiting.join()
    assert rows(store, table) == [(1, "b", 2)]


def test_after_a_commit_the_waiter_has_a_duplicate(
    engine: Engine, connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    store.begin()
    store.insert(table, [(1, "a", 1)])
    waiting = Background(lambda: other.insert(table, [(1, "b", 2)]))
    wait_until_blocked(engine)
    store.commit()
    with pytest.raises(SqlError, match="2627"):
        waiting.join()


def test_a_key_that_is_being_deleted_is_waited_for(
    engine: Engine, connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    store.insert(table, [(1, "a", 1)])
    store.begin()
    store.delete(table, [rid_of(store, table, 1)])
    waiting = Background(lambda: other.insert(table, [(1, "b", 2)]))
    wait_until_blocked(engine)
    store.commit()
    waiting.join()
    assert rows(store, table) == [(1, "b", 2)]


def test_a_stale_row_restarts_the_statement(
    connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    store.insert(table, [(1, "a", 1), (2, "b", 2)])
    one, two = rid_of(store, table, 1), rid_of(store, table, 2)
    store.begin()

    def failing_3() -> None:
        with store.statement():
            rows(store, table)
            other.update(table, [(one, (1, "other", 1))])
            store.update(table, [(one, (1, "mine", 1))])

    with pytest.raises(StatementRestart):
        failing_3()
    with store.statement():
        rows(store, table)
        other.update(table, [(two, (2, "other", 2))])
        store.update(table, [(one, (1, "mine", 1))])
    store.commit()
    assert rows(store, table) == [(1, "mine", 1), (2, "other", 2)]


def test_lock_timeout(connect: Connect, store: StoreSession, table: Table) -> None:
    other = connect()
    other.lock_timeout_ms = 10
    store.insert(table, [(1, "a", 1)])
    rid = rid_of(store, table, 1)
    store.begin()
    store.delete(table, [rid])
    with pytest.raises(SqlError) as raised:
        other.update(table, [(rid, (1, "b", 1))])
    assert raised.value.number == 1222
    assert raised.value.message == "Lock request time out period exceeded."
    store.rollback()
    other.update(table, [(rid, (1, "b", 1))])


def test_a_deadlock_has_one_victim(
    engine: Engine, connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    store.insert(table, [(1, "a", 1), (2, "b", 2)])
    one, two = rid_of(store, table, 1), rid_of(store, table, 2)
    store.begin()
    other.begin()
    store.update(table, [(one, (1, "store", 1))])
    other.update(table, [(two, (2, "other", 2))])
    waiting = Background(lambda: store.update(table, [(two, (2, "store", 2))]))
    wait_until_blocked(engine)
    with pytest.raises(SqlError, match=r"Process ID 52\) was deadlocked") as raised:
        other.update(table, [(one, (1, "other", 1))])
    assert raised.value.number == 1205
    assert raised.value.aborts == "transaction"
    other.rollback()
    waiting.join()
    store.commit()
    assert rows(store, table) == [(1, "store", 1), (2, "store", 2)]


def test_a_wait_can_be_cancelled(
    engine: Engine, connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    other.cancelled = threading.Event()
    store.begin()
    store.insert(table, [(1, "a", 1)])
    waiting = Background(lambda: other.insert(table, [(1, "b", 2)]))
    wait_until_blocked(engine)
    other.cancelled.set()
    with pytest.raises(SqlError, match="3617"):
        waiting.join()
    store.rollback()


def test_many_locks_become_a_table_lock(
    connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    other.lock_timeout_ms = 0
    other.insert(table, [(-1, "elsewhere", 0)])
    rid = rid_of(other, table, -1)
    store.begin()
    store.insert(table, [(n, "x", n) for n in range(6000)])
    with pytest.raises(SqlError, match="1222"):
        other.update(table, [(rid, (-1, "blocked", 0))])
    store.commit()
    other.update(table, [(rid, (-1, "free", 0))])


def test_snapshot_isolation(
    connect: Connect, store: StoreSession, table: Table, database: Database, engine: Engine
) -> None:
    with engine.write() as connection:
        database.set_option("snapshot_isolation_state", 1, connection)
    other = connect()
    store.insert(table, [(1, "a", 1), (2, "b", 2)])
    one, two = rid_of(store, table, 1), rid_of(store, table, 2)
    store.isolation = "snapshot"
    store.begin()
    assert len(rows(store, table)) == 2
    other.insert(table, [(3, "later", 3)])
    other.update(table, [(one, (1, "later", 1))])
    assert rows(store, table) == [(1, "a", 1), (2, "b", 2)]
    store.update(table, [(two, (2, "mine", 2))])
    assert rows(store, table) == [(1, "a", 1), (2, "mine", 2)]
    with pytest.raises(SqlError, match="2627"):
        store.insert(table, [(3, "meets one that it cannot see", 3)])
    with pytest.raises(SqlError) as raised:
        store.update(table, [(one, (1, "mine", 1))])
    assert raised.value.number == 3960
    assert "table 'dbo.t'" in raised.value.message
    assert "database 'shop'" in raised.value.message
    store.commit()
    assert rows(store, table) == [(1, "later", 1), (2, "mine", 2), (3, "later", 3)]


def test_snapshot_isolation_must_be_allowed(store: StoreSession, table: Table) -> None:
    store.isolation = "snapshot"
    store.begin()
    with pytest.raises(SqlError, match="3952"):
        store.reads.read(table)
    store.rollback()


def test_serializable_reads_hold_off_writers(
    connect: Connect, store: StoreSession, table: Table
) -> None:
    other = connect()
    other.lock_timeout_ms = 0
    store.isolation = "serializable"
    store.begin()
    assert rows(store, table) == []
    with pytest.raises(SqlError, match="1222"):
        other.insert(table, [(1, "phantom", 1)])
    store.commit()
    other.insert(table, [(1, "a", 1)])


def test_a_closed_session_rolls_back(engine: Engine, connect: Connect, table: Table) -> None:
    leaving = StoreSession(engine, 99)
    leaving.begin()
    leaving.insert(table, [(1, "a", 1)])
    leaving.close()
    other = connect()
    assert rows(other, table) == []
    other.insert(table, [(1, "b", 1)])


def test_concurrent_increments_lose_nothing(
    connect: Connect, store: StoreSession, table: Table
) -> None:
    store.insert(table, [(1, "counter", 0)])
    rid = rid_of(store, table, 1)

    def work(session: StoreSession) -> None:
        def body() -> None:
            ((n,),) = fetch(
                session.connection,
                f"SELECT c3 FROM {session.reads.source(table)} WHERE rid = ?",
                (rid,),
            )
            session.update(table, [(rid, (1, "counter", n + 1))])

        for _ in range(50):
            session.run(body)

    sessions = [connect() for _ in range(4)]
    workers = [Background(partial(work, session)) for session in sessions]
    for worker in workers:
        worker.join()
    assert rows(store, table) == [(1, "counter", 200)]


def test_a_transaction_may_begin_inside_a_statement(
    connect: Connect, store: StoreSession, table: Table
) -> None:
    """INSERT .. EXEC of a procedure with transactions in it."""
    with store.statement():
        store.begin()
        store.insert(table, [(1, "a", 1)])
        assert store.commit() is None
        store.insert(table, [(2, "b", 2)])
    assert store.trancount == 0
    assert len(rows(connect(), table)) == 2
    store.begin()
    with store.statement():
        with pytest.raises(SqlError, match="3916"):
            store.commit()
        with pytest.raises(SqlError, match="3915"):
            store.rollback()
        store.begin()
    assert store.trancount == 2
    store.rollback()


def test_a_row_that_a_statement_names_twice_counts_once(
    store: StoreSession, table: Table, database: Database
) -> None:
    store.insert(table, [(1, "a", 1)])
    rid = rid_of(store, table, 1)
    assert store.update(table, [(rid, (1, "first", 1)), (rid, (1, "second", 1))]) == 1
    assert rows(store, table) == [(1, "first", 1)]
    assert store.delete(table, [rid, rid]) == 1
    assert [t.change_count for t in database.log.committed(None, 9)] == [1, 1, 1]


def test_locked_rows_hold_off_writers(connect: Connect, store: StoreSession, table: Table) -> None:
    other = connect()
    other.lock_timeout_ms = 0
    store.insert(table, [(1, "a", 1)])
    rid = rid_of(store, table, 1)
    store.begin()
    with store.statement():
        store.lock_rows(table, [rid])
    with pytest.raises(SqlError, match="1222"):
        other.delete(table, [rid])
    store.commit()
    assert other.delete(table, [rid]) == 1


def test_commit_times_never_go_back(
    store: StoreSession, table: Table, database: Database, clock: ManualClock
) -> None:
    store.insert(table, [(1, "a", 1)])
    clock.advance(-60)
    store.insert(table, [(2, "b", 2)])
    first, second = database.log.committed(None, 9)
    assert second.commit_ticks >= first.commit_ticks
