"""What concerns one table stops that table alone, and a later start takes it up again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tailrace.signals.request import ask
from tailrace_publisher.errors import PreflightError, SchemaRefused
from tailrace_schemas.topics.topic_names import TableName, value_subject
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def two_tables(pipe: Pipe) -> None:
    for table in ("keeps", "loses"):
        pipe.source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note int)")
        pipe.source.execute(f"INSERT dbo.{table} VALUES (1, 1), (2, 2)")
        pipe.source.enable(table)
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "both snapshots are out")


def lose_changes(pipe: Pipe) -> None:
    """Changes of both tables; cleanup takes those of one before they are read."""
    source = pipe.source
    # Cleanup keeps the commits that share the low watermark's time, so they must not share it.
    source.execute(
        "DELETE dbo.loses WHERE id = 1",
        "UPDATE dbo.keeps SET note = 10 WHERE id = 1",
        "WAITFOR DELAY '00:00:00.050'",
        "INSERT dbo.loses VALUES (3, 3)",
    )
    source.scan()
    source.connection.execute(
        "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_loses',"
        " @low_water_mark = ?, @threshold = 5000",
        source.max_lsn().to_bytes(),
    )


def topic_of(pipe: Pipe, table: str) -> str:
    return pipe.topics.names.data(TableName(pipe.source.name, "dbo", table))


def keeps_is_out(pipe: Pipe) -> bool:
    return pipe.topics.state(pipe.source.name, "keeps", "id")[1]["note"] == 10


def snapshot_keys(pipe: Pipe, table: str) -> list[int]:
    events = pipe.topics.snapshot(pipe.source.name, table)
    return sorted(event.envelope["after"]["id"] for event in events if event.envelope)


def scanned_keys(pipe: Pipe, table: str) -> list[int]:
    """The same, after a scan: a snapshot waits for one."""
    pipe.source.scan()
    return snapshot_keys(pipe, table)


def stays_stopped_until_asked_for(pipe: Pipe, reason: str) -> None:
    """A start, or ten, reads nothing of the table; a signal has it read."""
    before = snapshot_keys(pipe, "loses")
    for number in range(2):
        with Running(pipe.config()) as publisher:
            pipe.source.execute(f"UPDATE dbo.keeps SET note = {100 + number} WHERE id = 2")
            pipe.source.scan()
            publisher.until(
                lambda number=number: (
                    pipe.topics.state(pipe.source.name, "keeps", "id")[2]["note"] == 100 + number
                ),
                "the other table goes on",
            )
            (told,) = publisher.told("table_stopped")
            assert reason in told["reason"]
            assert "tailrace snapshot 'dbo.loses'" in told["fix"]
            assert pipe.topics.progress()[-1]["snapshotting"] == [topic_of(pipe, "loses")]
    assert snapshot_keys(pipe, "loses") == before
    with Running(pipe.config()) as publisher:
        ask(pipe.config(), ["dbo.loses"], 60)
        publisher.until(pipe.is_caught_up, "its new snapshot is out")


@pytest.mark.slow("five publishers start and end")
def test_a_table_with_a_gap_stops_alone_and_stays_so_until_it_is_asked_for(pipe: Pipe):
    two_tables(pipe)
    lose_changes(pipe)

    with Running(pipe.config()) as publisher:
        publisher.until(lambda: keeps_is_out(pipe), "the other table goes on")
        (told,) = publisher.told("table_stopped")
        assert told["error"] == "PositionExpired"
        assert told["table"].endswith("dbo.loses")
        publisher.until(
            lambda: pipe.topics.progress()[-1]["snapshotting"] == [topic_of(pipe, "loses")],
            "it is named as no part of the cut",
        )
    assert snapshot_keys(pipe, "loses") == [1, 2]
    assert not pipe.topics.changes(pipe.source.name, "loses"), "nothing behind the gap is out"

    stays_stopped_until_asked_for(pipe, "rows after")
    assert snapshot_keys(pipe, "loses") == [1, 2, 2, 3]
    assert snapshot_keys(pipe, "keeps") == [1, 2]
    pipe.assert_exactly_once("keeps")


def test_a_schema_that_the_registry_refuses_stops_its_table_alone(pipe: Pipe):
    source = pipe.source
    for table in ("keeps", "refused"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note int)")
        source.execute(f"INSERT dbo.{table} VALUES (1, 10)")
        source.enable(table)
    with SchemaRegistry(pipe.topics.registry_url) as registry:
        registry.register(
            value_subject(topic_of(pipe, "refused")), {"type": "string", "name": "foreign"}
        )

    with Running(pipe.config()) as publisher:
        publisher.until(lambda: scanned_keys(pipe, "keeps") == [1], "the other table goes on")
        (told,) = publisher.told("table_stopped")
        assert told["table"].endswith("dbo.refused")
    assert not pipe.topics.events(source.name, "refused")


def test_a_name_too_long_for_a_topic_stops_its_table_alone(pipe: Pipe):
    source = pipe.source
    long = "\u00e9" * 100  # each of them takes several characters in a topic's name
    for table in ("keeps", long):
        source.execute(f"CREATE TABLE dbo.[{table}] (id int PRIMARY KEY)")
        source.execute(f"INSERT dbo.[{table}] VALUES (1)")
    source.enable(long, capture_instance="N'long'")
    with Running(pipe.config()) as publisher:
        assert "Kafka allows 249: choose a shorter prefix" in str(publisher.ended())
    source.execute(f"EXEC sys.sp_cdc_disable_table N'dbo', N'{long}', N'all'")
    source.enable("keeps")

    with Running(pipe.config()) as publisher:
        publisher.until(lambda: scanned_keys(pipe, "keeps") == [1], "it has begun")
        source.enable(long, capture_instance="N'long'")
        source.execute("INSERT dbo.keeps VALUES (2)")
        publisher.until(pipe.is_caught_up, "the other table goes on")
        publisher.until(lambda: bool(publisher.told("table_stopped")), "it is told")
    assert publisher.told("table_stopped")[0]["table"].endswith(long)


def test_a_topic_that_kafka_refuses_stops_its_table_alone(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
):
    """A broker's create.topic.policy would do it; 249 characters are counted by us, too."""
    monkeypatch.setattr("tailrace_schemas.topics.topic_names.TOPIC_CHARACTERS_MAX", 1000)
    source = pipe.source
    long = "\u00e9" * 100
    for table in ("keeps", long):
        source.execute(f"CREATE TABLE dbo.[{table}] (id int PRIMARY KEY)")
        source.execute(f"INSERT dbo.[{table}] VALUES (1)")
        source.enable(table, capture_instance=f"N'{table[:10]}'")

    with Running(pipe.config()) as publisher:
        publisher.until(lambda: scanned_keys(pipe, "keeps") == [1], "the other table goes on")
        (told,) = publisher.told("table_stopped")
    assert told["error"] == "DeliveryRejected"
    assert told["table"].endswith(long)
    assert "choose another prefix" in told["reason"]


