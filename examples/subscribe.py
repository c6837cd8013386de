"""Subscribe to the changes of one table, with plain confluent-kafka.

pip install confluent-kafka fastavro httpx
python subscribe.py localhost:9092 http://localhost:8081 shop.Shop.dbo.orders my-service
"""

import io
import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import fastavro
import httpx
from confluent_kafka import Consumer, KafkaException


def changes(brokers: str, registry: str, topic: str, group: str) -> Iterator[dict[str, Any]]:
    """Yield the changes of a topic, from where the group stopped."""

    @cache
    def schema(schema_id: int) -> Any:
        answer = httpx.get(f"{registry}/schemas/ids/{schema_id}").raise_for_status()
        return fastavro.parse_schema(json.loads(answer.json()["schema"]))

    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # without it, aborted transactions are visible
        }
    )
    consumer.subscribe([topic])
    try:
        while True:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            value = message.value()
            if value is not None:  # a delete is followed by a tombstone, for compaction
                schema_id = int.from_bytes(value[1:5], "big")
                yield fastavro.schemaless_reader(io.BytesIO(value[5:]), schema(schema_id), None)
            # The caller has handled it: a crash before this line repeats one change.
            consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    for change in changes(*sys.argv[1:]):
        # op is r (snapshot), c, u or d; source has the LSN of the commit.
        print(change["op"], change["before"], change["after"], flush=True)
