"""Changes of all tables in commit order, for programs that subscribe to the topics.

``pip install 'tailrace[client]'`` brings what it needs: neither Spark nor the publisher.

::

    from tailrace.subscribe import Feed, Start, subscribe

    feed = Feed("localhost:9092", "http://localhost:8081/apis/ccompat/v7", "shop")
    with subscribe(feed, ["dbo.orders"], Start.from_snapshot()) as events:
        for event in events:
            print(event)
"""

from tailrace.reading.moments import MomentError
from tailrace.reading.table_names import TableNameError
from tailrace.subscribe import errors
from tailrace.subscribe.errors import SubscribeError
from tailrace.subscribe.events import (
    UNAVAILABLE,
    Change,
    Closed,
    PatchFinished,
    SchemaChanged,
    SnapshotFinished,
    SnapshotStarted,
    Transaction,
)
from tailrace.subscribe.feed import Feed
from tailrace.subscribe.opening import subscribe
from tailrace.subscribe.options import Options
from tailrace.subscribe.start import Start
from tailrace.subscribe.subscription import Subscription
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.registry.client import RegistryError, SchemaRegistry

__all__ = [
    "UNAVAILABLE",
    "Change",
    "Closed",
    "Feed",
    "MomentError",
    "Options",
    "PatchFinished",
    "RegistryError",
    "SchemaChanged",
    "SchemaRegistry",
    "SnapshotFinished",
    "SnapshotStarted",
    "Start",
    "SubscribeError",
    "Subscription",
    "TableName",
    "TableNameError",
    "TopicNames",
    "Transaction",
    "errors",
    "subscribe",
]
