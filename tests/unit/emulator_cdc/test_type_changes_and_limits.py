import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.catalog.configuration import configure
from emulator.catalog.replicated_size import checked_changes, checked_rows
from emulator.cdc.guards import refuse_index_removal
from emulator.cdc.retype import conversion
from emulator.errors import SqlError
from emulator.storage import ddl
from emulator.storage.model import Index
from emulator.types import (
    BIGINT,
    DATE,
    DATETIME,
    INT,
    MAX,
    SMALLINT,
    TICKS_PER_DAY,
    SqlType,
    decimal_type,
    nvarchar,
    pack_decimal,
    varbinary,
    varchar,
)

DATETIME2 = SqlType("datetime2", scale=7)


@given(st.integers(-(2**15), 2**15 - 1))
def test_widening_and_narrowing_an_integer_undo_each_other(value):
    assert conversion(SMALLINT, BIGINT)(value) == value
    assert conversion(BIGINT, SMALLINT)(value) == value


@given(st.integers(-(10**17), 10**17))
def test_rescaling_a_decimal_keeps_its_value(scaled):
    narrow, wide = decimal_type(18, 2), decimal_type(38, 6)
    stored = conversion(narrow, wide)(scaled)
    assert stored == pack_decimal(scaled * 10**4, wide)
    assert conversion(wide, narrow)(stored) == scaled


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        (INT, varchar(10), -12, "-12"),
        (decimal_type(9, 2), varchar(10), -105, "-1.05"),
        (decimal_type(9, 2), INT, -199, -1),
        (decimal_type(9, 3), decimal_type(9, 1), 1250, 13),
        (varchar(10), INT, " 42 ", 42),
        (varchar(10), decimal_type(9, 2), "1.5", 150),
        (varchar(10), SqlType("char", length=4), "ab", "ab  "),
        (varbinary(4), SqlType("binary", length=3), b"\x01", b"\x01\x00\x00"),
        (DATE, DATETIME2, 5, 5 * TICKS_PER_DAY),
        (DATETIME2, DATE, 5 * TICKS_PER_DAY + 7, 5),
        (DATETIME2, DATETIME, TICKS_PER_DAY + 10_000, TICKS_PER_DAY),
        (DATETIME2, SqlType("datetime2", scale=0), 15_000_000, 20_000_000),
        (INT, SqlType("float", precision=53), 3, 3.0),
        (nvarchar(10), nvarchar(MAX), "é", "é"),
        (INT, BIGINT, None, None),
    ],
)
def test_values_are_converted(old, new, value, expected):
    assert conversion(old, new)(value) == expected


@pytest.mark.parametrize(
    ("old", "new", "value", "number"),
    [
        (INT, SMALLINT, 40_000, 220),
        (decimal_type(9, 2), decimal_type(4, 2), 10_000, 8115),
        (varchar(10), varchar(2), "abc", 8152),
        (varbinary(10), varbinary(2), b"abc", 8152),
        (varchar(10), INT, "x", 245),
    ],
)
def test_values_that_do_not_fit_are_errors(old, new, value, number):
    with pytest.raises(SqlError) as error:
        conversion(old, new)(value)
    assert error.value.number == number


def test_unusual_pairs_are_refused_by_name():
    with pytest.raises(SqlError, match="from date to int") as error:
        conversion(DATE, INT)
    assert error.value.number == 50900


def test_large_values_are_limited_in_tracked_tables(orders):
    fits, long = (1, "a" * 50, 1, "x" * 32_768), (1, "a", 1, "x" * 32_769)
    engine, table = orders.engine, orders.table("orders")
    assert list(checked_rows(engine, table, iter([fits]))) == [fits]
    with pytest.raises(SqlError, match="Length of LOB data \\(65538\\)") as error:
        checked_rows(engine, table, [fits, long])
    assert error.value.number == 7139
    with pytest.raises(SqlError):
        checked_changes(engine, table, [(5, long)], lambda _rids: {5: fits})
    assert checked_changes(engine, table, [(5, long)], lambda _rids: {5: long}) == [(5, long)]
    configure(engine, "max text repl size", -1)
    assert checked_rows(engine, table, [long]) == [long]


def test_index_that_identifies_rows_cannot_be_dropped(orders):
    table = ddl.create_index(
        orders.session, orders.database, orders.table("orders"), Index(0, "ix", (2,), ())
    )
    connection = orders.session.connection
    refuse_index_removal(connection, orders.database, table, "ix")
    with pytest.raises(SqlError) as error:
        refuse_index_removal(connection, orders.database, table, "pk_orders")
    assert error.value.number == 22979
