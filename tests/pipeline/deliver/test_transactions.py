"""Begin and end of source transactions beside the data, and the number of each event in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed

pytestmark = pytest.mark.kafka


@pytest.mark.slow("publishers are killed inside transactions")
@pytest.mark.parametrize("blocks", [True, False])
def test_each_event_says_its_place_in_its_transaction_across_a_crash(pipe: Pipe, *, blocks: bool):
    source, tables = pipe.source, ("a", "b")
    for table in tables:
        source.execute(
            f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int)",
            f"INSERT dbo.{table} VALUES (1000, 0)",
        )
        source.enable(table)
    options = pipe.options(transaction_metadata=True, rows_per_transaction=3, page_rows=2)
    options["source"]["blocks"] = blocks
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
    source.transaction(
        "INSERT dbo.a VALUES (1, 0), (2, 0), (3, 0)",
        "INSERT dbo.b VALUES (1, 0), (2, 0)",
        "UPDATE dbo.a SET v = 1",
        "DELETE dbo.b WHERE id = 1",
        "UPDATE dbo.a SET id = 9 WHERE id = 1",
    )
    source.execute("INSERT dbo.b VALUES (7, 0)")
    source.scan()
    live_until_killed(options, "committed", 2)
    assert not pipe.topics.progress()[-1]["closed"], "it was killed inside the transaction"
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the rest is out")

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    order: dict[str, list[tuple[Any, int]]] = defaultdict(list)
    for table in tables:
        pipe.assert_exactly_once(table)
        for event in pipe.topics.snapshot(source.name, table):
            assert event.envelope is not None
            assert event.envelope["transaction"] is None
        own: dict[str, list[tuple[Any, int]]] = defaultdict(list)
        for event in pipe.topics.changes(source.name, table):
            assert event.envelope is not None
            said, commit = event.envelope["transaction"], str(event.position.commit_lsn)
            assert said["id"] == commit
            counts[commit][f"{source.name}.dbo.{table}"] += 1
            order[commit].append((event.position, said["total_order"]))
            own[commit].append((event.position, said["data_collection_order"]))
        assert_numbered(own)
    assert_numbered(order)

    found = pipe.topics.beside(pipe.topics.names.transaction)
    assert [record["status"] for record in found] == ["BEGIN", "END"] * len(counts)
    assert [record["id"] for record in found] == [i for i in sorted(counts) for _ in range(2)]
    for record in found[1::2]:
        per_table = {c["data_collection"]: c["event_count"] for c in record["data_collections"]}
        assert per_table == counts[record["id"]]
        assert record["event_count"] == sum(per_table.values())
        assert record["ts_ms"] is not None
    assert sum(map(sum, (c.values() for c in counts.values()))) == 5 + 4 + 1 + 2 + 1


def assert_numbered(events: dict[str, list[tuple[Any, int]]]) -> None:
    """In each transaction the events are numbered from 1, in the order of their positions."""
    for pairs in events.values():
        assert [number for _, number in sorted(pairs)] == list(range(1, len(pairs) + 1))
