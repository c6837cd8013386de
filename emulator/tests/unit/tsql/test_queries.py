"""SELECT: joins, grouping, ordering, set operations, CTEs, subqueries."""

from __future__ import annotations

import pytest


@pytest.fixture
def shop(sql):
    sql(
        "CREATE TABLE customers (id int PRIMARY KEY, name nvarchar(20), city varchar(20));"
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount decimal(9,2), day date);"
        "INSERT customers VALUES (1, N'Ann', 'Oslo'), (2, N'Bob', 'oslo'), (3, N'Cid', NULL);"
        "INSERT orders VALUES (10, 1, 5, '2020-01-01'), (11, 1, 7.5, '2020-01-02'),"
        " (12, 2, 1, '2020-01-02'), (13, NULL, 9, NULL)"
    )
    return sql


QUERIES = [
    (
        "SELECT name FROM customers c JOIN orders o ON o.customer = c.id ORDER BY o.id",
        [("Ann",), ("Ann",), ("Bob",)],
    ),
    (
        "SELECT c.id, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.id"
        " WHERE c.id > 1 ORDER BY 1",
        [(2, 12), (3, None)],
    ),
    (
        "SELECT c.id, o.id FROM customers c RIGHT OUTER JOIN orders o ON o.customer = c.id"
        " WHERE o.id > 11 ORDER BY o.id",
        [(2, 12), (None, 13)],
    ),
    ("SELECT COUNT(*) FROM customers c FULL JOIN orders o ON o.customer = c.id", [(5,)]),
    ("SELECT COUNT(*) FROM customers, orders", [(12,)]),
    ("SELECT COUNT(*) FROM customers c CROSS JOIN orders", [(12,)]),
    ("SELECT city, COUNT(*) n FROM customers GROUP BY city ORDER BY n", [(None, 1), ("Oslo", 2)]),
    (
        "SELECT YEAR(day), COUNT(*) FROM orders GROUP BY YEAR(day) ORDER BY YEAR(day) DESC",
        [(2020, 3), (None, 1)],
    ),
    (
        "SELECT customer FROM orders GROUP BY customer HAVING SUM(amount) > 5 ORDER BY customer",
        [(None,), (1,)],
    ),
    ("SELECT DISTINCT city FROM customers ORDER BY city", [(None,), ("Oslo",)]),
    ("SELECT COUNT(DISTINCT city) FROM customers", [(1,)]),
    ("SELECT TOP 2 id FROM orders ORDER BY id DESC", [(13,), (12,)]),
    (
        "SELECT TOP (1) WITH TIES day FROM orders WHERE day IS NOT NULL ORDER BY day DESC",
        [(737425,), (737425,)],
    ),
    ("SELECT id FROM orders ORDER BY id OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", [(11,), (12,)]),
    ("SELECT id FROM orders ORDER BY id OFFSET 3 ROWS", [(13,)]),
    (
        "SELECT id FROM customers UNION SELECT customer FROM orders ORDER BY 1 DESC",
        [(3,), (2,), (1,), (None,)],
    ),
    ("SELECT COUNT(*) FROM (SELECT 'a' AS x UNION SELECT 'A') AS u", [(1,)]),
    ("SELECT id FROM customers EXCEPT SELECT customer FROM orders", [(3,)]),
    ("SELECT id FROM customers INTERSECT SELECT customer FROM orders ORDER BY id", [(1,), (2,)]),
    (
        "SELECT name FROM customers WHERE id IN (SELECT customer FROM orders) ORDER BY name DESC",
        [("Bob",), ("Ann",)],
    ),
    ("SELECT name FROM customers WHERE id NOT IN (SELECT customer FROM orders)", []),
    (
        "SELECT name FROM customers c"
        " WHERE NOT EXISTS (SELECT * FROM orders WHERE customer = c.id)",
        [("Cid",)],
    ),
    (
        "SELECT name, (SELECT MAX(id) FROM orders WHERE customer = c.id) FROM customers c"
        " ORDER BY name",
        [("Ann", 11), ("Bob", 12), ("Cid", None)],
    ),
    ("SELECT x.n FROM (SELECT name AS n, id FROM customers) AS x WHERE x.id = 2", [("Bob",)]),
    ("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t) WHERE n > 1", [(2, "b")]),
    (
        "WITH big AS (SELECT * FROM orders WHERE amount > 5), few (k) AS (SELECT customer FROM big)"
        " SELECT k FROM few ORDER BY k",
        [(None,), (1,)],
    ),
    ("WITH u AS (SELECT 1 AS n UNION ALL SELECT 2.5) SELECT MAX(n) FROM u", [(25,)]),
    (
        "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT SUM(i) FROM n",
        [(10,)],
    ),
    (
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id DESC) FROM orders"
        " ORDER BY id",
        [(10, 2), (11, 1), (12, 1), (13, 1)],
    ),
    (
        "SELECT id, LAG(id) OVER (ORDER BY id), LEAD(id, 1, 0) OVER (ORDER BY id) FROM orders",
        [(10, None, 11), (11, 10, 12), (12, 11, 13), (13, 12, 0)],
    ),
    (
        "SELECT name, x.id FROM customers c CROSS APPLY (SELECT TOP 1 id FROM orders"
        " WHERE customer = c.id ORDER BY id DESC) AS x ORDER BY name",
        [("Ann", 11), ("Bob", 12)],
    ),
    (
        "SELECT name, x.id FROM customers c OUTER APPLY (SELECT id FROM orders"
        " WHERE customer = c.id AND amount > 7) AS x ORDER BY name",
        [("Ann", 11), ("Bob", None), ("Cid", None)],
    ),
    ("SELECT value FROM STRING_SPLIT('a,b,c', ',') ORDER BY value DESC", [("c",), ("b",), ("a",)]),
    ("SELECT id FROM shop.dbo.orders WHERE orders.id = 10", [(10,)]),
    ("SELECT dbo.orders.id FROM dbo.orders WHERE shop.dbo.orders.id = 10", [(10,)]),
    ("SELECT o.* FROM orders AS o WITH (NOLOCK) WHERE amount = 1.0", [(12, 2, 100, 737425)]),
    ('SELECT [id] AS "n n" FROM [orders] WHERE id = 10 OPTION (RECOMPILE)', [(10,)]),
    ("SELECT n = id FROM orders WHERE id = 10", [(10,)]),
    (
        "SELECT STRING_AGG(name, ';') WITHIN GROUP (ORDER BY name DESC) FROM customers",
        [("Cid;Bob;Ann",)],
    ),
    (
        "SELECT 5 AS n, name FROM customers ORDER BY n, name DESC",
        [(5, "Cid"), (5, "Bob"), (5, "Ann")],
    ),
    ("SELECT MIN(day), MAX(day) FROM orders", [(737424, 737425)]),
    (
        "SELECT SUM(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
        " FROM orders WHERE 1 = 0",
        [],
    ),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_query(shop, query, expected):
    outcome = shop(query)
    assert not outcome.errors, outcome.texts
    assert outcome.rows == expected


