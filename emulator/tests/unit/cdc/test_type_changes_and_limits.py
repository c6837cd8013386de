import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_emulator.catalog.configuration import configure, reconfigure
from tailrace_emulator.cdc.guards import refuse_index_removal
from tailrace_emulator.cdc.retype import conversion
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.model import Index
from tailrace_emulator.values.types import (
    BIGINT,
    DATE,
    INT,
    SMALLINT,
    decimal_type,
    pack_decimal,
    varchar,
)


def converted(old, new, value):
    return conversion(old, new, "shop.cdc.dbo_t_CT", "c")(value)


@given(st.integers(-(2**15), 2**15 - 1))
def test_widening_and_narrowing_an_integer_undo_each_other(value):
    assert converted(SMALLINT, BIGINT, value) == value
    assert converted(BIGINT, SMALLINT, value) == value


@given(st.integers(-(10**17), 10**17))
def test_rescaling_a_decimal_keeps_its_value(scaled):
    narrow, wide = decimal_type(18, 2), decimal_type(38, 6)
    stored = converted(narrow, wide, scaled)
    assert stored == pack_decimal(scaled * 10**4, wide)
    assert converted(wide, narrow, stored) == scaled


def test_null_stays_null():
    assert converted(INT, BIGINT, None) is None


def test_a_value_that_does_not_fit_names_the_change_table():
    with pytest.raises(SqlError, match=r"cdc\.dbo_t_CT', column 'c'") as error:
        converted(varchar(10), varchar(2), "abc")
    assert error.value.number == 2628


def test_types_that_do_not_convert_are_refused():
    with pytest.raises(SqlError) as error:
        converted(DATE, INT, 1)
    assert error.value.number == 206


def test_large_values_are_limited_in_tracked_tables(orders):
    fits, long = (1, "a" * 50, 1, "x" * 32_768), (1, "a", 1, "x" * 32_769)
    engine, table, database = orders.engine, orders.table("orders"), orders.database
    told = engine.extension
    assert list(told.inserting(database, table, iter([fits]))) == [fits]
    with pytest.raises(SqlError, match="Length of LOB data \\(65538\\)") as error:
        list(told.inserting(database, table, [fits, long]))
    assert error.value.number == 7139
    with pytest.raises(SqlError):
        list(told.updating(database, table, [(5, long)], lambda _rids: {5: fits}))
    kept = told.updating(database, table, [(5, long)], lambda _rids: {5: long})
    assert list(kept) == [(5, long)]
    configure(engine, "max text repl size", -1)
    with pytest.raises(SqlError):
        list(told.inserting(database, table, [long]))
    reconfigure(engine)
    assert list(told.inserting(database, table, [long])) == [long]


def test_index_that_identifies_rows_cannot_be_dropped(orders):
    table = ddl.create_index(
        orders.session, orders.database, orders.table("orders"), Index(0, "ix", (2,), ())
    )
    connection = orders.session.connection
    refuse_index_removal(connection, orders.database, table, "ix")
    with pytest.raises(SqlError) as error:
        refuse_index_removal(connection, orders.database, table, "pk_orders")
    assert error.value.number == 22979
