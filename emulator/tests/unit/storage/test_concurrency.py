"""Several threads at once: money moves between accounts, none is made or lost."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from emulator.tests.unit.storage.conftest import Background, rows
from tailrace_emulator.log.records import RowChange
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.model import Column, Table
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import INT

ACCOUNTS = 5
THREADS = 4
TRANSFERS = 150


@pytest.fixture(autouse=True)
def eager_switching() -> Iterator[None]:
    """Threads take turns far more often than usual, in the middle of everything."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def balance(store: StoreSession, table: Table, number: int) -> tuple[int, int]:
    """(row id, balance)."""
    query = f"SELECT rid, c3 FROM {store.reads.source(table)} WHERE c1 = ?"
    ((rid, amount),) = fetch(store.connection, query, (number,))
    return rid, amount


def add(store: StoreSession, table: Table, number: int, amount: int) -> None:
    def body() -> None:
        rid, before = balance(store, table, number)
        store.update(table, [(rid, (number, "account", before + amount))])

    store.run(body, "UPDATE")


def transfer(store: StoreSession, table: Table, chance: random.Random) -> bool:
    source, target = chance.sample(range(ACCOUNTS), 2)
    amount = chance.randrange(100)
    store.begin()
    try:
        add(store, table, source, -amount)
        store.savepoint("half")
        if chance.random() < 0.3:
            add(store, table, target, 10**6)
            store.rollback_to("half")
        add(store, table, target, amount)
    except SqlError as error:
        store.rollback()
        if error.number != 1205:
            raise
        return False
    if chance.random() < 0.2:
        store.rollback()
        return False
    store.commit()
    return True


def test_transfers(
    engine: Engine,
    connect: Callable[[], StoreSession],
    store: StoreSession,
    table: Table,
    database: Database,
) -> None:
    store.insert(table, [(n, "account", 1000) for n in range(ACCOUNTS)])

    def work(session: StoreSession, seed: int) -> int:
        chance = random.Random(seed)
        return sum(transfer(session, table, chance) for _ in range(TRANSFERS))

    sessions = [connect() for _ in range(THREADS)]
    workers = [Background(partial(work, session, n)) for n, session in enumerate(sessions)]
    done = sum(int(str(worker.join())) for worker in workers)
    final = rows(store, table)
    assert sum(row[2] for row in final) == 1000 * ACCOUNTS
    replayed: dict[object, tuple[object, ...]] = {}
    transactions = list(database.log.committed(None, 10_000))
    assert len(transactions) >= done * 0.9, "transfers of nothing are not logged, others are"
    for transaction in transactions:
        for change in transaction.changes:
            assert isinstance(change, RowChange)
            if change.before is not None:
                assert replayed.pop(change.before[0]) == change.before
            assert change.after is not None
            replayed[change.after[0]] = change.after
    assert sorted(replayed.values(), key=repr) == final
    assert engine.locks.waiters == 0


def test_ddl_among_writers(
    connect: Callable[[], StoreSession], store: StoreSession, table: Table, database: Database
) -> None:
    """Columns come while rows come; nobody hangs, and every row has the shape of its time."""

    def insert(session: StoreSession) -> int:
        inserted = 0
        for n in range(100):

            def one(n: int = n) -> None:
                current = database.table("dbo", "t")
                assert current is not None
                extra = (None,) * (len(current.columns) - 3)
                session.insert(current, [(id(session) + n, "row", n, *extra)])

            try:
                session.run(one)  # again when a column came in between
                inserted += 1
            except SqlError as error:
                if error.number != 1205:
                    raise
        return inserted

    def alter() -> None:
        for n in range(10):
            current = database.table("dbo", "t")
            assert current is not None
            ddl.add_columns(store, database, current, [Column(0, f"extra{n}", INT)])

    sessions = [connect() for _ in range(3)]
    workers = [Background(partial(insert, session)) for session in sessions]
    altering = Background(alter)
    inserted = sum(int(str(worker.join())) for worker in workers)
    altering.join()
    current = database.table("dbo", "t")
    assert current is not None
    assert len(rows(store, current)) == inserted
    shapes = [
        len(change.column_ids)
        for transaction in database.log.committed(None, 10_000)
        for change in transaction.changes
        if isinstance(change, RowChange)
    ]
    assert shapes == sorted(shapes)
    assert len(shapes) == inserted
