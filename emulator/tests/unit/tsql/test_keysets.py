"""Paging by a composite key: the row comparison finds what the condition as written finds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile.lexicographic import keyset
from tailrace_emulator.tsql.syntax.parser import parse_expression
from tailrace_emulator.values.results import Parameter, Rows
from tailrace_emulator.values.types import INT, LSN, nvarchar

NESTED = "a > @p1 OR (a = @p2 AND (b > @p3 OR (b = @p4 AND c > @p5)))"
FLAT = "(a = @p1 AND b = @p2 AND c > @p3) OR (a = @p4 AND b > @p5) OR (a > @p6)"


def lsn(n: int) -> bytes:
    return n.to_bytes(10, "big")


@pytest.mark.parametrize(
    "text", [NESTED, FLAT, "a > 1 OR (a = 1 AND b >= 2)", "a < 1 OR a = 1 AND b < 2"]
)
def test_recognised(text):
    assert keyset(parse_expression(text)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "a > 1 OR (a = 1 AND b < 2)",
        "a > 1 OR (b = 1 AND c > 2)",
        "a >= 1 OR (a = 1 AND b > 2)",
        "a > 1 OR b > 2",
        "a > 1 OR (a = 1 AND b > 2 AND c > 3)",
        "a > 1 OR (a = 1 AND b IS NULL)",
        "a = 1 OR a = 2",
    ],
)
def test_not_recognised(text):
    assert keyset(parse_expression(text)) is None


@pytest.fixture
def paged(sql):
    sql(
        "CREATE TABLE p (a binary(10) NOT NULL, b int NULL, c nvarchar(5) NULL, d int);"
        "CREATE INDEX i ON p (a, b, c)"
    )
    rows = itertools.product(range(3), (None, 0, 1, 2), (None, "a", "B"))
    for n, (a, b, c) in enumerate(rows):
        sql(
            "INSERT p VALUES (@a, @b, @c, @d)",
            ("@a", LSN, lsn(a)), ("@b", INT, b), ("@c", nvarchar(5), c), ("@d", INT, n),
        )  # fmt: skip
    return sql


numbers = st.one_of(st.none(), st.integers(-1, 3))
letters = st.one_of(st.none(), st.sampled_from(["", "A", "a", "b", "C"]))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)
@given(
    a=st.integers(0, 3), a2=st.integers(0, 3), b=numbers, b2=numbers, c=letters, same=st.booleans()
)
def test_every_page_is_what_the_condition_says(paged, a, a2, b, b2, c, same):
    a2, b2 = (a, b) if same else (a2, b2)
    given_values = [
        Parameter("@p1", LSN, lsn(a)), Parameter("@p2", LSN, lsn(a2)), Parameter("@p3", INT, b),
        Parameter("@p4", INT, b2), Parameter("@p5", nvarchar(3), c),
    ]  # fmt: skip
    events = paged.runner.run(
        f"SELECT a, b, c FROM p WHERE {NESTED} ORDER BY a, b, c", given_values
    )
    found = [row for event in events if isinstance(event, Rows) for row in event.rows]
    everything = paged("SELECT a, b, c FROM p ORDER BY a, b, c").rows

    def wanted(row: Any) -> bool:
        deep = _and(_equal(row[1], b2), _greater(_fold(row[2]), _fold(c)))
        inner = _or(_greater(row[1], b), deep)
        return _or(_greater(row[0], lsn(a)), _and(_equal(row[0], lsn(a2)), inner)) is True

    assert found == [row for row in everything if wanted(row)]


def _fold(value: Any) -> Any:
    return None if value is None else value.lower()


def _greater(x: Any, y: Any) -> Any:
    return None if x is None or y is None else x > y


def _equal(x: Any, y: Any) -> Any:
    return None if x is None or y is None else x == y


def _and(x: Any, y: Any) -> Any:
    if x is False or y is False:
        return False
    return None if x is None or y is None else True


def _or(x: Any, y: Any) -> Any:
    if x is True or y is True:
        return True
    return None if x is None or y is None else False


def test_equal_parameters_seek_the_index_by_all_columns(paged):
    query = f"SELECT d FROM p WHERE a <= @p0 AND ({NESTED}) ORDER BY a, b, c"
    given_values = [
        Parameter("@p0", LSN, lsn(9)), Parameter("@p1", LSN, lsn(1)), Parameter("@p2", LSN, lsn(1)),
        Parameter("@p3", INT, 1), Parameter("@p4", INT, 1), Parameter("@p5", nvarchar(1), "a"),
    ]  # fmt: skip
    list(paged.runner.run(query, given_values))
    connection = paged.context.store.connection
    seen: list[str] = []

    def trace(_: Any, text: str, __: Any) -> bool:
        seen.append(text)
        return True

    connection.set_exec_trace(trace)
    list(paged.runner.run(query, given_values))
    connection.set_exec_trace(None)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {seen[-1]}", [1] * 6).fetchall()
    assert [row[3] for row in plan] == [row[3] for row in plan if "(a" not in row[3]]
    assert "((c1,c2,c3)>(?,?,?) AND c1<?)" in plan[0][3], plan
    assert len(plan) == 1, "no sorting"


def test_errors_are_sql_servers(paged):
    with pytest.raises(SqlError, match="Invalid column name 'z'"):
        list(paged.runner.run("SELECT 1 FROM p WHERE a > 0x01 OR (a = 0x01 AND z > 1)"))
