from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.model import Column, Index, Table
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import INT, nvarchar

WAIT_S = 30


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    opened = Engine(tmp_path, clock)
    yield opened
    opened.close()


@pytest.fixture
def database(engine: Engine) -> Database:
    return engine.create_database("shop")


@pytest.fixture
def connect(engine: Engine) -> Iterator[Callable[[], StoreSession]]:
    sessions: list[StoreSession] = []

    def connect() -> StoreSession:
        sessions.append(StoreSession(engine, 51 + len(sessions)))
        return sessions[-1]

    yield connect
    for session in sessions:
        session.close()


@pytest.fixture
def store(connect: Callable[[], StoreSession]) -> StoreSession:
    return connect()


PRIMARY_KEY = Index(0, "PK_t", (1,), (False,), unique=True, primary_key=True, clustered=True)


@pytest.fixture
def table(store: StoreSession, database: Database) -> Table:
    """Tracked: id int primary key, name nvarchar(50), n int."""
    columns = [
        Column(0, "id", INT, nullable=False),
        Column(0, "name", nvarchar(50)),
        Column(0, "n", INT),
    ]
    made = ddl.create_table(store, database, "dbo", "t", columns, indexes=[PRIMARY_KEY])
    return ddl.set_tracked(store, database, made, tracked=True)


def rows(store: StoreSession, table: Table) -> list[tuple[Any, ...]]:
    """Committed rows and the session's own, with the locks of its isolation level."""
    columns = ", ".join(column.sqlite_name for column in table.columns)
    by_locks = store.isolation != "read committed"
    source = store.reads.read(table)[0] if by_locks else store.reads.source(table)
    return sorted(
        store.connection.execute(f"SELECT {columns} FROM {source}").fetchall(),
        key=repr,
    )


def rid_of(store: StoreSession, table: Table, value: object) -> int:
    """The row whose first column has this value."""
    column = table.columns[0].sqlite_name
    query = f"SELECT rid FROM {store.reads.source(table)} WHERE {column} = ?"
    ((rid,),) = fetch(store.connection, query, (value,))
    return int(rid)


class Background:
    """A call in a thread, whose result or exception is asked for later."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - handed to the test's own thread
            self.error = error

    def join(self) -> object:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "still waiting"
        if self.error is not None:
            raise self.error
        return self.result


def wait_until_blocked(engine: Engine, count: int = 1) -> None:
    """Until so many sessions wait for a lock; bounded."""
    pause = threading.Event()
    for _ in range(WAIT_S * 200):
        if engine.locks.waiters >= count:
            return
        pause.wait(0.005)
    raise AssertionError("nobody waits")
