"""SELECT .. INTO before a set operation, and where INTO cannot stand."""

from __future__ import annotations

import pytest

SOURCES = [
    ("SELECT 1 AS a INTO {0} UNION ALL SELECT 2", [(1,), (2,)]),
    ("SELECT 1 AS a INTO {0} UNION SELECT 1 UNION SELECT 3", [(1,), (3,)]),
    ("SELECT v AS a INTO {0} FROM s EXCEPT SELECT 2", [(1,), (3,)]),
    ("SELECT v AS a INTO {0} FROM s INTERSECT SELECT 2", [(2,)]),
    ("SELECT 1 AS a INTO {0} UNION ALL SELECT TOP 1 v FROM s ORDER BY a DESC", [(1,), (1,)]),
    ("WITH w AS (SELECT 5 AS a) SELECT a INTO {0} FROM w UNION SELECT a + 1 FROM w", [(5,), (6,)]),
    ("(SELECT 1 AS a INTO {0} UNION ALL SELECT 2) UNION ALL SELECT 3", [(1,), (2,), (3,)]),
]  # fmt: skip


@pytest.mark.parametrize("table", ["d", "#d", "dbo.d"])
@pytest.mark.parametrize(("text", "rows"), SOURCES)
def test_set_operations_make_the_table(sql, text, rows, table):
    sql("CREATE TABLE s (v int IDENTITY, w int); INSERT s (w) VALUES (1), (1), (1)")
    made = sql(text.format(table))
    assert (made.errors, made.sets, made.counts) == ([], [], [len(rows)])
    assert sql(f"SELECT a FROM {table} ORDER BY a").rows == rows


def test_the_columns_have_the_types_of_all(sql):
    sql("CREATE TABLE s (v int IDENTITY, w int)")
    assert not sql(
        "SELECT v, CAST('a' AS char(2)) AS t INTO d FROM s UNION ALL SELECT 1.5, N'bc'"
    ).errors
    outcome = sql("SELECT v, t FROM d")
    assert (outcome.types, outcome.columns[0][0].identity) == (
        ["numeric(11,1)", "nvarchar(2)"],
        False,
    )


@pytest.mark.parametrize(
    ("select", "identities"),
    [
        ("id, v INTO d FROM s", {"id"}),
        ("TOP (1) id AS other INTO d FROM s AS x WHERE id > 0 ORDER BY id", {"other"}),
        ("id, id AS id2 INTO d FROM s", set()),
        ("id + 0 AS id INTO d FROM s", set()),
        ("s.id INTO d FROM s JOIN p ON p.v = s.v", set()),
        ("s.id INTO d FROM s, p", set()),
        ("id, COUNT(*) AS n INTO d FROM s GROUP BY id", set()),
    ],
)
def test_an_identity_column_stays_one_only_by_itself_and_from_one_table(sql, select, identities):
    sql("CREATE TABLE s (id int IDENTITY, v int); CREATE TABLE p (v int); INSERT s VALUES (1)")
    assert not sql(f"SELECT {select}").errors
    columns = "SELECT name, is_nullable FROM sys.columns WHERE object_id = OBJECT_ID('d')"
    assert {name for name, _ in sql(columns + " AND is_identity = 1").rows} == identities
    assert ("id", True) not in sql(columns).rows


MISPLACED = [
    ("SELECT 1 AS a UNION ALL SELECT 2 AS a INTO d", 196),
    ("SELECT 1 AS a INTO d UNION ALL SELECT 2 AS a INTO e", 196),
    ("SELECT a FROM (SELECT 1 AS a INTO d) AS x", 156),
    ("SELECT (SELECT 1 AS a INTO d) AS b INTO e", 156),
    ("IF EXISTS (SELECT 1 AS a INTO d) PRINT 'x'", 156),
    ("INSERT t SELECT 1 AS a INTO d", 156),
    ("CREATE VIEW v AS SELECT 1 AS a INTO d", 156),
    ("WITH w AS (SELECT 1 AS a INTO d) SELECT a FROM w", 156),
]


@pytest.mark.parametrize(("text", "number"), MISPLACED)
def test_misplaced(sql, text, number):
    sql("CREATE TABLE t (a int)")
    outcome = sql(text)
    assert (outcome.errors, outcome.sets) == ([number], [])
    assert sql.value("OBJECT_ID('d')") is None
