from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.tests.unit.storage.conftest import Background, rid_of, rows, wait_until_blocked
from tailrace_emulator.log.records import DdlChange
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.model import Check, Column, Identity, Index, Table
from tailrace_emulator.storage.transaction import StatementRestart, StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.types import BIGINT, INT, StorageValue, nvarchar

Connect = Callable[[], StoreSession]
COLUMN = Column(0, "id", INT, nullable=False)


def number_of(call: Callable[[], object]) -> int:
    with pytest.raises(SqlError) as raised:
        call()
    return raised.value.number


def test_a_table_survives_reopening(tmp_path: Path, clock: ManualClock) -> None:
    engine = Engine(tmp_path, clock)
    database = engine.create_database("Shop")
    store = StoreSession(engine)
    ddl.create_schema(store, database, "Sales")
    made = ddl.create_table(
        store, database, "sales", "Orders",
        [Column(0, "id", INT, nullable=False, identity=Identity(5, 2)),
         Column(0, "name", nvarchar(20), default="N'x'", default_name="DF_name")],
        indexes=[Index(0, "PK", (1,), (), unique=True, primary_key=True, clustered=True)],
        checks=[Check("CK", "id > 0")],
    )  # fmt: skip
    store.insert(made, [(5, "a")])
    ddl.create_module(store, database, "dbo", "p", "P", "CREATE PROC p AS SELECT 1")
    guid = database.guid
    store.close()
    engine.close()
    again = Engine(tmp_path, clock)
    database = again.database("shop")
    assert database.name == "Shop"
    assert database.guid == guid
    assert database.table("SALES", "orders") == made
    assert database.table_by_id(made.object_id) == made
    assert made.schema == "Sales"
    module = database.module("DBO", "P")
    assert module is not None
    assert module.object_id != made.object_id
    store = StoreSession(again)
    assert rows(store, made) == [(5, "a")]
    store.insert(made, [(..., "b")])
    assert store.last_identity == 7
    store.close()
    again.close()


def test_refusals(store: StoreSession, database: Database, table: Table) -> None:
    def create(schema: str, name: str, *columns: Column) -> int:
        return number_of(lambda: ddl.create_table(store, database, schema, name, columns))

    assert create("dbo", "T", COLUMN) == 2714
    assert create("nowhere", "x", COLUMN) == 2760
    assert create("dbo", "x", COLUMN, COLUMN) == 2705
    assert number_of(lambda: ddl.create_schema(store, database, "DBO")) == 2714
    assert number_of(lambda: ddl.drop_schema(store, database, "dbo")) == 3729
    assert number_of(lambda: ddl.drop_column(store, database, table, "id")) == 5074
    assert number_of(lambda: ddl.drop_column(store, database, table, "none")) == 4924
    assert number_of(lambda: ddl.drop_index(store, database, table, "none")) == 3701
    assert number_of(lambda: ddl.drop_constraint(store, database, table, "none")) == 3728
    store.insert(table, [(1, "a", 1), (2, "a", 2)])
    index = Index(0, "UX", (2,), (), unique=True)
    assert number_of(lambda: ddl.create_index(store, database, table, index)) == 1505
    column = Column(0, "c", INT, nullable=False)
    assert number_of(lambda: ddl.add_columns(store, database, table, [column])) == 4901
    version = database.version
    assert database.table("dbo", "t") is table
    assert database.version == version


def test_create_and_drop_roll_back(
    store: StoreSession, connect: Connect, database: Database, table: Table
) -> None:
    store.begin()
    made = ddl.create_table(store, database, "dbo", "made", [COLUMN])
    store.insert(made, [(1,)])
    assert rows(store, made) == [(1,)]
    ddl.drop_table(store, database, table)
    assert database.table("dbo", "t") is None
    store.rollback()
    assert database.table("dbo", "made") is None
    again = database.table("dbo", "t")
    assert again == table
    other = connect()
    other.insert(table, [(1, "a", 1)])
    assert rows(other, table) == [(1, "a", 1)]