ERRORS = [
    ("SELECT * FROM nosuch", 208, "Invalid object name 'nosuch'."),
    ("SELECT * FROM nodb.dbo.t", 208, "Invalid object name 'nodb.dbo.t'."),
    ("SELECT id FROM customers, orders", 209, "Ambiguous column name 'id'."),
    ("SELECT x.id FROM customers", 4104, 'The multi-part identifier "x.id" could not be bound.'),
    ("SELECT c.nosuch FROM customers c", 207, "Invalid column name 'nosuch'."),
    ("SELECT name, COUNT(*) FROM customers", 8120, None),
    (
        "SELECT name FROM customers GROUP BY name HAVING id > 1",
        8121,
        "Column 'customers.id' is invalid in the HAVING clause because it is not contained in"
        " either an aggregate function or the GROUP BY clause.",
    ),
    (
        "SELECT name FROM customers GROUP BY name ORDER BY id",
        8127,
        'Column "customers.id" is invalid in the ORDER BY clause because it is not contained in'
        " either an aggregate function or the GROUP BY clause.",
    ),
    ("SELECT id FROM customers UNION SELECT 1, 2", 205, None),
    ("SELECT 1 FROM customers c JOIN orders c ON 1 = 1", 1013, None),
    ("SELECT * FROM (SELECT 1) x", 8155, None),
    ("SELECT id FROM customers ORDER BY 2", 108, None),
    ("SELECT DISTINCT name FROM customers ORDER BY id", 145, None),
    ("SELECT TOP (-1) id FROM customers", 1060, None),
    ("SELECT COUNT(*) FROM customers GROUP BY 1", 164, None),
    ("SELECT FROM customers", 156, "Incorrect syntax near the keyword 'FROM'."),
    ("SELECT id FORM customers", 102, "Incorrect syntax near 'customers'."),
    ("SELECT 'abc", 105, "Unclosed quotation mark after the character string 'abc'."),
    ("SELECT 1 /* x", 113, "Missing end comment mark '*/'."),
    ("SELECT id FROM customers WHERE name", 4145, None),
    ("SELECT id FROM customers TABLESAMPLE (10 PERCENT)", 50900, None),
    ("SELECT id FROM customers FOR XML EXPLICIT", 50900, None),
    ("SELECT id FROM customers GROUP BY ALL id", 50900, None),
    ("SELECT x.* FROM customers", 107, None),
]


