"""Send the rows of an outbox table to another topic, in the order of their commits.

A service inserts into dbo.outbox in the transaction that does its work. This relay sends each row
at least once: the consumer group moves only after the brokers have confirmed what was sent. The
header `id` is the same for a row that is sent again, so receivers can tell.

pip install 'tailrace[client]'
python outbox_relay.py localhost:9092 http://localhost:8081/apis/ccompat/v7 shop dbo.outbox
"""

import sys

from confluent_kafka import Producer

from tailrace.subscribe import Change, Closed, Feed, Options, Start, Subscription, subscribe


def relay(changes: Subscription, producer: Producer) -> None:
    """Send each inserted row to the topic that it names, until the subscription is closed."""
    failures: list[object] = []
    for event in changes:
        if isinstance(event, Change) and event.op in {"c", "r"}:
            row = event.after
            producer.produce(
                row["topic"],
                key=str(row["aggregateid"]),
                value=row["payload"],
                headers=[("id", event.id.encode())],
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            producer.poll(0)
        elif isinstance(event, Closed):
            if producer.flush(30) or failures:
                raise SystemExit(f"not delivered: {failures or 'no answer within 30 s'}")
            changes.commit()


def subscribed(feed: Feed, table: str) -> Subscription:
    """The outbox, from where the group stopped; at first from the oldest row that is published."""
    options = Options(closed=True)
    return subscribe(feed, [table], Start.beginning(), group="outbox-relay", options=options)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    brokers, registry, prefix, table = sys.argv[1:]
    with subscribed(Feed(brokers, registry, prefix), table) as subscription:
        relay(subscription, Producer({"bootstrap.servers": brokers, "enable.idempotence": True}))
