"""Beginning where a team wants to: at an LSN, a time, Debezium's offsets; and snapshot modes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace_publisher.errors import ConfigError, SnapshotsIncomplete, StartRefused
from tailrace_schemas.position.lsn import Lsn
from tests.fix_connect_offsets import FILE, KEY, VALUE, placed
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def commits(pipe: Pipe) -> list[Lsn]:
    """The commits of table dbo.a, captured before the publisher begins: the last has three rows."""
    source = pipe.source
    source.execute("CREATE TABLE dbo.a (id int PRIMARY KEY, v int)", "INSERT dbo.a VALUES (0, 0)")
    source.enable("a")
    # Cleanup keeps the commits that share the low watermark's time, so they must not share it.
    source.execute("INSERT dbo.a VALUES (1, 1)", "WAITFOR DELAY '00:00:00.020'")
    source.execute("INSERT dbo.a VALUES (2, 2)", "WAITFOR DELAY '00:00:00.020'")
    source.execute("INSERT dbo.a VALUES (3, 3), (4, 4), (5, 5)")
    source.scan()
    return sorted({position.commit_lsn for position, _ in source.change_rows("dbo_a")})


def publish(pipe: Pipe, **options: Any) -> Running:
    """Publish what is captured, and end."""
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "everything captured is out")
    return publisher


def published(pipe: Pipe) -> list[int]:
    """The ids of dbo.a that were published as changes; no snapshot was."""
    assert pipe.topics.snapshot(pipe.source.name, "a") == []
    changes = pipe.topics.changes(pipe.source.name, "a")
    return sorted(e.envelope["after"]["id"] for e in changes if e.envelope is not None)


def test_it_begins_with_an_lsn_and_goes_on_from_its_checkpoint(pipe: Pipe, commits: list[Lsn]):
    start = {"lsn": str(commits[1])}
    first = publish(pipe, start=start)
    assert [told["first_lsn"] for told in first.told("start_position")] == [str(commits[1])]
    assert published(pipe) == [2, 3, 4, 5]
    assert pipe.topics.progress()[0]["after_lsn"] == str(commits[1].decrement())

    pipe.source.execute("INSERT dbo.a VALUES (6, 6)")
    again = publish(pipe, start={"lsn": str(commits[0])})
    assert published(pipe) == [2, 3, 4, 5, 6]
    assert [told["option"] for told in again.told("start_position_ignored")] == ["lsn"]
    assert not again.told("start_position")


def local_time_of(pipe: Pipe, commit: Lsn) -> datetime:
    """When a commit ended, in the server's local time."""
    sql = "SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = ?"
    local: datetime = pipe.source.query(sql, commit.to_bytes())[0][0]
    return local


def as_utc(pipe: Pipe, local: datetime) -> str:
    offset = pipe.source.query("SELECT DATEPART(tz, SYSDATETIMEOFFSET())")[0][0]
    return f"{(local - timedelta(minutes=offset)).isoformat('T', 'milliseconds')}Z"


def as_local(_: Pipe, local: datetime) -> str:
    return local.isoformat("T", "milliseconds")


@pytest.mark.parametrize("written", [as_utc, as_local])
def test_it_begins_with_the_first_commit_of_a_time(
    pipe: Pipe, commits: list[Lsn], written: Callable[[Pipe, datetime], str]
):
    source = pipe.source
    last = local_time_of(pipe, commits[-1])
    wait_until(lambda: source.query("SELECT GETDATE()")[0][0] > last, "the clock has gone on")
    source.execute("INSERT dbo.a VALUES (6, 6)", "INSERT dbo.a VALUES (7, 7)")
    source.scan()
    newer = max(p.commit_lsn for p, row in source.change_rows("dbo_a") if row["id"] == 6)
    assert newer > commits[-1]
    publish(pipe, start={"time": written(pipe, local_time_of(pipe, newer))})
    assert published(pipe) == [6, 7]


