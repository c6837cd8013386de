"""Two types in one column: every pair of types in VALUES, UNION ALL, CASE and their like.

"Data type precedence": the operand of lower precedence is converted to the type of the other. A
value is therefore converted twice on its way into a table: to the type that the column of VALUES
has, and then to the column's. What that must give is computed here from the precedence as the
page lists it and from single conversions, which have tests of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.collation import collation_key, ordering_of, value_key
from tailrace_emulator.tsql.conversions import assigner, check_allowed, convert
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    DATE,
    DATETIME,
    DEFAULT_COLLATION,
    FLOAT,
    INT,
    MAX,
    MONEY,
    REAL,
    SMALLDATETIME,
    SMALLINT,
    SMALLMONEY,
    SQL_VARIANT,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    decimal_type,
    varbinary,
)

PRECEDENCE = [
    "sql_variant", "xml", "datetimeoffset", "datetime2", "datetime", "smalldatetime", "date",
    "time", "float", "real", "decimal", "numeric", "money", "smallmoney", "bigint", "int",
    "smallint", "tinyint", "bit", "ntext", "text", "image", "uniqueidentifier", "nvarchar", "nchar",
    "varchar", "char", "varbinary", "binary",
]  # fmt: skip
"""As "Data type precedence" lists it, highest first."""

DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def text(name: str, length: int = 0) -> SqlType:
    return SqlType(name, length=length, collation=DEFAULT_COLLATION)


GUID = "'6F9619FF-8B86-D011-B42D-00C04FC964FF'"
WORDS = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), "1"),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney", "float", "real"), "12.5"),
    **dict.fromkeys(("date", "smalldatetime", "datetime", "datetime2"), "2024-02-29"),
    "datetimeoffset": "2024-02-29 12:30:00 +02:00",
    "time": "12:30:15",
    "uniqueidentifier": GUID.strip("'"),
}
"""What a text says beside a value of a type, so that it can be converted to it."""


class Kind(NamedTuple):
    """A type, and T-SQL of a value of it; None for text, which suits what it meets."""

    type: SqlType
    value: str | None


KINDS = [
    Kind(BIT, "1"),
    Kind(TINYINT, "201"),
    Kind(SMALLINT, "-12345"),
    Kind(INT, "1234567"),
    Kind(BIGINT, "-123456789012"),
    Kind(decimal_type(5, 3), "15.756"),
    Kind(SqlType("numeric", precision=24, scale=6), "-123456789.123456"),
    Kind(SMALLMONEY, "99.9955"),
    Kind(MONEY, "123456.7891"),
    Kind(REAL, "0.5"),
    Kind(FLOAT, "1.25e3"),
    Kind(DATE, "'2024-02-29'"),
    Kind(SqlType("time", scale=5), "'12:34:56.78912'"),
    Kind(SMALLDATETIME, "'2024-02-29T12:34:00'"),
    Kind(DATETIME, "'2024-02-29T12:34:56.787'"),
    Kind(SqlType("datetime2", scale=4), "'2024-02-29T12:34:56.7891'"),
    Kind(SqlType("datetimeoffset", scale=2), "'2024-02-29T12:34:56.78+02:00'"),
    Kind(text("char", 40), None),
    Kind(text("varchar", 45), None),
    Kind(text("nchar", 38), None),
    Kind(text("nvarchar", 50), None),
    Kind(text("varchar", MAX), None),
    Kind(text("text"), None),
    Kind(text("ntext"), None),
    Kind(text("xml"), "'<a/>'"),
    Kind(SqlType("binary", length=6), "0x010203"),
    Kind(varbinary(16), "0x6162636465666768696A6B6C6D6E6F70"),
    Kind(varbinary(MAX), "0x0405"),
    Kind(SqlType("image"), "0x070809"),
    Kind(UNIQUEIDENTIFIER, GUID),
    Kind(SQL_VARIANT, "CAST(1.5 AS decimal(3,1))"),
]
NAMES = [str(kind.type) for kind in KINDS]


def value_of(kind: Kind, beside: Kind) -> str:
    """T-SQL of a value of a type, for a place beside a value of another."""
    return kind.value or f"'{WORDS.get(beside.type.name, 'some text')}'"


def united(a: SqlType, b: SqlType) -> SqlType:
    """The type of a column with values of both."""
    high, low = sorted((a, b), key=lambda t: PRECEDENCE.index(t.name))
    if high.name in {"decimal", "numeric"} and (low.is_decimal or low.name in DIGITS):
        digits = DIGITS.get(low.name) or low.precision
        scale = max(high.scale, low.scale)
        return SqlType(
            "decimal" if "decimal" in {a.name, b.name} else "numeric",
            precision=max(high.precision - high.scale, digits - low.scale) + scale,
            scale=scale,
        )
    if high.name in {"time", "datetime2", "datetimeoffset"} and low.name in {
        "time", "datetime2", "datetimeoffset", "datetime",
    }:  # fmt: skip
        return SqlType(high.name, scale=max(high.scale, low.scale))
    sized = {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}
    if {high.name, low.name} <= sized:
        length = MAX if MAX in {a.length, b.length} else max(a.length, b.length)
        name = high.name
        if high.name != low.name:  # of varying length, unless both are fixed and alike
            name = {"char": "varchar", "nchar": "nvarchar", "binary": "varbinary"}.get(name, name)
        return SqlType(name, length=length, collation=high.collation)
    return high


def through(value: Any, source: SqlType, middle: SqlType, target: SqlType) -> Any:
    """A value on its way: converted to ``middle``, then stored in a column."""
    for left, right in ((source, middle), (middle, target)):
        if left != right:
            check_allowed(left, right, explicit=False)
    value = value if source == middle else convert(value, source, middle)
    store = None if middle == target else assigner(middle, target, "t", "v")
    return value if store is None else store(value)


Pair = list[tuple[SqlType, Any]]


class Expected(NamedTuple):
    """Rows, or the errors of which one must come."""

    rows: list[tuple[Any, ...]]
    errors: frozenset[int]


def expected(pair: Pair, target: SqlType | None) -> Expected:
    """What a column of two values gives, in a table's column or (None) by itself."""
    middle = united(pair[0][0], pair[1][0])
    rows, errors = [], set()
    for sql_type, value in pair:
        try:
            rows.append((through(value, sql_type, middle, target or middle),))
        except SqlError as error:
            errors.add(error.number)
    return Expected([] if errors else rows, frozenset(errors))


