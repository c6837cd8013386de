"""INSERT, UPDATE, DELETE, MERGE, OUTPUT, constraints, local tables."""

from __future__ import annotations

import tracemalloc

import pytest

from tailrace_emulator.values.types import INT, SqlType, nvarchar


@pytest.fixture
def goods(sql):
    outcome = sql(
        "CREATE TABLE goods (id int IDENTITY(10, 5) PRIMARY KEY, name nvarchar(10) NOT NULL UNIQUE,"
        " price decimal(9,2) CONSTRAINT positive CHECK (price > 0), tag char(3) DEFAULT 'new',"
        " doubled AS (price * 2), kept AS (price * 3) PERSISTED, changed rowversion)"
    )
    assert not outcome.errors, outcome.texts
    return sql


def test_insert_fills_identity_defaults_and_computed_columns(goods):
    goods("INSERT goods (name, price) VALUES (N'a', 1.5), (N'b', 2)")
    outcome = goods("SELECT id, name, price, tag, doubled, kept FROM goods ORDER BY id")
    assert outcome.rows == [
        (10, "a", 150, "new", 300, 450),
        (15, "b", 200, "new", 400, 600),
    ]
    assert goods.value("SCOPE_IDENTITY()") is not None
    assert goods.text("@@IDENTITY") == "15"


def test_default_and_null_are_different(goods):
    goods("INSERT goods (name, tag) VALUES ('a', DEFAULT), ('b', NULL)")
    assert goods("SELECT tag FROM goods ORDER BY id").rows == [("new",), (None,)]
    goods("UPDATE goods SET tag = NULL; UPDATE goods SET tag = DEFAULT WHERE name = 'a'")
    assert goods("SELECT tag FROM goods ORDER BY id").rows == [("new",), (None,)]


CASES = [
    ("INSERT goods (name) VALUES (NULL)", 515),
    ("INSERT goods (price) VALUES (1)", 515),
    ("INSERT goods (name, price) VALUES ('x', -1)", 547),
    ("INSERT goods (name) VALUES ('a')", 2627),
    ("INSERT goods (name) VALUES ('0123456789x')", 2628),
    ("INSERT goods (name, price) VALUES ('x', 12345678.9)", 8115),
    ("INSERT goods (name, price) VALUES ('x', 'abc')", 8114),
    ("INSERT goods (id, name) VALUES (1, 'x')", 544),
    ("INSERT goods (nosuch) VALUES (1)", 207),
    ("INSERT goods (name, name) VALUES ('x', 'y')", 264),
    ("INSERT goods (name, price) VALUES ('x')", 109),
    ("INSERT goods (name) VALUES ('x', 2)", 110),
    ("INSERT goods (name) SELECT 'x', 1", 121),
    ("INSERT goods VALUES ('x')", 213),
    ("INSERT goods (doubled) VALUES (1)", 271),
    ("INSERT goods (changed) VALUES (0x01)", 273),
    ("UPDATE goods SET id = 5", 8102),
    ("UPDATE goods SET price = 0 WHERE name = 'a'", 547),
    ("UPDATE goods SET nosuch = 5", 207),
    ("UPDATE goods SET price = 1, price = 2", 264),
    ("UPDATE goods SET name = NULL", 515),
    ("UPDATE nosuch SET a = 1", 208),
    ("DELETE FROM nosuch", 208),
    ("INSERT sys.tables (name) VALUES ('x')", 259),
]


@pytest.mark.parametrize(("statement", "number"), CASES)
def test_error(goods, statement, number):
    goods("INSERT goods (name, price) VALUES ('a', 1)")
    assert goods(statement).errors == [number]
    assert goods("SELECT name, price FROM goods").rows == [("a", 100)]


def test_messages_name_the_constraint_and_the_column(goods):
    goods("INSERT goods (name, price) VALUES ('a', 1)")
    (text,) = goods("INSERT goods (name, price) VALUES ('b', -1)").texts
    assert text == (
        'The INSERT statement conflicted with the CHECK constraint "positive". The conflict'
        ' occurred in database "shop", table "dbo.goods", column \'price\'.'
    )
    outcome = goods("INSERT goods (name) VALUES ('0123456789x')")
    assert outcome.texts == [
        "String or binary data would be truncated in table 'shop.dbo.goods', column 'name'."
        " Truncated value: '0123456789'."
    ]
    assert outcome.messages == ["The statement has been terminated."]


def test_a_failed_statement_leaves_nothing_and_the_transaction_open(goods):
    outcome = goods(
        "BEGIN TRAN; INSERT goods (name) VALUES ('a');"
        " INSERT goods (name) VALUES ('b'), ('a'); SELECT @@TRANCOUNT, COUNT(*) FROM goods; COMMIT"
    )
    assert outcome.errors == [2627]
    assert outcome.rows == [(1, 1)]