@pytest.mark.parametrize(
    ("time", "told"),
    [
        ("2001-01-01T00:00:00Z", "the oldest commit that the database still knows"),
        (f"{datetime.now(UTC).year + 2}-01-01T00:00:00Z", "is in the future"),
    ],
)
def test_a_time_that_is_not_held_is_refused(pipe: Pipe, commits: list[Lsn], time: str, told: str):
    assert commits
    with Running(pipe.config(start={"time": time})) as publisher:
        error = publisher.ended()
    assert isinstance(error, StartRefused)
    assert told in str(error)


def test_it_takes_over_from_the_offsets_file_of_a_connector(
    pipe: Pipe, commits: list[Lsn], tmp_path: Path
):
    file = tmp_path / "connect.offsets"
    file.write_bytes(placed(FILE, pipe.source.name, str(commits[-1])))
    publisher = publish(pipe, start={"debezium_file": str(file)})
    assert published(pipe) == [3, 4, 5], "the transaction that was cut comes whole"
    assert [told["connector"] for told in publisher.told("offsets_taken_over")] == [
        "shop-connector"
    ]


def test_it_takes_over_from_the_offsets_topic_of_connect(pipe: Pipe, commits: list[Lsn]):
    topic = f"connect-offsets-{pipe.topics.prefix}"
    where = {"bootstrap.servers": pipe.topics.bootstrap}
    admin = AdminClient(where)
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result()
    producer = Producer(where)
    key = placed(KEY, pipe.source.name, str(commits[0]))
    for value in (placed(VALUE, pipe.source.name, str(c)) for c in (commits[0], commits[1])):
        producer.produce(topic, value, key)
    producer.produce(topic, VALUE, KEY.replace(b"shop-", b"another-"))
    producer.produce(topic, None, placed(KEY, pipe.source.name, "").replace(b"shop", b"old!"))
    producer.flush()
    publish(pipe, start={"debezium_topic": topic})
    assert published(pipe) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"debezium_file": "/no/such/file"}, "make it readable"),
        ({"debezium_file": __file__}, "not the offsets file of a Kafka Connect worker"),
        ({"debezium_topic": "no-such-topic"}, "there is no such topic"),
    ],
)
def test_offsets_that_cannot_be_had_are_told(
    pipe: Pipe, commits: list[Lsn], start: dict[str, str], told: str
):
    assert commits
    with Running(pipe.config(start=start)) as publisher:
        error = publisher.ended()
    assert isinstance(error, ConfigError)
    assert told in str(error)


# -- snapshot modes --------------------------------------------------------------------------------


def test_initial_only_ends_when_the_snapshots_are_out(pipe: Pipe, commits: list[Lsn]):
    assert commits
    source = pipe.source
    with Running(pipe.config(snapshot={"mode": "initial_only"})) as publisher:
        publisher.until(lambda: pipe.is_caught_up() and publisher.has_ended, "it ends by itself")
    assert [told["tables"] for told in publisher.told("snapshots_finished")] == [1]
    assert len(pipe.topics.snapshot(source.name, "a")) == 6

    source.execute("INSERT dbo.a VALUES (6, 6)")
    publish(pipe)
    assert len(pipe.topics.snapshot(source.name, "a")) == 6, "its checkpoint is gone on from"
    assert pipe.topics.state(source.name, "a", "id").keys() == set(range(7))


def test_initial_only_ends_with_an_error_when_a_table_is_not_out(pipe: Pipe, commits: list[Lsn]):
    assert commits
    source = pipe.source
    source.execute("CREATE TABLE dbo.wide (v varchar(max))")
    source.execute("INSERT dbo.wide SELECT REPLICATE(CAST('x' AS varchar(max)), 1200000)")
    source.enable("wide")
    limits = {"mode": "initial_only", "chunk_mb": 1, "memory_mb": 1}
    with Running(pipe.config(snapshot=limits)) as publisher:

        def has_ended() -> bool:
            source.scan()
            return publisher.has_ended

        wait_until(has_ended, "it ends by itself")
        error = publisher.ended()
    assert isinstance(error, SnapshotsIncomplete)
    assert str(error.tables[0]).endswith("dbo.wide")
    assert len(pipe.topics.snapshot(source.name, "a")) == 6