@pytest.fixture(scope="module")
def tables(calculator):
    """A session with tables for each type: ``t<n>``, #temp ``#t<n>``, and ``u<n>`` with a key."""
    calculator("CREATE DATABASE pairs")
    calculator("USE pairs")
    for n, name in enumerate(NAMES):
        for table in (f"t{n}", f"#t{n}"):
            made = calculator(f"CREATE TABLE {table} (v {name} NULL)")
            assert not made.errors, made.texts
        made = calculator(f"CREATE TABLE u{n} (n int PRIMARY KEY, v {name} NULL)")
        assert not made.errors, made.texts
    yield calculator
    calculator("USE shop; DROP DATABASE pairs")


@pytest.fixture(scope="module")
def pairs(calculator) -> dict[tuple[Kind, Kind], Pair]:
    """For every two types: each with a value as the engine keeps it."""
    shown = {(a, b): f"CAST({value_of(a, b)} AS {a.type})" for a in KINDS for b in KINDS}
    rows = [calculator(f"SELECT {', '.join(shown[a, b] for b in KINDS)}").rows[0] for a in KINDS]
    values = {
        (a, b): v
        for a, row in zip(KINDS, rows, strict=True)
        for b, v in zip(KINDS, row, strict=True)
    }
    return {(a, b): [(a.type, values[a, b]), (b.type, values[b, a])] for a, b in shown}


def check(found, wanted: Expected, said: str) -> None:
    if wanted.errors:
        assert set(found.errors) & wanted.errors, (said, wanted.errors, found.errors, found.sets)
        assert len(found.errors) == 1, (said, found.errors)
        return
    assert not found.errors, (said, found.texts)
    assert found.rows == wanted.rows, said