def test_alter_in_a_transaction_keeps_its_earlier_rows(
    store: StoreSession, connect: Connect, database: Database, table: Table
) -> None:
    other = connect()
    store.insert(table, [(1, "a", 1)])
    store.begin()
    store.insert(table, [(2, "b", 2)])
    wide = ddl.add_columns(store, database, table, [Column(0, "extra", INT)], values={"extra": 7})
    store.insert(wide, [(3, "c", 3, 8)])
    assert rows(store, wide) == [(1, "a", 1, 7), (2, "b", 2, 7), (3, "c", 3, 8)]
    assert other.connection.execute(f'SELECT count(*) FROM "{table.sqlite_name}"').fetchall() == [
        (1,)
    ]
    store.rollback()
    assert rows(store, table) == [(1, "a", 1)]
    assert database.table("dbo", "t") == table
    store.begin()
    store.insert(table, [(2, "b", 2)])
    wide = ddl.add_columns(store, database, table, [Column(0, "extra", INT)])
    store.insert(wide, [(3, "c", 3, 8)])
    store.commit()
    assert rows(other, wide) == [(1, "a", 1, None), (2, "b", 2, None), (3, "c", 3, 8)]
    (_, transaction) = database.log.committed(None, 10)
    shapes = [getattr(c, "column_ids", "ddl") for c in transaction.changes]
    assert shapes == [(1, 2, 3), "ddl", (1, 2, 3, 4)]


def test_savepoints_round_ddl(store: StoreSession, database: Database, table: Table) -> None:
    store.begin()
    store.insert(table, [(1, "a", 1)])
    store.savepoint("before")
    store.insert(table, [(2, "b", 2)])
    wide = ddl.add_columns(store, database, table, [Column(0, "x", INT)])
    store.insert(wide, [(3, "c", 3, 1)])
    store.savepoint("between")
    ddl.create_table(store, database, "dbo", "made", [COLUMN])
    store.delete(wide, [rid_of(store, wide, 1)])
    store.rollback_to("between")
    assert database.table("dbo", "made") is None
    assert len(rows(store, wide)) == 3
    store.rollback_to("before")
    assert database.table("dbo", "t") == table
    assert rows(store, table) == [(1, "a", 1)]
    store.commit()
    (transaction,) = database.log.committed(None, 10)
    assert transaction.change_count == len(list(transaction.changes)) == 1


def test_a_failed_ddl_statement_leaves_the_rest(
    store: StoreSession, database: Database, table: Table
) -> None:
    store.begin()
    store.insert(table, [(1, "a", 1)])
    made = ddl.create_table(store, database, "dbo", "made", [COLUMN])
    with pytest.raises(SqlError, match="2714"):
        ddl.create_table(store, database, "dbo", "made", [COLUMN])

    def failing() -> None:
        with store.statement():
            ddl.create_table(store, database, "dbo", "second", [COLUMN])
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        failing()
    assert database.table("dbo", "second") is None
    store.insert(made, [(5,)])
    store.commit()
    assert rows(store, table) == [(1, "a", 1)]
    assert rows(store, made) == [(5,)]


def test_a_reader_waits_for_open_ddl(
    engine: Engine, store: StoreSession, connect: Connect, database: Database, table: Table
) -> None:
    other = connect()
    store.begin()
    changed = ddl.rename_column(store, database, table, 2, "title")
    other.lock_timeout_ms = 0
    assert number_of(lambda: other.reads.source(table)) == 1222
    other.lock_timeout_ms = -1
    waiting = Background(lambda: other.reads.source(changed))
    wait_until_blocked(engine)
    store.rollback()
    with pytest.raises(StatementRestart):
        waiting.join()
    assert rows(other, table) == []


def test_ddl_waits_for_writers(
    engine: Engine, store: StoreSession, connect: Connect, database: Database, table: Table
) -> None:
    other = connect()
    store.begin()
    store.insert(table, [(1, "a", 1)])
    waiting = Background(lambda: ddl.add_columns(other, database, table, [Column(0, "x", INT)]))
    wait_until_blocked(engine)
    store.commit()
    changed = waiting.join()
    assert isinstance(changed, Table)
    assert rows(other, changed) == [(1, "a", 1, None)]
    with pytest.raises(StatementRestart):
        store.insert(table, [(2, "b", 2)])


