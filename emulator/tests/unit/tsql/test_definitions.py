"""CREATE, ALTER, DROP: what the catalog keeps and what existing rows become."""

from __future__ import annotations

from typing import Any

import pytest


def columns(sql: Any, table: str = "t") -> list[tuple[str, str, bool]]:
    found = sql.context.database.table("dbo", table)
    return [(c.name, str(c.type), c.nullable) for c in found.columns]


def test_every_type(sql):
    outcome = sql(
        "CREATE TABLE t (a bigint, b int NOT NULL, c smallint, d tinyint, e bit, f decimal(9,2),"
        " g numeric, h money, i smallmoney, j float, k real, l float(24), m char(3), n varchar(10),"
        " o varchar(max), p nchar(2), q nvarchar(max), r binary(4), s varbinary(max), t date,"
        " u time(3), v datetime2, w datetime2(0), x datetime, y smalldatetime, z datetimeoffset(2),"
        " aa uniqueidentifier, ab rowversion, ac xml, ad sysname, ae text, [a b] int)"
    )
    assert not outcome.errors, outcome.texts
    types = [t for _, t, _ in columns(sql)]
    assert types == [
        "bigint", "int", "smallint", "tinyint", "bit", "decimal(9,2)", "numeric(18,0)", "money",
        "smallmoney", "float", "real", "real", "char(3)", "varchar(10)", "varchar(max)", "nchar(2)",
        "nvarchar(max)", "binary(4)", "varbinary(max)", "date", "time(3)", "datetime2(7)",
        "datetime2(0)", "datetime", "smalldatetime", "datetimeoffset(2)", "uniqueidentifier",
        "timestamp", "xml", "nvarchar(128)", "text", "int",
    ]  # fmt: skip


def test_keys_and_indexes(sql):
    sql(
        "CREATE TABLE t (a int, b int, c int UNIQUE, CONSTRAINT pk PRIMARY KEY (b, a DESC),"
        " INDEX ix (c))"
    )
    sql("CREATE UNIQUE NONCLUSTERED INDEX extra ON t (a) INCLUDE (c)")
    table = sql.context.database.table("dbo", "t")
    primary = table.primary_key
    assert (primary.name, primary.column_ids, primary.descending, primary.clustered) == (
        "pk", (2, 1), (False, True), True,
    )  # fmt: skip
    assert [c[2] for c in columns(sql)] == [False, False, True]
    assert {i.name for i in table.indexes} >= {"pk", "ix", "extra"}
    assert sql("DROP INDEX extra ON t; DROP INDEX IF EXISTS extra ON t").errors == []


ERRORS = [
    ("CREATE TABLE t (a int)", 2714),
    ("CREATE TABLE nosuch.t (a int)", 2760),
    ("CREATE TABLE x (a int, A int)", 2705),
    ("CREATE TABLE x (a nosuch)", 2715),
    ("CREATE TABLE x (a int, PRIMARY KEY (b))", 1911),
    ("CREATE TABLE x (a int NULL PRIMARY KEY)", 8111),
    ("CREATE TABLE x (a int IDENTITY, b int IDENTITY)", 2744),
    ("CREATE TABLE x (a varchar(5) IDENTITY)", 2749),
    ("CREATE TABLE x (a int REFERENCES nosuch (id))", 1767),
    ("CREATE TABLE x (a int CHECK (b > 0))", 207),
    ("CREATE TABLE x (a AS nosuch)", 207),
    ("CREATE TABLE x (a decimal(39,2))", 2750),
    ("CREATE TABLE x (a varchar(9000))", 131),
    ("DROP TABLE nosuch", 3701),
    ("DROP DATABASE nosuch", 3701),
    ("ALTER TABLE nosuch ADD a int", 4902),
    ("ALTER TABLE t ADD a int", 2705),
    ("ALTER TABLE t DROP COLUMN nosuch", 4924),
    ("ALTER TABLE t DROP CONSTRAINT nosuch", 3728),
    ("ALTER TABLE t ALTER COLUMN nosuch int", 4924),
    ("ALTER TABLE t ADD n int NOT NULL", 4901),
    ("ALTER TABLE t ALTER COLUMN s int", 245),
    ("ALTER TABLE t ALTER COLUMN s varchar(1)", 2628),
    ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 100)", 547),
    ("ALTER TABLE t ADD PRIMARY KEY (s)", 8111),
    ("USE nosuch", 911),
    ("CREATE SCHEMA dbo", 2714),
]


@pytest.mark.parametrize(("statement", "number"), ERRORS)
def test_error(sql, statement, number):
    sql("CREATE TABLE t (a int, s varchar(10) NULL); INSERT t VALUES (1, 'abc')")
    outcome = sql(statement)
    assert outcome.errors == [number], outcome.texts
    assert sql("SELECT * FROM t").rows == [(1, "abc")]


def test_alter_table_add(sql):
    sql("CREATE TABLE t (a int); INSERT t VALUES (1)")
    outcome = sql(
        "ALTER TABLE t ADD b int NOT NULL CONSTRAINT df DEFAULT 7, c varchar(5) DEFAULT 'x',"
        " d varchar(5) DEFAULT 'y' WITH VALUES, e AS (a + b), f int IDENTITY(5, 5)"
    )
    assert not outcome.errors, outcome.texts
    assert sql("SELECT * FROM t").rows == [(1, 7, None, "y", 8, 5)]
    sql("INSERT t (a) VALUES (2)")
    assert sql("SELECT * FROM t WHERE a = 2").rows == [(2, 7, "x", "y", 9, 10)]


