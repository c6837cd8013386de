"""Result types, as "Precision, scale, and length", "Data type precedence" and "Constants" say."""

from __future__ import annotations

import pytest

LITERALS = [
    ("1", "int"),
    ("2147483647", "int"),
    ("2147483648", "numeric(10,0)"),
    ("1.5", "numeric(2,1)"),
    ("1.50", "numeric(3,2)"),
    (".5", "numeric(1,1)"),
    ("0.5", "numeric(1,1)"),
    ("1e0", "float"),
    ("$1.5", "money"),
    ("N'ab'", "nvarchar(2)"),
    ("'ab'", "varchar(2)"),
    ("''", "varchar(1)"),
    ("0x0102", "varbinary(2)"),
    ("NULL", "int"),
]

EXPRESSIONS = [
    ("1 + 1", "int"),
    ("7 / 2", "int"),
    ("CAST(1 AS tinyint) + CAST(1 AS smallint)", "smallint"),
    ("CAST(1 AS bigint) * 2", "bigint"),
    ("1.5 + 1", "numeric(3,1)"),
    ("1.0 / 3", "numeric(7,6)"),
    ("CAST(1 AS decimal(18,4)) * 2", "decimal(20,4)"),
    ("CAST(1 AS decimal(18,4)) / 3", "decimal(20,6)"),
    ("CAST(1 AS decimal(18,4)) * CAST(1 AS int)", "decimal(29,4)"),
    ("CAST(1 AS decimal(18,4)) / CAST(3 AS int)", "decimal(29,15)"),
    ("CAST(1 AS decimal(38,10)) * CAST(1 AS decimal(38,10))", "decimal(38,6)"),
    ("CAST(1 AS decimal(38,10)) + CAST(1 AS decimal(38,0))", "decimal(38,0)"),
    ("CAST(1 AS decimal(10,2)) % CAST(1 AS decimal(5,3))", "decimal(5,3)"),
    ("1 + 1e0", "float"),
    ("CAST(1 AS real) + 1", "real"),
    ("CAST(1 AS money) * 2", "money"),
    ("CAST(1 AS money) * CAST(2 AS decimal(5,2))", "decimal(25,6)"),
    ("'a' + 'bc'", "varchar(3)"),
    ("'a' + N'bc'", "nvarchar(3)"),
    ("CAST('a' AS char(5)) + CAST('b' AS char(3))", "char(8)"),
    ("CAST('a' AS varchar(max)) + 'b'", "varchar(max)"),
    ("CAST('a' AS varchar(8000)) + 'b'", "varchar(8000)"),
    ("CASE WHEN 1 = 1 THEN 1 ELSE 2.5 END", "numeric(11,1)"),
    ("CASE WHEN 1 = 1 THEN 'a' ELSE NULL END", "varchar(1)"),
    ("COALESCE(NULL, 1, 2.5)", "numeric(11,1)"),
    ("ISNULL(CAST(NULL AS varchar(3)), 'abcdef')", "varchar(3)"),
    ("NULLIF(1, 2)", "int"),
    ("IIF(1 = 1, N'x', 'yy')", "nvarchar(2)"),
    ("GETDATE()", "datetime"),
    ("SYSUTCDATETIME()", "datetime2(7)"),
    ("SYSDATETIMEOFFSET()", "datetimeoffset(7)"),
    ("DATEADD(day, 1, CAST('2020-01-01' AS date))", "date"),
    ("DATEADD(day, 1, CAST('2020-01-01' AS datetime2(3)))", "datetime2(3)"),
    ("DATEADD(day, 1, '2020-01-01')", "datetime"),
    ("DATEDIFF(day, 0, GETDATE())", "int"),
    ("GETDATE() + 1", "datetime"),
    ("NEWID()", "uniqueidentifier"),
    ("LEFT('abcdef', 2)", "varchar(2)"),
    ("SUBSTRING(N'abcdef', 2, 3)", "nvarchar(3)"),
    ("REPLACE('abc', 'b', N'x')", "nvarchar(4000)"),
    ("LEN('abc')", "int"),
    ("LEN(CAST('abc' AS varchar(max)))", "bigint"),
    ("CONVERT(varchar, 1)", "varchar(30)"),
    ("CAST(1 AS decimal)", "decimal(18,0)"),
    ("CAST('1' AS datetimeoffset)", None),
    ("@@ROWCOUNT", "int"),
    ("SCOPE_IDENTITY()", "numeric(38,0)"),
    ("ERROR_MESSAGE()", "nvarchar(4000)"),
]


@pytest.mark.parametrize(("expression", "expected"), LITERALS)
def test_a_literal_has_sql_servers_type(calculator, expression, expected):
    assert calculator.type(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"), [case for case in EXPRESSIONS if case[1] is not None]
)
def test_an_expression_has_sql_servers_type(calculator, expression, expected):
    assert calculator.type(expression) == expected


AGGREGATES = [
    ("COUNT(*)", "int"),
    ("COUNT_BIG(*)", "bigint"),
    ("SUM(i)", "int"),
    ("SUM(b)", "bigint"),
    ("SUM(s)", "int"),
    ("SUM(d)", "decimal(38,4)"),
    ("AVG(d)", "decimal(38,6)"),
    ("AVG(i)", "int"),
    ("SUM(m)", "money"),
    ("SUM(f)", "float"),
    ("MIN(d)", "decimal(18,4)"),
    ("MAX(n)", "nvarchar(20)"),
    ("STDEV(i)", "float"),
    ("STRING_AGG(n, ',')", "nvarchar(4000)"),
    ("ROW_NUMBER() OVER (ORDER BY i)", "bigint"),
    ("SUM(d) OVER (ORDER BY i)", "decimal(38,4)"),
    ("LAG(d) OVER (ORDER BY i)", "decimal(18,4)"),
]


@pytest.mark.parametrize(("expression", "expected"), AGGREGATES)
def test_an_aggregate_has_sql_servers_type(sql, expression, expected):
    sql(
        "CREATE TABLE t (i int, b bigint, s smallint, d decimal(18,4), m money, f float,"
        " n nvarchar(20))"
    )
    outcome = sql(f"SELECT {expression} FROM t")
    assert outcome.types == [expected], outcome.texts


def test_columns_report_nullability_identity_and_names(sql):
    sql("CREATE TABLE t (id int IDENTITY PRIMARY KEY, a varchar(5), b AS (id + 1))")
    outcome = sql("SELECT id, a AS x, b, id + 1 FROM t")
    shown = [(c.name, c.nullable, c.identity, c.computed) for c in outcome.columns[0]]
    assert shown == [
        ("id", False, True, False),
        ("x", True, False, False),
        ("b", True, False, True),
        ("", False, False, False),
    ]
