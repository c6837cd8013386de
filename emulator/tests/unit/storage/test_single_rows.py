"""A transaction of one row: its image is held in memory, and SQLite is asked for little."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.tests.unit.storage.conftest import rows
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database
from tailrace_emulator.storage.model import Column, ForeignKey, Table
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.types import INT

Connect = Callable[[], StoreSession]


def insert_alone(store: StoreSession, table: Table, row: tuple[object, ...]) -> list[int]:
    """As a compiled INSERT of one row of values does it."""
    return store.run(lambda: store.insert(table, [row]), "INSERT", is_single=True)  # type: ignore[list-item]


def test_a_row_that_commits_alone_takes_five_sqlite_statements(
    store: StoreSession, table: Table
) -> None:
    insert_alone(store, table, (1, "makes the overlay", 1))
    asked: list[str] = []

    def note(_: object, statement: str, __: object) -> bool:
        asked.append(" ".join(statement.split()[:2]))
        return True

    store.connection.exec_trace = note
    try:
        insert_alone(store, table, (2, "b", 2))
    finally:
        store.connection.exec_trace = None
    assert asked == ["SELECT rid", "BEGIN IMMEDIATE", "INSERT INTO", "INSERT INTO", "COMMIT"]
    assert rows(store, table) == [(1, "makes the overlay", 1), (2, "b", 2)]


def test_a_refused_row_leaves_nothing(store: StoreSession, table: Table, connect: Connect) -> None:
    insert_alone(store, table, (1, "a", 1))
    with pytest.raises(SqlError, match="2627"):
        insert_alone(store, table, (1, "again", 2))
    assert store.trancount == 0
    insert_alone(store, table, (2, "b", 2))
    assert rows(store, table) == rows(connect(), table) == [(1, "a", 1), (2, "b", 2)]


def test_what_follows_the_row_in_its_statement_undoes_it(
    store: StoreSession, table: Table, database: Database
) -> None:
    def fails() -> None:
        store.insert(table, [(1, "a", 1)])
        assert rows(store, table) == [(1, "a", 1)]
        raise SqlError(50000, "no")

    with pytest.raises(SqlError, match="no"):
        store.run(fails, "INSERT", is_single=True)
    assert rows(store, table) == []
    assert list(database.log.committed(None, 10)) == []
    insert_alone(store, table, (1, "b", 1))
    assert rows(store, table) == [(1, "b", 1)]


def test_a_row_without_a_parent_is_refused(
    store: StoreSession, table: Table, database: Database
) -> None:
    columns = [Column(0, "id", INT, nullable=False), Column(0, "parent", INT)]
    key = ForeignKey("FK_child", (2,), table.object_id, (1,))
    child = ddl.create_table(store, database, "dbo", "child", columns, foreign_keys=[key])
    with pytest.raises(SqlError, match="547"):
        insert_alone(store, child, (1, 7))
    insert_alone(store, table, (7, "parent", 0))
    insert_alone(store, child, (1, 7))
    assert rows(store, child) == [(1, 7)]


def test_in_a_transaction_it_is_undone_like_any_other(store: StoreSession, table: Table) -> None:
    store.begin()
    insert_alone(store, table, (1, "a", 1))
    store.savepoint("s")
    insert_alone(store, table, (2, "b", 2))
    assert rows(store, table) == [(1, "a", 1), (2, "b", 2)]
    store.rollback_to("s")
    assert rows(store, table) == [(1, "a", 1)]
    with pytest.raises(SqlError, match="2627"):
        insert_alone(store, table, (1, "again", 3))
    assert rows(store, table) == [(1, "a", 1)]
    store.commit()
    assert rows(store, table) == [(1, "a", 1)]


def test_a_row_held_in_a_transaction_meets_the_next_one(store: StoreSession, table: Table) -> None:
    store.begin()
    store.insert(table, [(1, "a", 1)])
    with pytest.raises(SqlError, match="2627"):
        store.insert(table, [(1, "same key", 2)])
    store.insert(table, [(2, "b", 2)])
    store.rollback()
    assert rows(store, table) == []
