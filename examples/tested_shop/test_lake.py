"""What subscribers and the lake get of the shop."""

from decimal import Decimal

import shop


def test_topics_and_lake_follow_the_orders(tailrace_lake, shop_database, connection):
    pipeline = tailrace_lake(shop_database)
    pipeline.wait_until_caught_up()  # with what was there before: the customers
    shop.order(connection, 1, Decimal("30.00"))
    pipeline.wait_until_caught_up()
    pipeline.kill("publisher")
    shop.order(connection, 1, Decimal("12.50"))
    pipeline.restart("publisher")
    pipeline.wait_until_caught_up()

    events = [event.envelope for event in pipeline.events("orders")]
    assert [event["after"]["amount"] for event in events] == [Decimal("30.00"), Decimal("12.50")]
    (ada,) = pipeline.rows("customers")
    assert ada == {"customer_id": 1, "name": "Ada", "balance": Decimal("57.50")}


def test_the_lake_has_an_order_and_its_payment(tailrace_lake, shop_database, connection):
    pipeline = tailrace_lake(shop_database)
    shop.order(connection, 1, Decimal("99.00"))
    pipeline.wait_until_caught_up()

    assert [row["amount"] for row in pipeline.rows("orders")] == [Decimal("99.00")]
    assert [row["balance"] for row in pipeline.rows("customers")] == [Decimal("1.00")]