def test_alter_table_drop(sql):
    sql("CREATE TABLE t (a int, b int CONSTRAINT df DEFAULT 1, c int, CONSTRAINT ck CHECK (c > 0))")
    assert sql("ALTER TABLE t DROP COLUMN b").errors == [5074]
    assert sql("ALTER TABLE t DROP COLUMN c").errors == [5074]
    outcome = sql("ALTER TABLE t DROP CONSTRAINT df, ck, COLUMN b, c")
    assert not outcome.errors, outcome.texts
    assert columns(sql) == [("a", "int", True)]


def test_alter_column(sql):
    sql("CREATE TABLE t (a int, b varchar(5) NOT NULL); INSERT t VALUES (1, 'x')")
    sql("ALTER TABLE t ALTER COLUMN a bigint NOT NULL; ALTER TABLE t ALTER COLUMN b nvarchar(20)")
    assert columns(sql) == [("a", "bigint", False), ("b", "nvarchar(20)", True)]
    sql("ALTER TABLE t ALTER COLUMN a decimal(9,2)")
    assert sql("SELECT a, b FROM t").rows == [(100, "x")]


def test_definitions_roll_back_with_their_transaction(sql):
    sql("CREATE TABLE t (a int); INSERT t VALUES (1)")
    sql(
        "BEGIN TRAN; ALTER TABLE t ADD b int; CREATE TABLE u (a int); INSERT u VALUES (1); ROLLBACK"
    )
    assert columns(sql) == [("a", "int", True)]
    assert sql("SELECT * FROM u").errors == [208]
    assert sql("SELECT * FROM t").rows == [(1,)]


def test_defaults_are_kept_as_the_catalog_shows_them(sql):
    sql("CREATE TABLE t (a int DEFAULT 0, b varchar(5) DEFAULT ('x'), c date DEFAULT getdate())")
    found = sql.context.database.table("dbo", "t")
    assert [c.default for c in found.columns] == ["((0))", "('x')", "(getdate())"]
    assert [c.default_name.rsplit("__", 1)[0] for c in found.columns] == [
        "DF__t__a", "DF__t__b", "DF__t__c",
    ]  # fmt: skip


def test_the_names_of_keys_depend_on_their_columns(sql):
    """The digits of these names are in public scripts: PK__books__3213E83F, UQ__users__AB6E6164."""
    for table in ("Apartment", "b"):
        sql(
            f"CREATE TABLE {table} (id int PRIMARY KEY, email varchar(9) UNIQUE, a int UNIQUE,"
            " b int, UNIQUE (a, b), UNIQUE (b, a), CHECK (a > 0))"
        )
    keys = {
        table: {
            index.column_ids: index.name
            for index in sql.context.database.table("dbo", table).indexes
        }
        for table in ("Apartment", "b")
    }
    of_one, of_other = keys["Apartment"], keys["b"]
    assert of_one[1,].startswith("PK__Apartmen__3213E83F")
    assert of_other[2,].startswith("UQ__b__AB6E6164")
    digits = [name.split("__")[2] for name in [*of_one.values(), *of_other.values()]]
    assert {len(found) for found in digits} == {16}
    assert len({found[:8] for found in digits}) == 5  # the columns', in order
    assert len({found[8:] for found in digits}) == 10  # the object's
    assert {k: n.split("__")[2][:8] for k, n in of_one.items()} == {
        k: n.split("__")[2][:8] for k, n in of_other.items()
    }
    sql("CREATE TABLE c (a int); ALTER TABLE c ADD UNIQUE (A)")
    (added,) = sql.context.database.table("dbo", "c").indexes
    assert added.name.split("__")[2][:8] == of_one[3,].split("__")[2][:8]
    (check,) = sql.context.database.table("dbo", "Apartment").checks
    assert check.name.startswith("CK__Apartment__")


@pytest.mark.parametrize(
    ("column", "digits"),
    [
        *(("id", "3213E83F"), ("Id", "3214EC07"), ("ID", "3214EC27"), ("name", "72E12F1A")),
        *(("email", "AB6E6164"), ("username", "F3DBC572")),
    ],
)
def test_the_digits_of_keys_that_are_known(sql, column, digits):
    sql(f"CREATE TABLE t ({column} varchar(9) UNIQUE)")
    (index,) = sql.context.database.table("dbo", "t").indexes
    assert index.name.startswith(f"UQ__t__{digits}")


def test_databases_and_schemas(sql, engine):
    sql("CREATE DATABASE two; CREATE SCHEMA sales; CREATE TABLE sales.t (a int)")
    assert "two" in engine.databases
    assert sql("SELECT * FROM sales.t").rows == []
    assert sql("DROP SCHEMA sales").errors == [3729]
    assert sql("DROP TABLE sales.t; DROP SCHEMA sales; DROP DATABASE two").errors == []
    assert sql("DROP TABLE IF EXISTS nosuch; DROP DATABASE IF EXISTS nosuch").errors == []
    assert sql("BEGIN TRAN; CREATE DATABASE three").errors == [226]


def test_database_options(sql):
    sql("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON, RECOVERY SIMPLE")
    outcome = sql(
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; CREATE TABLE t (a int); BEGIN TRAN;"
        " SELECT * FROM t; COMMIT"
    )
    assert not outcome.errors, outcome.texts
    assert sql("ALTER DATABASE shop SET HONOR_BROKER_PRIORITY ON").errors == [50900]


def test_a_database_with_the_id_of_a_dropped_one_begins_its_identities_anew(sql):
    for _ in range(2):
        sql("CREATE DATABASE passing; ALTER DATABASE passing SET RECOVERY SIMPLE")
        sql("USE passing; CREATE TABLE t (id int IDENTITY(5, 1), v rowversion, a int)")
        outcome = sql("INSERT t (a) VALUES (1); SELECT id, @@DBTS FROM t")
        assert outcome.rows == [(5, (2001).to_bytes(8, "big"))]
        sql("USE shop; DROP DATABASE passing")