@pytest.mark.parametrize("first", KINDS, ids=NAMES)
def test_values_into_tables(tables, pairs, first):
    """As variables into tables, as RPC parameters into table variables, as either into #temp."""
    for second in KINDS:
        pair = pairs[first, second]
        given = [("@a", *pair[0]), ("@b", *pair[1])]
        declared = (
            f"DECLARE @a {first.type} = {value_of(first, second)},"
            f" @b {second.type} = {value_of(second, first)};"
        )
        for number, target in enumerate(dict.fromkeys((first, second))):
            n = KINDS.index(target)
            wanted = expected(pair, target.type)
            insert = "INSERT {0} VALUES (@a), (@b); SELECT v FROM {0}"
            said = f"{first.type} beside {second.type} into {target.type}"
            tables(f"TRUNCATE TABLE t{n}; TRUNCATE TABLE #t{n}")
            check(tables(declared + insert.format(f"t{n}")), wanted, f"variables, {said}")
            sql = f"DECLARE @t TABLE (v {target.type} NULL); {insert.format('@t')}"
            check(tables(sql, *given), wanted, f"parameters, {said}")
            sql = insert.format(f"#t{n}")
            found = tables(sql, *given) if number else tables(declared + sql)
            check(found, wanted, f"#temp, {said}")


QUERIES = [
    "SELECT @a UNION ALL SELECT @b",
    "SELECT v FROM (VALUES (@a), (@b)) AS x(v)",
    "SELECT CASE n WHEN 1 THEN @a ELSE @b END FROM (VALUES (1), (2)) AS x(n)",
    "SELECT IIF(n = 1, @a, @b) FROM (VALUES (1), (2)) AS x(n)",
    "SELECT CHOOSE(n, @a, @b) FROM (VALUES (1), (2)) AS x(n)",
    "SELECT COALESCE(CASE n WHEN 1 THEN @a END, @b) FROM (VALUES (1), (2)) AS x(n)",
    "SELECT v FROM (SELECT 1 AS n, @a AS v UNION ALL SELECT 2, @b) AS x ORDER BY n",
]
DISTINCT = [
    "SELECT @a UNION SELECT @b",
    "SELECT @a UNION SELECT @b EXCEPT SELECT @a WHERE 1 = 0",
    "(SELECT @a UNION ALL SELECT @b) INTERSECT (SELECT @a UNION ALL SELECT @b)",
]
UNCOMPARED = {"text", "ntext", "image", "xml"}
"""Types of which no two values are compared."""
INSERTS = [
    "INSERT t{0} SELECT @a UNION ALL SELECT @b",
    "INSERT t{0} SELECT v FROM (VALUES (@a), (@b)) AS x(v)",
    "MERGE t{0} AS t USING (VALUES (@a), (@b)) AS x(v) ON 1 = 0"
    " WHEN NOT MATCHED THEN INSERT (v) VALUES (x.v);",
    "INSERT t{0} VALUES ((SELECT @a)), ((SELECT @b))",
    "INSERT t{0} VALUES (CAST({1} AS {2})), (CAST({3} AS {4}))",
    "INSERT t{0} VALUES (CAST({1} AS {2})), (@b)",
    "INSERT t{0} SELECT COALESCE(CASE n WHEN 1 THEN @a END, @b) FROM (VALUES (1), (2)) AS x(n)",
    "TRUNCATE TABLE u{0}; INSERT u{0} VALUES (1, NULL), (2, NULL);"
    " MERGE u{0} AS t USING (VALUES (1, @a), (2, @b)) AS x(n, v) ON t.n = x.n"
    " WHEN MATCHED THEN UPDATE SET v = x.v; INSERT t{0} SELECT v FROM u{0}",
]


@pytest.mark.parametrize("first", KINDS, ids=NAMES)
def test_queries(tables, pairs, first):
    """UNION ALL, VALUES in FROM, CASE, IIF, CHOOSE, COALESCE: one type, and the values in it."""
    for second in KINDS:
        pair = pairs[first, second]
        given = [("@a", *pair[0]), ("@b", *pair[1])]
        wanted = expected(pair, None)
        said = f"{first.type} beside {second.type}"
        middle = str(united(first.type, second.type))
        for sql in QUERIES:
            found = tables(sql, *given)
            check(found, wanted, f"{sql}: {said}")
            if not wanted.errors:
                assert found.types == [middle], f"{sql}: {said}"