def test_an_engine_write_rolls_its_ddl_back(
    engine: Engine, store: StoreSession, database: Database, table: Table
) -> None:
    version = database.version

    def failing_2() -> None:
        with engine.write() as connection:
            ddl.create_schema(connection, database, "cdc")
            ddl.create_table(connection, database, "cdc", "x", [COLUMN], is_ms_shipped=True)
            database.set_option("is_cdc_enabled", 1, connection)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        failing_2()
    assert database.schema_name("cdc") is None
    assert database.table("cdc", "x") is None
    assert "is_cdc_enabled" not in database.options
    assert database.version > version
    store.begin()
    store.insert(table, [(1, "a", 1)])

    def failing_3() -> None:
        with engine.write() as connection:
            ddl.set_tracked(connection, database, table, tracked=False)

    with pytest.raises(SqlError, match="1222"):
        failing_3()
    store.rollback()
    with engine.write(table) as connection:
        ddl.set_tracked(connection, database, table, tracked=False)


def test_changes_are_logged_while_the_table_is_tracked(
    store: StoreSession, database: Database, table: Table
) -> None:
    quiet = ddl.set_tracked(store, database, table, tracked=False)
    store.insert(quiet, [(1, "a", 1)])
    assert database.log.last_commit() is None
    # A statement that was compiled for the table as it was before still logs.
    ddl.set_tracked(store, database, quiet, tracked=True)
    store.insert(quiet, [(2, "b", 2)])
    assert database.log.last_commit() is not None


def test_alter_column(store: StoreSession, database: Database, table: Table) -> None:
    store.insert(table, [(1, "12", 1), (2, None, 2)])

    def convert(value: StorageValue) -> StorageValue:
        return None if value is None else int(str(value))

    changed = ddl.alter_column(
        store, database, table, 2, replace(table.columns[1], type=BIGINT), convert,
        command="ALTER TABLE t ALTER COLUMN name bigint",
    )  # fmt: skip
    assert rows(store, changed) == [(1, 12, 1), (2, None, 2)]
    changed = ddl.alter_column(
        store, database, changed, 3, replace(table.columns[2], nullable=False)
    )
    error = number_of(
        lambda: ddl.alter_column(
            store, database, changed, 2, replace(changed.columns[1], nullable=False)
        )
    )
    assert error == 515
    transactions = list(database.log.committed(None, 10))
    (ddl_change,) = transactions[1].changes
    assert isinstance(ddl_change, DdlChange)
    assert ddl_change.kind == "alter_column"
    assert ddl_change.column_id == 2
    assert ddl_change.old_type == nvarchar(50)
    assert ddl_change.new_type == BIGINT
    assert ddl_change.command == "ALTER TABLE t ALTER COLUMN name bigint"


def test_a_conversion_error_leaves_the_column(
    store: StoreSession, database: Database, table: Table
) -> None:
    store.insert(table, [(1, "x", 1)])

    def convert(value: StorageValue) -> StorageValue:
        raise SqlError(245, f"Conversion failed when converting {value!r}.")

    new = replace(table.columns[1], type=INT)
    assert number_of(lambda: ddl.alter_column(store, database, table, 2, new, convert)) == 245
    assert rows(store, table) == [(1, "x", 1)]
    assert database.table("dbo", "t") is table


