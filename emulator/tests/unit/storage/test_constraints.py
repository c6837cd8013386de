from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from emulator.tests.unit.storage.conftest import Background, rid_of, rows, wait_until_blocked
from tailrace_emulator.log.records import RowChange
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.model import Column, ForeignKey, Identity, Index, Table
from tailrace_emulator.storage.transaction import GENERATED, StoreSession
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import (
    BIGINT,
    DATE,
    DATETIME,
    INT,
    LSN,
    MONEY,
    UNIQUEIDENTIFIER,
    SqlType,
    StorageValue,
    decimal_type,
    nvarchar,
    pack_decimal,
    pack_guid,
)


def unique(name: str, *column_ids: int, constraint: bool = False) -> Index:
    return Index(0, name, column_ids, (), unique=True, unique_constraint=constraint)


def primary(name: str, *column_ids: int) -> Index:
    return Index(0, name, column_ids, (), unique=True, primary_key=True, clustered=True)


def error_of(call: Callable[[], object]) -> SqlError:
    with pytest.raises(SqlError) as raised:
        call()
    return raised.value


def test_not_null(store: StoreSession, table: Table) -> None:
    error = error_of(lambda: store.insert(table, [(None, "a", 1)]))
    assert (error.number, error.severity, error.state) == (515, 16, 2)
    assert error.message == (
        "Cannot insert the value NULL into column 'id', table 'shop.dbo.t'; column does not allow"
        " nulls. INSERT fails."
    )
    store.insert(table, [(1, "a", 1)])
    rid = rid_of(store, table, 1)
    error = error_of(lambda: store.update(table, [(rid, (None, "a", 1))]))
    assert error.message.endswith("UPDATE fails.")


def test_duplicate_primary_key(store: StoreSession, table: Table) -> None:
    store.insert(table, [(1, "a", 1)])
    error = error_of(lambda: store.insert(table, [(1, "b", 1)]))
    assert (error.number, error.severity, error.state) == (2627, 14, 1)
    assert error.message == (
        "Violation of PRIMARY KEY constraint 'PK_t'. Cannot insert duplicate key in object"
        " 'dbo.t'. The duplicate key value is (1)."
    )
    assert error_of(lambda: store.insert(table, [(2, "b", 1), (2, "c", 1)])).number == 2627


def test_duplicate_in_unique_constraint_and_index(store: StoreSession, database: Database) -> None:
    table = ddl.create_table(
        store, database, "dbo", "u",
        [Column(0, "a", nvarchar(10)), Column(0, "b", INT), Column(0, "c", INT)],
        indexes=[unique("UQ_ab", 1, 2, constraint=True), unique("UX_c", 3)],
    )  # fmt: skip
    store.insert(table, [("Ä x", None, 1)])
    error = error_of(lambda: store.insert(table, [("ä X ", None, 2)]))
    assert error.number == 2627
    assert error.message == (
        "Violation of UNIQUE KEY constraint 'UQ_ab'. Cannot insert duplicate key in object 'dbo.u'."
        " The duplicate key value is (ä X , <NULL>)."
    )
    error = error_of(lambda: store.insert(table, [("y", None, 1)]))
    assert error.number == 2601
    assert error.message == (
        "Cannot insert duplicate key row in object 'dbo.u' with unique index 'UX_c'. The duplicate"
        " key value is (1)."
    )


def test_a_unique_index_takes_one_null(store: StoreSession, database: Database) -> None:
    table = ddl.create_table(
        store, database, "dbo", "u", [Column(0, "a", INT), Column(0, "n", INT)],
        indexes=[unique("UX_a", 1)],
    )  # fmt: skip
    assert error_of(lambda: store.insert(table, [(None, 1), (None, 2)])).number == 2601
    store.insert(table, [(None, 1)])
    assert error_of(lambda: store.insert(table, [(None, 2)])).number == 2601
    store.begin()
    store.delete(table, [rid_of_null(store, table)])
    store.insert(table, [(None, 3)])
    store.commit()
    assert rows(store, table) == [(None, 3)]


def rid_of_null(store: StoreSession, table: Table) -> int:
    query = f"SELECT rid FROM {store.reads.source(table)} WHERE c1 IS NULL"
    ((rid,),) = fetch(store.connection, query)
    return int(rid)