@pytest.mark.parametrize(("query", "number", "text"), ERRORS)
def test_error(shop, query, number, text):
    outcome = shop(query)
    assert outcome.errors == [number], outcome.texts
    if text is not None:
        assert outcome.texts == [text]


def test_system_views_join_like_tables(shop):
    outcome = shop(
        "SELECT s.name, t.name, c.name FROM sys.tables t JOIN sys.schemas s"
        " ON s.schema_id = t.schema_id JOIN sys.columns c ON c.object_id = t.object_id"
        " WHERE t.name = 'orders' ORDER BY c.column_id"
    )
    assert [row[2] for row in outcome.rows] == ["id", "customer", "amount", "day"]


def test_the_same_statement_sees_new_rows_and_new_columns(shop):
    assert shop("SELECT * FROM customers WHERE id = 1").rows == [(1, "Ann", "Oslo")]
    shop("ALTER TABLE customers ADD vip bit NOT NULL DEFAULT 0")
    assert shop("SELECT * FROM customers WHERE id = 1").rows == [(1, "Ann", "Oslo", 0)]


def test_a_view(shop):
    shop("CREATE VIEW v AS SELECT id AS k, name FROM customers WHERE id < 3")
    assert shop("SELECT k FROM v WHERE name = 'bob'").rows == [(2,)]
    assert shop("CREATE VIEW v AS SELECT 1 AS a").errors == [2714]
    shop("DROP VIEW v")
    assert shop("SELECT * FROM v").errors == [208]


def test_names_in_other_databases(shop, engine):
    engine.create_database("other")
    shop("SELECT id INTO other.dbo.copy FROM customers")
    assert shop("SELECT COUNT(*) FROM other..copy").rows == [(3,)]
    assert shop("USE other; SELECT MAX(id) FROM copy").rows == [(3,)]


def test_select_into_keeps_types(shop):
    shop("SELECT id, amount * 2 AS twice, day INTO copy FROM orders")
    outcome = shop("SELECT * FROM copy WHERE id = 11")
    assert outcome.types == ["int", "decimal(11,2)", "date"]
    assert outcome.rows == [(11, 1500, 737425)]
