import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_emulator.cdc import functions, lsn, query_functions
from tailrace_emulator.cdc.capture_instance import find_instance
from tailrace_emulator.cdc.update_mask import full_mask, is_bit_set, mask_bytes
from tailrace_emulator.messages.errors import SqlError

lsns = st.binary(min_size=10, max_size=10)


@given(lsns)
def test_increment_and_decrement_undo_each_other(value):
    assert lsn.decrement(lsn.increment(value)) == value
    assert lsn.increment(lsn.decrement(value)) == value


@given(lsns.filter(lambda value: value != b"\xff" * 10))
def test_increment_is_the_next_in_byte_order(value):
    following = lsn.increment(value)
    assert following > value
    assert int.from_bytes(following, "big") - int.from_bytes(value, "big") == 1


@given(lsns)
def test_text_keeps_the_order(value):
    assert lsn.text(value).replace(":", "") == value.hex()


@given(st.sets(st.integers(1, 60)), st.integers(1, 60))
def test_masks_hold_exactly_their_columns(ordinals, count):
    ordinals = {ordinal for ordinal in ordinals if ordinal <= count}
    mask = mask_bytes(sum(1 << (ordinal - 1) for ordinal in ordinals), count)
    assert len(mask) == (count + 7) // 8
    assert {o for o in range(1, 8 * len(mask) + 9) if is_bit_set(o, mask)} == ordinals


def test_full_mask_has_no_bits_beyond_the_columns():
    assert full_mask(3) == b"\x07"
    assert full_mask(8) == b"\xff"
    assert full_mask(9) == b"\x01\xff"


@pytest.fixture
def history(orders):
    """Three transactions a minute apart; returns the shop and their LSNs and times."""
    rid = None
    for number in range(3):
        orders.clock.advance(60)
        if rid is None:
            (rid,) = orders.insert("orders", (1, "0", 1, None))
        else:
            orders.update("orders", {rid: (1, str(number), 1, None)})
    orders.scan()
    mapping = orders.rows("cdc", "lsn_time_mapping")[-3:]
    return orders, [(entry["start_lsn"], entry["tran_end_time"]) for entry in mapping]


def test_map_time_to_lsn_has_four_operators(history):
    shop, entries = history
    connection = shop.session.connection
    (first, _), (second, middle), (third, _) = entries

    def mapped(operator, ticks):
        return functions.map_time_to_lsn(connection, shop.database, operator, ticks)

    assert mapped("largest less than", middle) == first
    assert mapped("LARGEST less  than or equal", middle) == second
    assert mapped("smallest greater than", middle) == third
    assert mapped("smallest greater than or equal", middle) == second
    assert mapped("smallest greater than", middle + 10**12) is None
    assert mapped("nearest", middle) is None
    assert functions.map_lsn_to_time(connection, shop.database, second) == middle
    assert functions.map_lsn_to_time(connection, shop.database, lsn.increment(second)) is None


def test_ordinals_and_changed_columns(history):
    shop, _ = history
    connection = shop.session.connection

    def ordinal(instance, column):
        return functions.column_ordinal(connection, shop.database, instance, column)

    assert [ordinal("dbo_orders", name) for name in ("id", "NAME", "none")] == [1, 2, None]
    assert ordinal("none", "id") is None
    changed = functions.has_column_changed
    assert changed(connection, shop.database, "dbo_orders", "name", b"\x02") is True
    assert changed(connection, shop.database, "dbo_orders", "id", b"\x02") is False


def run(shop, function, *arguments):
    instance = find_instance(shop.session.connection, shop.database, "dbo_orders")
    query = function(shop.session.connection, shop.database, instance, arguments)
    return shop.session.connection.execute(query.sql, query.bindings).fetchall()


def test_all_changes_with_and_without_old_values(history):
    shop, entries = history
    low, high = entries[0][0], entries[2][0]

    rows = run(shop, query_functions.all_changes, low, high, "all")
    assert [(row[2], row[5]) for row in rows] == [(2, "0"), (4, "1"), (4, "2")]
    rows = run(shop, query_functions.all_changes, low, entries[1][0], " ALL Update old ")
    assert [(row[2], row[5]) for row in rows] == [(2, "0"), (3, "0"), (4, "1")]
    rows = run(shop, query_functions.all_changes, high, high, "all")
    assert [row[0] for row in rows] == [high]


@pytest.mark.parametrize("name", ["dbo_orders", "DBO_Orders", "dbo_orders  "])
def test_an_instance_is_found_by_its_name_in_any_case(history, name):
    shop, _ = history
    asked = shop.session.connection, shop.database
    assert functions.min_lsn(*asked, name) == functions.min_lsn(*asked, "dbo_orders")
    assert functions.min_lsn(*asked, name) != lsn.ZERO_LSN
    assert functions.min_lsn(*asked, f"{name}x") == lsn.ZERO_LSN


@pytest.mark.parametrize("function", [query_functions.all_changes, query_functions.net_changes])
def test_ranges_outside_the_validity_interval_are_error_313(history, function):
    shop, entries = history
    low, high = entries[0][0], entries[2][0]
    start = functions.min_lsn(shop.session.connection, shop.database, "dbo_orders")
    for arguments in (
        (lsn.decrement(start), high, "all"),
        (low, lsn.increment(high), "all"),
        (high, low, "all"),
        (None, high, "all"),
        (low, None, "all"),
        (low, high, "everything"),
        (low, high, None),
    ):
        with pytest.raises(SqlError) as error:
            run(shop, function, *arguments)
        assert error.value.number == 313
        assert "An insufficient number of arguments were supplied" in error.value.message
    assert run(shop, function, start, high, "all")


def test_net_changes(orders):
    rids = orders.insert("orders", *((n, "first", 1, "x") for n in range(1, 6)))
    orders.scan()
    low = lsn.increment(functions.max_lsn(orders.session.connection, orders.database))
    orders.update("orders", {rids[0]: (1, "changed", 1, "x")})
    orders.update("orders", {rids[0]: (1, "changed", 2, "x")})
    orders.delete("orders", rids[1])
    (new,) = orders.insert("orders", (9, "new", 1, "x"))
    orders.update("orders", {new: (9, "newer", 1, "x")})
    (passing,) = orders.insert("orders", (10, "passing", 1, "x"))
    orders.delete("orders", passing)
    orders.delete("orders", rids[2])
    orders.insert("orders", (3, "again", 1, "x"))
    orders.scan()
    high = functions.max_lsn(orders.session.connection, orders.database)

    def net(option):
        rows = run(orders, query_functions.net_changes, low, high, option)
        return {row[3]: (row[1], row[2], row[4]) for row in rows}

    assert net("all") == {
        1: (4, None, "changed"),
        2: (1, None, "first"),
        3: (4, None, "again"),
        9: (2, None, "newer"),
    }
    assert net("all with merge") == {
        1: (5, None, "changed"),
        2: (1, None, "first"),
        3: (5, None, "again"),
        9: (5, None, "newer"),
    }
    masks = {key: value[1] for key, value in net("all with mask").items()}
    assert masks == {1: b"\x06", 2: None, 3: b"\x0f", 9: None}
