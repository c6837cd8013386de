"""What subscribers get of the shop."""

from decimal import Decimal

import shop


def test_topics_have_each_order_once(tailrace_topics, shop_database, connection):
    pipeline = tailrace_topics(shop_database)
    shop.order(connection, 1, Decimal("30.00"))
    pipeline.wait_until_caught_up()
    pipeline.kill("publisher")
    shop.order(connection, 1, Decimal("12.50"))
    pipeline.restart("publisher")
    pipeline.wait_until_caught_up()

    events = [event.envelope for event in pipeline.events("orders")]
    assert [event["after"]["amount"] for event in events] == [Decimal("30.00"), Decimal("12.50")]
