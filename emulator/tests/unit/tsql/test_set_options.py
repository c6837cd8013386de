"""SET options: messages that come after rows, plans per setting, and what ends with its scope."""

from __future__ import annotations

import pytest

from emulator.tests.unit.tsql.conftest import Session
from tailrace_emulator.catalog.set_options import DB_LIBRARY_OPTIONS, ODBC_OPTIONS
from tailrace_emulator.values.types import INT

NULL_ELIMINATED = "Warning: Null value is eliminated by an aggregate or other SET operation."


@pytest.fixture
def table(sql: Session) -> Session:
    """A table with a NULL."""
    sql("CREATE TABLE dbo.t (g int NOT NULL, v int NULL, PRIMARY KEY (g))")
    sql("INSERT INTO dbo.t VALUES (1, 5), (2, NULL), (3, 7)")
    return sql


@pytest.mark.parametrize(
    ("query", "warns"),
    [
        ("SELECT SUM(v) FROM dbo.t", True),
        ("SELECT COUNT(v), COUNT(*) FROM dbo.t", True),
        ("SELECT SUM(v * 2) FROM dbo.t", True),
        ("SELECT g, SUM(v) OVER (ORDER BY g) FROM dbo.t", True),
        ("SELECT g, MIN(v) FROM dbo.t GROUP BY g", True),
        ("SELECT (SELECT AVG(v) FROM dbo.t)", True),
        ("SELECT SUM(v) FROM dbo.t WHERE v > 0", False),
        ("SELECT SUM(g), COUNT(*) FROM dbo.t", False),
        ("SELECT STRING_AGG(CAST(v AS varchar(9)), ',') FROM dbo.t", False),
    ],
)
def test_a_select_tells_once_after_its_rows_that_null_was_left_out(
    table: Session, query: str, warns: bool
) -> None:
    for _ in range(2):  # the second time with a plan that is kept
        assert table(query).messages == ([NULL_ELIMINATED] if warns else [])
    assert table(f"SET ANSI_WARNINGS OFF; {query}").messages == []


def test_arithmetic_errors_are_told_once_each_overflow_first(table: Session) -> None:
    told = table("SET ANSI_WARNINGS OFF; SELECT 1 / (g - g), g * 2147483647 FROM dbo.t")
    assert told.rows == [(None, 2147483647), (None, None), (None, None)]
    assert told.messages == ["Arithmetic overflow occurred.", "Division by zero occurred."]
    assert all(column.nullable for column in told.columns[-1])


def test_a_plan_belongs_to_the_options_that_it_was_compiled_under(table: Session) -> None:
    query = "SELECT 1 / g FROM dbo.t WHERE g > @none"
    divide = "DECLARE @z int = 0; SELECT 10 / @z"
    assert table(divide).errors == [8134]
    assert table(f"SET ANSI_WARNINGS OFF; {divide}").rows == [(None,)]
    assert table(divide).rows == [(None,)]
    assert table(f"SET ANSI_WARNINGS ON; {divide}").errors == [8134]
    assert table(query).errors == [137]


def test_options_that_are_equal_are_one_object() -> None:
    changed = ODBC_OPTIONS.changed("nocount", True)
    assert changed.semantics is ODBC_OPTIONS.semantics
    assert changed.changed("nocount", True) is changed
    assert ODBC_OPTIONS.changed("datefirst", 1).semantics is not ODBC_OPTIONS.semantics


def test_the_options_of_a_login_by_its_flag() -> None:
    assert ODBC_OPTIONS.bits == 5432
    assert DB_LIBRARY_OPTIONS.bits == 0


def test_a_bulk_load_gives_the_identity_values_that_it_names(sql: Session) -> None:
    sql("CREATE TABLE dbo.t (id int IDENTITY, v int)")
    for types, rows in (((INT, INT), [(7, 70)]), ((INT, INT), [(9, 90)])):
        assert sql("INSERT BULK dbo.t (id int, v int)").errors == []
        assert sql.collect(sql.runner.bulk_load(types, rows)).errors == []
    assert sql("SELECT id, v FROM dbo.t ORDER BY id").rows == [(7, 70), (9, 90)]
    assert sql("INSERT INTO dbo.t (id, v) VALUES (1, 1)").errors == [544]
