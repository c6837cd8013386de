"""What stands on the engine: asked before something happens, and heard by the catalog.

The extension here is a journal of its own that has nothing to do with change data capture: the
engine knows neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.tests.unit.tsql.conftest import NOW, Session
from tailrace_emulator.catalog.database_objects import DatabaseObject, GeneratedObject, derived_id
from tailrace_emulator.catalog.extensions import CatalogExtension, Declarations
from tailrace_emulator.catalog.procedure_registry import ProcedureParameter, result_set
from tailrace_emulator.catalog.table_functions import TableFunction, TableSource
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.extensions import Extension
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.results import ColumnMeta
from tailrace_emulator.values.types import INT, SYSNAME

DECLARED = Declarations()


@DECLARED.views.view("sys.dm_journal", "entry int!, note sysname")
def _journal(_context, _database):
    return ((1, "first"), (2, "second"))


@DECLARED.procedures.procedure("sp_journal_note", ProcedureParameter("@note", SYSNAME, "none"))
def _note(_context, args):
    yield from result_set("note sysname", [(args["@note"],)])


@DECLARED.functions.scalar("sys.fn_journal_next", INT, INT)
def _next(_context, entry):
    return entry + 1


class JournalCatalog(CatalogExtension):
    def __init__(self):
        super().__init__(DECLARED)

    def table_function(self, _context, _database, _schema, name):
        if name.casefold() != "fn_entries":
            return None
        return TableFunction(
            name, (INT,), (ColumnMeta("entry", INT),),
            lambda _context, given: TableSource(None, rows=tuple((n,) for n in range(given[0]))),
        )  # fmt: skip

    def objects(self, _context, _database):
        item = DatabaseObject(derived_id(0, "fn_entries"), "journal", "fn_entries", "IF")
        yield GeneratedObject(item, (), lambda: (Column(1, "entry", INT),), lambda: "the text")


class Journal(Extension):
    schemas = frozenset({"journal"})

    def __init__(self):
        super().__init__({CatalogExtension: JournalCatalog()})
        self.told = []

    def dropping_table(self, _database, table):
        if table.name == "kept":
            raise SqlError(3701, "It is kept.")
        self.told.append(("drop", table.name))

    def altering(self, table, column=None):
        self.told.append(("alter", table.name, column.name if column else None))

    def renaming_database(self, _connection, database):
        self.told.append(("rename", database.name))

    def dropping_database(self, _connection, database):
        self.told.append(("drop database", database.name))

    def inserting(self, _database, table, rows):
        for row in rows:
            self.told.append(("insert", table.name, row[0]))
            yield row


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def sql(tmp_path, journal) -> Iterator[Session]:
    engine = Engine(tmp_path, ManualClock(NOW), journal)
    engine.create_database("shop")
    session = Session(engine, 51)
    yield session
    session.context.store.close()
    engine.close()


def test_what_is_declared_is_found_and_listed(sql, calculator):
    assert sql("SELECT note FROM sys.dm_journal ORDER BY entry").rows == [("first",), ("second",)]
    assert sql("EXEC sp_journal_note 'x'").rows == [("x",)]
    assert sql.value("sys.fn_journal_next(4)") == 5
    names = "SELECT name FROM sys.system_objects WHERE name LIKE '%journal%' ORDER BY name"
    assert [name for (name,) in sql(names).rows] == [
        "dm_journal",
        "fn_journal_next",
        "sp_journal_note",
    ]
    assert calculator("SELECT note FROM sys.dm_journal").errors == [208]
    assert calculator("EXEC sp_journal_note").errors == [2812]
    assert calculator(names).rows == []


def test_what_an_extension_generates_is_an_object(sql):
    assert sql("SELECT entry FROM journal.fn_entries(3) ORDER BY entry").rows == [(0,), (1,), (2,)]
    assert sql("SELECT type FROM sys.objects WHERE name = 'fn_entries'").rows == [("IF",)]
    assert sql.value("OBJECT_DEFINITION(OBJECT_ID('journal.fn_entries'))") == "the text"
    columns = "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('journal.fn_entries')"
    assert sql(columns).rows == [("entry",)]


def test_an_extension_is_asked_and_told(sql, journal):
    sql("CREATE TABLE kept (id int, name varchar(9)); INSERT kept VALUES (1, 'a'), (2, 'b')")
    assert journal.told == [("insert", "kept", 1), ("insert", "kept", 2)]
    journal.told.clear()
    assert sql("DROP TABLE kept").errors == [3701]
    assert sql.value("OBJECT_ID('kept')") is not None
    sql("ALTER TABLE kept ALTER COLUMN name varchar(20); ALTER TABLE kept ADD more int")
    assert journal.told == [("alter", "kept", "name"), ("alter", "kept", None)]
    journal.told.clear()
    sql("CREATE DATABASE a; ALTER DATABASE a MODIFY NAME = b; DROP DATABASE b")
    assert journal.told == [("rename", "a"), ("drop database", "b")]


def test_a_part_is_kept_by_its_class():
    extension = Extension()
    assert extension.part(dict) is extension.part(dict)
    assert Extension({dict: {1: 2}}).part(dict) == {1: 2}