def test_the_only_table_that_cannot_go_on_ends_the_publisher(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.refused (id int PRIMARY KEY)")
    source.enable("refused")
    with SchemaRegistry(pipe.topics.registry_url) as registry:
        registry.register(
            value_subject(topic_of(pipe, "refused")), {"type": "string", "name": "foreign"}
        )

    with Running(pipe.config()) as publisher:
        error = publisher.ended()

    assert isinstance(error, SchemaRefused | PreflightError)
    assert "refused" in str(error)


@pytest.mark.parametrize(
    ("limit", "is_taken"),
    [
        ({"extra": {"message.max.bytes": "1000000"}}, False),
        ({"topic_settings": {"max.message.bytes": "1048588"}}, False),
        ({}, True),
    ],
    ids=["for the producer", "for the topic", "not for the local broker"],
)
def test_a_row_too_large_for_kafka_stops_its_table_alone(
    pipe: Pipe, limit: dict[str, Any], is_taken: bool
):
    source = pipe.source
    for table in ("keeps", "large"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note varchar(max))")
        source.execute(f"INSERT dbo.{table} VALUES (1, 'small')")
    # Random, so that compression does not make it small again: 3 MB.
    source.connection.execute(
        "INSERT dbo.large VALUES (2, ?), (3, 'small')", random.Random(7).randbytes(1_500_000).hex()
    )
    for table in ("keeps", "large"):
        source.enable(table)

    with Running(pipe.config(kafka={"bootstrap": pipe.topics.bootstrap, **limit})) as publisher:
        publisher.until(lambda: scanned_keys(pipe, "keeps") == [1], "the other table goes on")
        if is_taken:
            publisher.until(lambda: scanned_keys(pipe, "large") == [1, 2, 3], "all is published")
            return
        publisher.until(
            lambda: source.scan() or bool(publisher.told("table_stopped")), "it is told"
        )
        (told,) = publisher.told("table_stopped")
        assert told["error"] == "RecordTooLarge"
        assert told["table"].endswith("dbo.large")
        assert "max.message.bytes" in told["reason"]
    assert not pipe.topics.events(source.name, "large")


@pytest.mark.slow("up to five publishers start and end")
@pytest.mark.parametrize("is_running", [False, True], ids=["at the start", "while running"])
def test_a_topic_that_may_not_be_written_stops_its_table_alone(pipe: Pipe, is_running: bool):
    source = pipe.source
    two_tables(pipe)
    topic = topic_of(pipe, "loses")
    with ExitStack() as rights:
        if not is_running:
            rights.enter_context(denied(pipe, topic, AclOperation.WRITE))
        with Running(pipe.config()) as publisher:
            if is_running:
                publisher.until(lambda: "heartbeat" in publisher.steps, "it runs")
                rights.enter_context(denied(pipe, topic, AclOperation.WRITE))
            source.execute("INSERT dbo.loses VALUES (3, 3)", "UPDATE dbo.keeps SET note = 10")

            publisher.until(lambda: source.scan() or keeps_is_out(pipe), "the other table goes on")

            (told,) = publisher.told("table_stopped")
            assert told["table"].endswith("dbo.loses")
            assert topic in told["reason"]
            assert "grant Write" in told["reason"]
    if not is_running:
        stays_stopped_until_asked_for(pipe, "grant Write")
        assert snapshot_keys(pipe, "loses") == [1, 1, 2, 2, 3]
    pipe.assert_exactly_once("keeps")


@pytest.mark.slow("three publishers start and end")
def test_a_topic_that_is_gone_stops_its_table_alone(pipe: Pipe, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tailrace_publisher.deliver.topics.UNKNOWN_TOPIC_S", 0.5)
    source = pipe.source
    two_tables(pipe)
    admin = AdminClient({"bootstrap.servers": pipe.topics.bootstrap})
    (deleted,) = admin.delete_topics([topic_of(pipe, "loses")]).values()
    deleted.result(10)
    with Running(pipe.config()) as publisher:
        source.execute("INSERT dbo.loses VALUES (3, 3)", "UPDATE dbo.keeps SET note = 10")

        publisher.until(lambda: source.scan() or keeps_is_out(pipe), "the other table goes on")

        (told,) = publisher.told("table_stopped")
        assert told["table"].endswith("dbo.loses")
        assert "it was deleted, and its events with it" in told["reason"]
        assert pipe.topics.progress()[-1]["snapshotting"] == [topic_of(pipe, "loses")]
    assert not pipe.topics.events(source.name, "loses")
    with Running(pipe.config()) as publisher:
        ask(pipe.config(), ["dbo.loses"], 60)
        publisher.until(pipe.is_caught_up, "who asks for it has it made anew")
        assert snapshot_keys(pipe, "loses") == [1, 2, 3]
    pipe.assert_exactly_once("keeps")


@contextmanager
def denied(pipe: Pipe, topic: str, operation: AclOperation) -> Iterator[None]:
    """Everybody is refused an operation on a topic."""
    admin = AdminClient({"bootstrap.servers": pipe.topics.bootstrap})
    rule = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", operation)
    (made,) = admin.create_acls([AclBinding(*rule, AclPermissionType.DENY)]).values()
    made.result(10)
    try:
        yield
    finally:
        (gone,) = admin.delete_acls([AclBindingFilter(*rule, AclPermissionType.DENY)]).values()
        gone.result(10)


def test_a_first_start_leaves_out_tables_with_problems_and_says_so(
    pipe: Pipe, tmp_path: Path
) -> None:
    """A name that is too long for a topic, and a table without CDC."""
    long = "\N{SNOWMAN}" * 120
    for table in ("keeps", "later", long):
        pipe.source.execute(f"CREATE TABLE dbo.[{table}] (id int PRIMARY KEY, note int)")
        pipe.source.execute(f"INSERT dbo.[{table}] VALUES (1, 1)")
    pipe.source.enable("keeps")
    pipe.source.execute(
        f"EXEC sys.sp_cdc_enable_table N'dbo', N'{long}', @role_name = NULL,"
        " @capture_instance = N'long'"
    )
    further = {"tables": {"include": ["dbo.keeps", "dbo.later", f"dbo.{long}"]}}
    assert invoke(pipe, tmp_path, "plan", **further).exit_code == 1
    looked = invoke(pipe, tmp_path, "doctor", **further)
    assert looked.exit_code == 1
    assert "a first start leaves the table out" in " ".join(looked.output.split())

    with Running(pipe.config(metrics_port=0, **further)) as publisher:
        publisher.until(lambda: bool(publisher.told("http_served")), "it listens")
        url = publisher.told("http_served")[0]["url"]

        def states() -> dict[str, str]:
            status = httpx.get(f"{url}/status", trust_env=False).json()
            return {t["table"]: t["state"] for t in status["tables"]}

        publisher.until(
            lambda: pipe.is_caught_up() and bool(pipe.topics.snapshot(pipe.source.name, "keeps")),
            "the table without a problem is out",
        )
        publisher.until(
            lambda: (
                states()
                == {"dbo.keeps": "followed", "dbo.later": "missing", f"dbo.{long}": "missing"}
            ),
            "the status names those that are left out",
        )
        pipe.source.enable("later")
        publisher.until(
            lambda: pipe.is_caught_up() and bool(pipe.topics.snapshot(pipe.source.name, "later")),
            "the table is added without a restart",
        )
    stops = {e["table"]: e["log_level"] for e in publisher.told("table_stopped")}
    assert stops == {f"{pipe.source.name}.dbo.{table}": "error" for table in ("later", long)}
