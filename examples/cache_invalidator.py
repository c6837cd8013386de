"""Drop a row from a cache as soon as its change is committed at the source.

pip install 'tailrace[client]'
python cache_invalidator.py localhost:9092 http://localhost:8081/apis/ccompat/v7 shop dbo.orders
"""

import sys
from collections.abc import MutableMapping
from typing import Any

from tailrace.subscribe import Change, Feed, Start, Subscription, subscribe

Key = tuple[str, tuple[Any, ...]]


def invalidate(changes: Subscription, cache: MutableMapping[Key, Any]) -> None:
    """Remove each row that changed, of any table, until the subscription is closed."""
    cache.clear()  # what was loaded before the first event may be stale already
    for change in changes:
        if isinstance(change, Change) and change.key is not None:
            cache.pop((change.table.in_database, tuple(change.key.values())), None)
            print(change.op, change.table.in_database, *change.key.values(), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    brokers, registry, prefix, *tables = sys.argv[1:]
    with subscribe(Feed(brokers, registry, prefix), tables, Start.now()) as subscription:
        invalidate(subscription, {})
