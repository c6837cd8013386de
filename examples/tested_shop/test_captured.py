"""What change data capture sees of the shop."""

from decimal import Decimal

import pytest
import shop


def test_an_order_and_its_payment_are_one_transaction(
    emulated_sql_server, shop_database, connection
):
    shop.order(connection, 1, Decimal("30.00"))
    emulated_sql_server.capture(shop_database)

    (ordered,) = emulated_sql_server.change_rows(shop_database, "dbo_orders")
    _, paid = emulated_sql_server.change_rows(shop_database, "dbo_customers")
    assert paid["balance"] == Decimal("70.00")
    assert ordered["__$start_lsn"] == paid["__$start_lsn"]


def test_an_order_that_cannot_be_paid_leaves_no_change(
    emulated_sql_server, shop_database, connection
):
    with pytest.raises(shop.NotEnoughMoney):
        shop.order(connection, 1, Decimal("100.01"))
    emulated_sql_server.capture(shop_database)

    assert emulated_sql_server.change_rows(shop_database, "dbo_orders") == []