@pytest.mark.parametrize(
    ("sql_type", "value", "text"),
    [
        (BIGINT, 5, "5"),
        (decimal_type(9, 2), -105, "-1.05"),
        (MONEY, pack_decimal(12_500, MONEY), "1.2500"),
        (DATE, 736_329, "2017-01-01"),
        (DATETIME, 736_329 * 864_000_000_000 + 13 * 36_000_000_000, "Jan  1 2017  1:00PM"),
        (SqlType("datetime2", scale=7), 736_329 * 864_000_000_000 + 1,
         "2017-01-01 00:00:00.0000001"),
        (SqlType("time", scale=0), 36_610_000_000, "01:01:01"),
        (LSN, bytes(9) + b"\x0f", "0x0000000000000000000f"),
        (UNIQUEIDENTIFIER, pack_guid(uuid.UUID(int=0x11)), "00000000-0000-0000-0000-000000000011"),
        (SqlType("char", length=3, collation="SQL_Latin1_General_CP1_CI_AS"), "a  ", "a  "),
    ],
)  # fmt: skip
def test_key_values_in_messages(
    store: StoreSession, database: Database, sql_type: SqlType, value: StorageValue, text: str
) -> None:
    table = ddl.create_table(
        store, database, "dbo", "k", [Column(0, "k", sql_type, nullable=False)],
        indexes=[primary("PK_k", 1)],
    )  # fmt: skip
    store.insert(table, [(value,)])
    message = error_of(lambda: store.insert(table, [(value,)])).message
    assert message.endswith(f"The duplicate key value is ({text}).")


def test_whole_table_key_update(store: StoreSession, table: Table) -> None:
    store.insert(table, [(n, "x", n) for n in range(1, 1001)])
    found = fetch(store.connection, f"SELECT rid, c1 FROM {store.reads.source(table)}")
    store.update(table, [(rid, (n + 1, "x", n)) for rid, n in found])
    assert [row[0] for row in sorted(rows(store, table))] == list(range(2, 1002))
    reverse = {rid: 1002 - n for rid, n in found}
    store.update(table, [(rid, (n, "y", n)) for rid, n in reverse.items()])
    assert [row[0] for row in sorted(rows(store, table))] == list(range(2, 1002))


# -- foreign keys -------------------------------------------------------------------------------


@pytest.fixture
def parent(store: StoreSession, database: Database) -> Table:
    made = ddl.create_table(
        store, database, "dbo", "parent",
        [Column(0, "id", INT, nullable=False), Column(0, "name", nvarchar(20))],
        indexes=[primary("PK_parent", 1)],
    )  # fmt: skip
    store.insert(made, [(1, "one"), (2, "two")])
    return made


def child_of(store: StoreSession, database: Database, parent: Table, **actions: str) -> Table:
    key = ForeignKey("FK_child", (2,), parent.object_id, (1,), **actions)
    return ddl.create_table(
        store, database, "dbo", "child",
        [Column(0, "id", INT, nullable=False), Column(0, "parent_id", INT)],
        indexes=[primary("PK_child", 1)], foreign_keys=[key],
    )  # fmt: skip


def test_foreign_key_texts(store: StoreSession, database: Database, parent: Table) -> None:
    child = child_of(store, database, parent)
    store.insert(child, [(1, 1), (2, None)])
    error = error_of(lambda: store.insert(child, [(3, 9)]))
    assert (error.number, error.severity, error.state) == (547, 16, 0)
    assert error.message == (
        'The INSERT statement conflicted with the FOREIGN KEY constraint "FK_child". The conflict'
        ' occurred in database "shop", table "dbo.parent", column \'id\'.'
    )
    rid = rid_of(store, child, 1)
    error = error_of(lambda: store.update(child, [(rid, (1, 9))]))
    assert error.message.startswith("The UPDATE statement conflicted with the FOREIGN KEY")
    error = error_of(lambda: store.delete(parent, [rid_of(store, parent, 1)]))
    assert error.message == (
        'The DELETE statement conflicted with the REFERENCE constraint "FK_child". The conflict'
        ' occurred in database "shop", table "dbo.child", column \'parent_id\'.'
    )
    error = error_of(lambda: store.update(parent, [(rid_of(store, parent, 1), (5, "x"))]))
    assert error.message.startswith("The UPDATE statement conflicted with the REFERENCE")
    store.update(parent, [(rid_of(store, parent, 1), (1, "renamed"))])
    store.delete(parent, [rid_of(store, parent, 2)])


def test_a_table_that_references_itself(store: StoreSession, database: Database) -> None:
    tree = ddl.create_table(
        store, database, "dbo", "tree",
        [Column(0, "id", INT, nullable=False), Column(0, "up", INT)],
        indexes=[primary("PK_tree", 1)],
        foreign_keys=[ForeignKey("FK_tree", (2,), 0, (1,))],
    )  # fmt: skip
    store.insert(tree, [(2, 1), (1, None), (3, 3)])
    error = error_of(lambda: store.insert(tree, [(4, 9)]))
    assert 'FOREIGN KEY SAME TABLE constraint "FK_tree"' in error.message
    error = error_of(lambda: store.delete(tree, [rid_of(store, tree, 1)]))
    assert "SAME TABLE REFERENCE" in error.message
    store.delete(tree, [rid_of(store, tree, 1), rid_of(store, tree, 2), rid_of(store, tree, 3)])


