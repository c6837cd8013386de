"""Events that cannot be published: the dead letters, and the publisher that ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.errors import EncodeError, TableFailed
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.encode.test_bad_values import MARK, half_pairs
from tests.pipeline.running import Running, live_until_killed

pytestmark = pytest.mark.kafka

LARGEST = 20_000


def letters(pipe: Pipe) -> list[tuple[dict[str, str], dict[str, Any] | None]]:
    """Headers and values of the committed dead letters."""
    topic, kafka = pipe.topics.names.dead_letters, kafka_at(pipe.topics.bootstrap)
    with partition_reader(kafka, topic) as reader:
        messages = reader.read_all(30)
        return [
            (
                {name: value.decode() for name, value in message.headers()},
                None if message.value() is None else json.loads(message.value()),
            )
            for message in messages
        ]


def counted_operations(pipe: Pipe) -> list[bool]:
    """Of each record of the table's topic in the ledger, whether it counts by operation."""
    return [
        entry["operations"] is not None
        for record in pipe.topics.progress()
        for entry in record["partitions"]
    ]


def test_what_does_not_fit_goes_to_the_dead_letters_once(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(max))")
    source.connection.execute("INSERT dbo.t VALUES (1, ?), (2, 'two')", f"half a pair: {MARK}")
    source.enable("t")

    with half_pairs(pipe) as behind:
        options: dict[str, Any] = {
            "source": behind,
            "on_bad_event": "dead-letter",
            "kafka": {
                "bootstrap": pipe.topics.bootstrap,
                "extra": {"message.max.bytes": str(LARGEST)},
            },
            "transaction_metadata": True,
        }
        with Running(pipe.config(**options)) as publisher:
            publisher.until(pipe.is_caught_up, "the snapshot is out")
            source.execute(
                "INSERT dbo.t VALUES (3, N'three')",
                f"INSERT dbo.t VALUES (4, REPLICATE(CAST(N'x' AS nvarchar(max)), {LARGEST}))",
            )
            publisher.until(pipe.is_caught_up, "what is too large is passed over")
            assert all(counted_operations(pipe))
            assert [h["error"] for h, _ in letters(pipe)] == ["EncodeError", "RecordTooLarge"]
        source.connection.execute(
            "UPDATE dbo.t SET text = ? WHERE id = 3", f"secret, and half a pair: {MARK}"
        )
        source.execute("DELETE dbo.t WHERE id = 3", "INSERT dbo.t VALUES (3, N'again')")
        source.scan()
        known = len(counted_operations(pipe))
        live_until_killed(pipe.options(**options), "sent")
        assert len(letters(pipe)) == 2
        with Running(pipe.config(**options)) as publisher:
            publisher.until(pipe.is_caught_up, "the table goes on")
            assert not publisher.told("table_stopped")
            (told,) = publisher.told("event_in_dead_letters")
            count = publisher.metrics.dead_letters.labels(table=f"{source.name}.dbo.t")
            assert count._value.get() == 2
        found = letters(pipe)
        audited = invoke(pipe, tmp_path, "audit", **options)

    assert "secret" not in str(publisher.events)
    assert told["column"] == "text"
    assert [headers["op"] for headers, _ in found] == ["r", "c", "u", "d"]
    positions = source.positions("dbo_t")
    changed = [headers for headers, _ in found if headers["op"] != "r"]
    as_positions = {f"{h['commit_lsn']}/{h['command_id']}/{h['seqval']}" for h in changed}
    assert as_positions <= {str(position).rpartition("/")[0] for position in positions}
    assert {h["table"] for h, _ in found} == {f"{source.name}.dbo.t"}
    assert all(h["reason"] and "half" not in h["reason"] for h, _ in found)
    values = [value for _, value in found]
    assert values[0] is not None
    assert values[0]["after"] == {"id": "1", "text": "half a pair: \ud83d"}
    assert values[1] is None
    assert values[2] is not None
    assert values[2]["before"] == {"id": "3", "text": "three"}
    state = pipe.topics.state(source.name, "t", "id")
    assert {key: row["text"] for key, row in state.items()} == {2: "two", 3: "again"}
    assert audited.exit_code == 0, audited.output
    # The delete is missing: a reader must not take the create for a new key.
    assert not any(counted_operations(pipe)[known:])
    ends = [b for b in pipe.topics.beside(pipe.topics.names.transaction) if b["status"] == "END"]
    assert sum(end["event_count"] for end in ends) == len(pipe.topics.changes(source.name, "t"))


def test_a_bad_event_ends_the_publisher_where_that_is_wanted(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(50))")
    source.enable("t")
    with half_pairs(pipe) as behind:
        config = pipe.config(source=behind, on_bad_event="fail")
        with Running(config) as publisher:
            publisher.until(pipe.is_caught_up, "the snapshot is out")
            source.connection.execute("INSERT dbo.t VALUES (1, ?)", f"half a pair: {MARK}")
            source.scan()
            ended = [publisher.ended()]
        with Running(config) as publisher:
            ended.append(publisher.ended())
            assert not publisher.told("table_stopped")

    for error in ended:
        assert isinstance(error, TableFailed)
        assert isinstance(error.cause, EncodeError)