def test_identity_insert(goods):
    outcome = goods(
        "SET IDENTITY_INSERT goods ON; INSERT goods (id, name) VALUES (100, 'x');"
        " SET IDENTITY_INSERT goods OFF; INSERT goods (name) VALUES ('y');"
        " SELECT id FROM goods ORDER BY id"
    )
    assert not outcome.errors, outcome.texts
    assert outcome.rows == [(100,), (105,)]


def test_update_forms(goods):
    goods("INSERT goods (name, price) VALUES ('a', 1), ('b', 2), ('c', 3)")
    assert goods("UPDATE goods SET price += 1, name = name + 'x' WHERE price > 1").counts == [2]
    assert goods("SELECT name, price FROM goods ORDER BY id").rows == [
        ("a", 100), ("bx", 300), ("cx", 400),
    ]  # fmt: skip
    goods(
        "UPDATE g SET price = s.p FROM goods AS g JOIN (VALUES ('a', 9), ('cx', 8)) AS s(n, p)"
        " ON s.n = g.name"
    )
    assert goods("SELECT price FROM goods ORDER BY id").rows == [(900,), (300,), (800,)]
    assert goods("UPDATE TOP (1) goods SET price = 1").counts == [1]
    outcome = goods("DECLARE @p decimal(9,2); UPDATE goods SET @p = price = 7 WHERE name = 'a';"
                    " SELECT @p")  # fmt: skip
    assert outcome.rows == [(700,)]


def test_a_key_update_over_all_rows(sql):
    sql("CREATE TABLE k (id int PRIMARY KEY); INSERT k VALUES (1), (2), (3)")
    assert sql("UPDATE k SET id = id + 1").errors == []
    assert sql("SELECT id FROM k ORDER BY id").rows == [(2,), (3,), (4,)]


def test_delete_forms(goods):
    goods("INSERT goods (name, price) VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4)")
    assert goods("DELETE goods WHERE name = 'A'").counts == [1]
    assert goods("DELETE g FROM goods g JOIN (SELECT 'b' AS n) s ON s.n = g.name").counts == [1]
    assert goods("DELETE TOP (1) FROM goods").counts == [1]
    goods("TRUNCATE TABLE goods")
    assert goods("SELECT COUNT(*) FROM goods").rows == [(0,)]


def test_output(goods):
    outcome = goods(
        "INSERT goods (name, price) OUTPUT inserted.id, inserted.*, inserted.doubled + 1"
        " VALUES ('a', 1)"
    )
    assert outcome.rows[0][:4] == (10, 10, "a", 100)
    outcome = goods(
        "UPDATE goods SET price = 2 OUTPUT deleted.price, inserted.price, inserted.kept"
    )
    assert outcome.rows == [(100, 200, 600)]
    outcome = goods(
        "DECLARE @gone TABLE (k int, n nvarchar(10)); DELETE goods OUTPUT deleted.id, deleted.name"
        " INTO @gone; SELECT * FROM @gone"
    )
    assert outcome.rows == [(10, "a")]


def test_merge(goods):
    goods("INSERT goods (name, price) VALUES ('a', 1), ('b', 2), ('c', 3)")
    outcome = goods(
        "MERGE goods AS t USING (VALUES ('a', 10), ('b', 20), ('d', 40)) AS s(n, p) ON t.name = s.n"
        " WHEN MATCHED AND s.n = 'b' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET price = s.p"
        " WHEN NOT MATCHED BY TARGET THEN INSERT (name, price) VALUES (s.n, s.p)"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET tag = 'old'"
        " OUTPUT $action, inserted.name, deleted.name;"
    )
    assert not outcome.errors, outcome.texts
    assert sorted(outcome.rows, key=str) == [
        ("DELETE", None, "b"), ("INSERT", "d", None), ("UPDATE", "a", "a"), ("UPDATE", "c", "c"),
    ]  # fmt: skip
    assert outcome.counts == [4]
    assert goods("SELECT name, price, tag FROM goods ORDER BY name").rows == [
        ("a", 1000, "new"), ("c", 300, "old"), ("d", 4000, "new"),
    ]  # fmt: skip


def test_merge_refuses_to_touch_a_row_twice(goods):
    goods("INSERT goods (name, price) VALUES ('a', 1)")
    outcome = goods(
        "MERGE goods AS t USING (VALUES (1), (2)) AS s(n) ON t.name = 'a'"
        " WHEN MATCHED THEN UPDATE SET price = s.n;"
    )
    assert outcome.errors == [8672]


def test_parameters_of_any_length_and_type_share_the_statement(goods):
    for n in range(1, 8):
        outcome = goods(
            "INSERT goods (name, price) VALUES (@P1, @P2)",
            ("@P1", nvarchar(n), "x" * n),
            ("@P2", SqlType("numeric", precision=n + 1, scale=1), 15),
        )
        assert not outcome.errors, outcome.texts
    assert goods("SELECT COUNT(*), MIN(price) FROM goods").rows == [(7, 150)]
    outcome = goods("SELECT id FROM goods WHERE name = @P1", ("@P1", nvarchar(3), "XXX"))
    assert outcome.rows == [(20,)]