@pytest.mark.parametrize("first", KINDS, ids=NAMES)
def test_queries_into_tables(tables, pairs, first):
    """What comes to a table by a query, an expression or a constant goes the same way."""
    n = KINDS.index(first)
    for second in KINDS:
        pair = pairs[first, second]
        given = [("@a", *pair[0]), ("@b", *pair[1])]
        wanted = expected(pair, first.type)
        written = (value_of(first, second), first.type, value_of(second, first), second.type)
        for text_ in INSERTS:
            sql = text_.format(n, *written)
            found = tables(f"TRUNCATE TABLE t{n}; {sql} SELECT v FROM t{n}", *given)
            check(found, wanted, f"{sql}: {first.type} beside {second.type}")


@pytest.mark.parametrize("first", KINDS, ids=NAMES)
def test_sets_of_rows(tables, pairs, first):
    """UNION, EXCEPT and INTERSECT: the same type, and rows that are equal in it come once."""
    for second in KINDS:
        pair = pairs[first, second]
        given = [("@a", *pair[0]), ("@b", *pair[1])]
        wanted = expected(pair, None)
        middle = united(first.type, second.type)
        if middle.name in UNCOMPARED:
            continue
        for sql in DISTINCT:
            found = tables(sql, *given)
            said = f"{sql}: {first.type} beside {second.type}"
            if wanted.errors:
                check(found, wanted, said)
                continue
            assert not found.errors, (said, found.texts)
            assert found.types == [str(middle)], said
            kept = {wanted.rows[0]} if same(middle, *wanted.rows) else set(wanted.rows)
            assert set(found.rows) <= set(wanted.rows), said
            assert len(found.rows) == len(kept), said