def test_columns_come_and_go_and_ids_never_return(
    store: StoreSession, database: Database, table: Table
) -> None:
    store.insert(table, [(1, "a", 1)])
    without = ddl.drop_column(store, database, table, "n")
    assert rows(store, without) == [(1, "a")]
    wide = ddl.add_columns(
        store, database, without,
        [Column(0, "n", INT), Column(0, "k", INT, nullable=False, identity=Identity(100, 1))],
    )  # fmt: skip
    assert [c.column_id for c in wide.columns] == [1, 2, 4, 5]
    assert rows(store, wide) == [(1, "a", None, 100)]
    renamed = ddl.rename_table(store, database, wide, "t2")
    assert database.table("dbo", "t") is None
    assert database.table("dbo", "T2") == renamed
    kinds = [c.kind for t in database.log.committed(None, 99) for c in t.changes
             if isinstance(c, DdlChange)]  # fmt: skip
    assert kinds == ["drop_column", "add_column", "add_column", "other"]


def test_databases(engine: Engine, tmp_path: Path) -> None:
    made = engine.create_database("Side")
    assert number_of(lambda: engine.create_database("SIDE")) == 1801
    assert engine.database("side") is made
    assert number_of(lambda: engine.database("none")) == 911
    assert number_of(lambda: engine.drop_database("none")) == 3701
    assert number_of(lambda: engine.drop_database("master")) == 3708
    store = StoreSession(engine)
    table = ddl.create_table(store, made, "dbo", "t", [COLUMN])
    store.insert(table, [(1,)])
    engine.rename_database("Side", "Other")
    assert engine.database("other").name == "Other"
    engine.drop_database("Other")
    assert number_of(lambda: engine.database("Other")) == 911
    assert {"master", "tempdb", "model", "msdb"} <= set(engine.databases)
    store.close()


def test_a_new_table_is_waited_for(
    engine: Engine, store: StoreSession, connect: Connect, database: Database
) -> None:
    other = connect()
    store.begin()
    made = ddl.create_table(store, database, "dbo", "made", [COLUMN])
    store.insert(made, [(1,)])
    seen = database.table("dbo", "made")
    assert seen is not None
    waiting = Background(lambda: rows(other, seen))
    wait_until_blocked(engine)
    store.commit()
    assert waiting.join() == [(1,)]


def test_a_write_joins_the_transaction_with_ddl_of_its_thread(
    engine: Engine, store: StoreSession, database: Database, table: Table
) -> None:
    """EXEC sp_cdc_enable_table right after CREATE TABLE, without autocommit."""
    store.begin()
    made = ddl.create_table(store, database, "dbo", "made", [COLUMN])
    with engine.write() as connection:
        ddl.create_schema(connection, database, "cdc")
        made = ddl.set_tracked(connection, database, made, tracked=True)
        made = ddl.rename_table(connection, database, made, "renamed", command="EXEC sp_rename")
    assert number_of(lambda: engine.create_database("other")) == 226
    store.rollback()
    assert database.schema_name("cdc") is None
    assert database.table("dbo", "renamed") is None
    store.begin()
    made = ddl.create_table(store, database, "dbo", "made", [COLUMN])
    with engine.write() as connection:
        made = ddl.set_tracked(connection, database, made, tracked=True)
        made = ddl.rename_table(connection, database, made, "renamed", command="EXEC sp_rename")
    store.insert(made, [(1,)])
    store.commit()
    logged = [type(c).__name__ for t in database.log.committed(None, 9) for c in t.changes]
    assert sorted(logged) == ["DdlChange", "RowChange"]
    assert rows(store, made) == [(1,)]


def test_a_transaction_does_not_wait_for_its_own_thread(
    engine: Engine, store: StoreSession, table: Table
) -> None:
    def insert() -> None:
        with engine.write():
            store.insert(table, [(1, "a", 1)])

    assert number_of(insert) == 50_999
    assert rows(store, table) == []


def test_a_commit_under_a_half_read_result_is_refused(
    store: StoreSession, connect: Connect, table: Table
) -> None:
    other = connect()
    store.insert(table, [(n, "x", n) for n in range(100)])
    half_read = other.connection.execute(f"SELECT * FROM {other.reads.source(table)}")
    next(half_read)
    store.insert(table, [(200, "y", 1)])
    assert number_of(lambda: other.insert(table, [(201, "z", 1)])) == 50_999
    half_read.close()
    other.insert(table, [(201, "z", 1)])
