"""sp_describe_undeclared_parameters: types of parameters from their surroundings."""

from __future__ import annotations

import pytest

CASES = [
    ("INSERT t (a, b, c) VALUES (@P1, @P2, @P3)", ["bigint", "nvarchar(20)", "decimal(9,2)"]),
    ("INSERT t VALUES (@P1, @P2, @P3, @P4)", ["bigint", "nvarchar(20)", "decimal(9,2)", "date"]),
    ("INSERT t (a) VALUES (@P1), (@P2)", ["bigint", "bigint"]),
    ("UPDATE t SET b = @P1, c = c + @P2 WHERE a = @P3", ["nvarchar(20)", "decimal(9,2)", "bigint"]),
    ("DELETE t WHERE d > @P1 AND b LIKE @P2", ["date", "nvarchar(4000)"]),
    (
        "SELECT * FROM t WHERE a IN (@P1, @P2) AND d BETWEEN @P3 AND @P4",
        ["bigint", "bigint", "date", "date"],
    ),
    ("SELECT TOP (@P1) a FROM t", ["bigint"]),
    ("SELECT @P1", ["nvarchar(4000)"]),
    ("SELECT LEFT(b, @P1) FROM t", ["int"]),
    ("INSERT t (a, b) SELECT @P1, @P2", ["bigint", "nvarchar(20)"]),
    ("DECLARE @x int = 5; SELECT @x + @P1", ["int"]),
]


@pytest.mark.parametrize(("statement", "expected"), CASES)
def test_types(sql, statement, expected):
    sql("CREATE TABLE t (a bigint, b nvarchar(20), c decimal(9,2), d date)")
    outcome = sql(f"EXEC sp_describe_undeclared_parameters N'{statement}'")
    assert not outcome.errors, outcome.texts
    assert [row[3] for row in outcome.rows] == expected
    assert [row[1] for row in outcome.rows] == [f"@P{n}" for n in range(1, len(expected) + 1)]


def test_declared_parameters_are_not_asked_for(sql):
    sql("CREATE TABLE t (a bigint, b nvarchar(20))")
    outcome = sql(
        "EXEC sp_describe_undeclared_parameters @tsql = N'SELECT b FROM t WHERE a = @k AND b = @n',"
        " @params = N'@k int'"
    )
    assert [row[1:4] for row in outcome.rows] == [("@n", 231, "nvarchar(20)")]


def test_the_first_result_set_is_described_without_running(sql):
    sql("CREATE TABLE t (a bigint NOT NULL, b nvarchar(20), c decimal(9,2), d date)")
    outcome = sql(
        "EXEC sp_describe_first_result_set N'SELECT a, b, c * 2 AS e FROM t WHERE a = @k',"
        " N'@k int'"
    )
    assert not outcome.errors, outcome.texts
    assert len(outcome.columns[0]) == 39
    shown = [row[1:10] for row in outcome.rows]
    collation = "SQL_Latin1_General_CP1_CI_AS"
    assert shown == [
        (1, "a", 0, 127, "bigint", 8, 19, 0, None),
        (2, "b", 1, 231, "nvarchar(20)", 40, 0, 0, collation),
        (3, "e", 1, 106, "decimal(11,2)", 9, 11, 2, None),
    ]


def test_an_answer_does_not_outlive_its_table(sql):
    question = "EXEC sp_describe_undeclared_parameters N'SELECT a FROM t WHERE a = @P1'"
    sql("CREATE TABLE t (a bigint)")
    assert sql(question).rows[0][3] == "bigint"
    sql("DROP TABLE t; CREATE TABLE t (a date)")
    assert sql(question).rows[0][3] == "date"
    assert (
        sql("CREATE TABLE #t (a int); " + question.replace("FROM t", "FROM #t")).rows[0][3] == "int"
    )
    assert sql("DROP TABLE t; " + question).errors == [208]