def test_cascading_delete_is_logged(store: StoreSession, database: Database, parent: Table) -> None:
    child = child_of(store, database, parent, on_delete="CASCADE", on_update="CASCADE")
    child = ddl.set_tracked(store, database, child, tracked=True)
    store.insert(child, [(1, 1), (2, 2)])
    store.update(parent, [(rid_of(store, parent, 1), (7, "moved"))])
    assert rows(store, child) == [(1, 7), (2, 2)]
    store.delete(parent, [rid_of(store, parent, 7)])
    assert rows(store, child) == [(2, 2)]
    actions = [
        c.action.value
        for t in database.log.committed(None, 9)
        for c in t.changes
        if isinstance(c, RowChange)
    ]
    assert actions == ["insert", "insert", "update", "delete"]


def test_set_null(store: StoreSession, database: Database, parent: Table) -> None:
    child = child_of(store, database, parent, on_delete="SET_NULL")
    store.insert(child, [(1, 1)])
    store.delete(parent, [rid_of(store, parent, 1)])
    assert rows(store, child) == [(1, None)]


def test_a_parent_that_is_being_deleted(
    engine: Engine,
    connect: Callable[[], StoreSession],
    store: StoreSession,
    database: Database,
    parent: Table,
) -> None:
    child = child_of(store, database, parent)
    other = connect()
    store.begin()
    store.delete(parent, [rid_of(store, parent, 1)])
    waiting = Background(lambda: other.insert(child, [(1, 1)]))
    wait_until_blocked(engine)
    store.commit()
    assert error_of(waiting.join).number == 547


def test_a_child_holds_its_parent(
    engine: Engine,
    connect: Callable[[], StoreSession],
    store: StoreSession,
    database: Database,
    parent: Table,
) -> None:
    child = child_of(store, database, parent)
    other = connect()
    store.begin()
    store.insert(child, [(1, 1)])
    rid = rid_of(other, parent, 1)
    waiting = Background(lambda: other.delete(parent, [rid]))
    wait_until_blocked(engine)
    store.commit()
    assert error_of(waiting.join).number == 547


# -- identity and rowversion --------------------------------------------------------------------


def test_identity(store: StoreSession, database: Database) -> None:
    table = ddl.create_table(
        store, database, "dbo", "i",
        [Column(0, "id", INT, nullable=False, identity=Identity(10, 5)), Column(0, "n", INT)],
    )  # fmt: skip
    store.insert(table, [(GENERATED, 1), (GENERATED, 2)])
    assert store.last_identity == 15
    store.begin()
    store.insert(table, [(GENERATED, 3)])
    store.rollback()
    store.insert(table, [(GENERATED, 4)])
    assert store.last_identity == 25, "a rollback leaves a gap"
    store.insert(table, [(100, 5)])
    store.insert(table, [(GENERATED, 6)])
    assert store.last_identity == 105
    store.truncate(table)
    store.insert(table, [(GENERATED, 7)])
    assert rows(store, table) == [(10, 7)]


def test_rowversion(store: StoreSession, database: Database) -> None:
    table = ddl.create_table(
        store, database, "dbo", "v",
        [Column(0, "id", INT, nullable=False), Column(0, "v", SqlType("timestamp"))],
        indexes=[primary("PK_v", 1)],
    )  # fmt: skip
    store.insert(table, [(1, GENERATED), (2, None)])
    assert rows(store, table) == [
        (1, (2001).to_bytes(8, "big")),
        (2, (2002).to_bytes(8, "big")),
    ]
    store.update(table, [(rid_of(store, table, 1), (1, GENERATED))])
    assert rows(store, table)[0] == (1, (2003).to_bytes(8, "big"))


def test_truncate_is_refused(store: StoreSession, database: Database, parent: Table) -> None:
    child = child_of(store, database, parent)
    assert error_of(lambda: store.truncate(parent)).number == 4712
    child = ddl.set_tracked(store, database, child, tracked=True)
    error = error_of(lambda: store.truncate(child))
    assert error.number == 4711
    assert error.message == (
        "Cannot truncate table 'child' because it is published for replication or enabled for"
        " Change Data Capture."
    )


def test_truncate_rolls_back(store: StoreSession, parent: Table) -> None:
    store.begin()
    store.truncate(parent)
    store.insert(parent, [(1, "new")])
    assert rows(store, parent) == [(1, "new")]
    store.rollback()
    assert rows(store, parent) == [(1, "one"), (2, "two")]