def same(sql_type: SqlType, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether two values of a type are equal."""
    a, b = left[0], right[0]
    if isinstance(a, str) and sql_type.name not in {"sql_variant", "datetimeoffset"}:
        return collation_key(a) == collation_key(b)
    if isinstance(a, bytes) and sql_type.name in {"binary", "varbinary"}:
        return bool(a.rstrip(b"\0") == b.rstrip(b"\0"))
    ordering = ordering_of(sql_type)
    return bool(value_key(a, ordering) == value_key(b, ordering) if ordering else a == b)


EQUALITIES = [
    "SELECT CASE WHEN @a IN (@b) THEN 1 ELSE 0 END",
    "SELECT CASE WHEN @b IN (@a, @a) THEN 1 ELSE 0 END",
    "SELECT CASE WHEN @a = @b THEN 1 ELSE 0 END",
    "SELECT CASE @a WHEN @b THEN 1 ELSE 0 END",
    "SELECT CASE WHEN NULLIF(@a, @b) IS NULL THEN 1 ELSE 0 END",
    "SELECT CASE WHEN @a IN (SELECT @b) THEN 1 ELSE 0 END",
    "SELECT COUNT(*) FROM (SELECT @a AS v) AS x JOIN (SELECT @b AS v) AS y ON x.v = y.v",
]


@pytest.mark.parametrize("first", KINDS, ids=NAMES)
def test_equal_values(tables, pairs, first):
    """IN, =, CASE and NULLIF compare a value with what it is converted to, in the type of both."""
    for second in KINDS:
        middle = united(first.type, second.type)
        if UNCOMPARED & {first.type.name, second.type.name, middle.name}:
            continue
        (_, value), _ = pairs[first, second]
        try:
            check_allowed(first.type, second.type, explicit=False)
            check_allowed(second.type, middle, explicit=False)
            check_allowed(first.type, middle, explicit=False)
            other = value if first.type == second.type else convert(value, first.type, second.type)
            sides = [
                (v if t == middle else convert(v, t, middle),)
                for v, t in ((value, first.type), (other, second.type))
            ]
        except SqlError:
            continue
        given = [("@a", first.type, value), ("@b", second.type, other)]
        for sql in EQUALITIES:
            found = tables(sql, *given)
            said = f"{sql}: {first.type} beside {second.type}: {value!r}, {other!r}"
            assert not found.errors, (said, found.texts)
            assert found.rows == [(int(same(middle, *sides)),)], said


LITERALS = {
    "1": INT,
    "123456789012": SqlType("numeric", precision=12),
    "15.756": SqlType("numeric", precision=5, scale=3),
    "1.25e3": FLOAT,
    "$1.5": MONEY,
    "'12'": text("varchar", 2),
    "N'1300'": SqlType("nvarchar", length=4, collation=DEFAULT_COLLATION),
    "0x2A": varbinary(1),
    "'2024-02-29'": text("varchar", 10),
}


@pytest.mark.parametrize("target", NAMES)
def test_literals(tables, target):
    """Constants as they are written, beside each other in VALUES."""
    n = NAMES.index(target)
    for first, first_type in LITERALS.items():
        for second, second_type in LITERALS.items():
            values = tables(f"SELECT {first}, {second}").rows[0]
            pair = [(first_type, values[0]), (second_type, values[1])]
            wanted = expected(pair, KINDS[n].type)
            found = tables(
                f"TRUNCATE TABLE t{n}; INSERT t{n} VALUES ({first}), ({second}); SELECT v FROM t{n}"
            )
            check(found, wanted, f"{first} beside {second} into {target}")


BESIDE = [
    ("@a decimal(5,3) = 15.756, @b decimal(9,6) = 1.5", "decimal(10,4)", ["15.7560", "1.5000"]),
    (
        "@a date = '2024-02-29', @b datetime2(0) = '2024-03-01'",
        "date",
        ["2024-02-29", "2024-03-01"],
    ),
    ("@a int = 3, @b smallmoney = 1.5", "decimal(9,2)", ["3.00", "1.50"]),
    ("@a varchar(8) = '10:00', @b time(0) = '11:00'", "time(0)", ["10:00:00", "11:00:00"]),
    ("@a varchar(10) = '2024-02-29', @b date = '2024-03-01'", "date", ["2024-02-29", "2024-03-01"]),
    ("@a char(2) = 'x', @b char(4) = 'y'", "varchar(9)", ["x   ", "y   "]),
    ("@a binary(1) = 0x01, @b binary(2) = 0x0203", "varbinary(9)", ["0x0100", "0x0203"]),
    ("@a char(2) = 'x', @b varchar(4) = 'y'", "varchar(9)", ["x ", "y"]),
    ("@a int = NULL, @b date = NULL", "int", 206),
    ("@a int = 1, @b varchar(4) = 'abc'", "varchar(9)", 245),
]


@pytest.mark.parametrize(("declared", "target", "wanted"), BESIDE)
def test_by_hand(sql, declared, target, wanted):
    sql(f"CREATE TABLE t (v {target} NULL)")
    done = sql(f"DECLARE {declared}; INSERT t VALUES (@a), (@b)")
    style = 1 if target.startswith("varbinary") else 121
    shown = sql(f"SELECT CONVERT(varchar(40), v, {style}) FROM t").rows
    if isinstance(wanted, int):
        assert (done.errors, shown) == ([wanted], [])
    else:
        assert (done.errors, shown) == ([], [(text_,) for text_ in wanted])


def test_three_types_null_and_default(sql):
    sql("CREATE TABLE t (v varchar(20) NULL DEFAULT 'none')")
    given = "@i int = 7, @d decimal(4,2) = 1.25, @n smallint = NULL"
    done = sql(f"DECLARE {given}; INSERT t VALUES (@i), (DEFAULT), (@d), (NULL), (@n), (1)")
    assert not done.errors, done.texts
    rows = [("7.00",), ("none",), ("1.25",), (None,), (None,), ("1.00",)]
    assert sql("SELECT v FROM t").rows == rows


def test_a_constant_that_does_not_convert_is_an_error(sql):
    sql("CREATE TABLE t (v varchar(20) NULL)")
    assert sql("INSERT t VALUES ('abc'), (1)").errors == [245]
    assert sql("INSERT t VALUES (1), ('abc'), (DEFAULT)").errors == [245]
    assert sql("SELECT COUNT(*) FROM t").rows == [(0,)]


def test_a_variant_keeps_the_length_of_a_variable(sql):
    sql("CREATE TABLE t (v sql_variant)")
    sql("DECLARE @a varchar(45) = 'x'; INSERT t VALUES (@a); UPDATE t SET v = @a")
    length = "SELECT CAST(SQL_VARIANT_PROPERTY({}, 'MaxLength') AS int)"
    assert sql(f"{length.format('v')} FROM t").rows == [(45,)]
    sets = "DECLARE @a varchar(45) = 'x', @v sql_variant; SET @v = @a; "
    assert sql(sets + length.format("@v")).rows == [(45,)]