def test_null_parameters(goods):
    outcome = goods(
        "INSERT goods (name, price) VALUES (@P1, @P2)",
        ("@P1", nvarchar(1), "n"), ("@P2", INT, None),
    )  # fmt: skip
    assert not outcome.errors, outcome.texts
    assert goods("SELECT price FROM goods").rows == [(None,)]


def test_insert_select_from_itself(goods):
    goods("INSERT goods (name) VALUES ('a')")
    goods("INSERT goods (name) SELECT name + '2' FROM goods")
    assert goods("SELECT name FROM goods ORDER BY name").rows == [("a",), ("a2",)]


def test_temporary_tables_follow_transactions_and_variables_do_not(sql):
    outcome = sql(
        "CREATE TABLE #t (a int); DECLARE @v TABLE (a int); BEGIN TRAN; INSERT #t VALUES (1);"
        " INSERT @v VALUES (1); ROLLBACK; SELECT (SELECT COUNT(*) FROM #t), COUNT(*) FROM @v"
    )
    assert outcome.rows == [(0, 1)]
    assert sql("SELECT * FROM #t").errors == []
    assert sql("CREATE TABLE #t (a int)").errors == [2714]
    assert sql("DROP TABLE #t; SELECT * FROM #t").errors == [208]


def test_table_variables_have_constraints(sql):
    outcome = sql(
        "DECLARE @v TABLE (a int PRIMARY KEY, b varchar(2) NOT NULL, CHECK (a > 0));"
        " INSERT @v VALUES (1, 'x'); INSERT @v VALUES (1, 'y'); INSERT @v VALUES (2, NULL);"
        " INSERT @v VALUES (-1, 'z'); INSERT @v VALUES (3, 'abc'); SELECT * FROM @v"
    )
    assert outcome.errors == [2627, 515, 547, 2628]
    assert outcome.rows == [(1, "x")]


def test_foreign_keys(sql):
    sql(
        "CREATE TABLE parents (id int PRIMARY KEY);"
        "CREATE TABLE children (id int, parent int REFERENCES parents (id));"
        "INSERT parents VALUES (1); INSERT children VALUES (1, 1), (2, NULL)"
    )
    assert sql("INSERT children VALUES (3, 9)").errors == [547]
    assert sql("DELETE parents").errors == [547]


def test_two_open_transactions_do_not_see_each_other(goods, other):
    goods("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON")
    goods("BEGIN TRAN; INSERT goods (name) VALUES ('mine')")
    other("BEGIN TRAN; INSERT goods (name) VALUES ('yours')")
    assert goods("SELECT name FROM goods").rows == [("mine",)]
    assert other("SELECT name FROM goods").rows == [("yours",)]
    other("COMMIT")
    assert goods("SELECT name FROM goods ORDER BY name").rows == [("mine",), ("yours",)]
    goods("ROLLBACK")
    assert goods("SELECT name FROM goods").rows == [("yours",)]


@pytest.mark.parametrize(
    "statement", ["INSERT t SELECT n, @text FROM many", "UPDATE many SET c = @text", "DELETE many"]
)
def test_a_statement_over_many_rows_does_not_hold_them_all(sql, statement):
    sql("CREATE TABLE t (id int, c varchar(200)); CREATE TABLE many (n int, c varchar(200))")
    sql("INSERT many (n) VALUES " + ", ".join(f"({n})" for n in range(100)))
    others = "CROSS JOIN many AS b CROSS JOIN many AS c WHERE a.n < 3"
    sql(f"INSERT many SELECT 100, NULL FROM many AS a {others}")
    tracemalloc.start()
    try:
        outcome = sql(f"DECLARE @text varchar(200) = REPLICATE('x', 200); {statement}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.counts == [30_100]
    assert peak < 30_100 * 200


def test_rows_are_changed_by_a_query_of_their_own_after_the_table_was_altered(sql):
    sql("CREATE TABLE t (id int PRIMARY KEY); INSERT t VALUES (1), (2), (3)")
    sql("ALTER TABLE t ADD c int NOT NULL DEFAULT 0")
    assert sql("INSERT t SELECT id + 10, 1 FROM t").counts == [3]
    sql("ALTER TABLE t ADD d int NULL")
    assert sql("UPDATE t SET c = id").counts == [6]
    sql("ALTER TABLE t ADD e int NULL")
    assert sql("SET ROWCOUNT 2; DELETE t; SET ROWCOUNT 0").counts == [2]
    assert sql.value("COUNT(*)") == 1
    assert sql("SELECT COUNT(*), SUM(c - id) FROM t").rows == [(4, 0)]
