"""Topics that no longer hold what the lake needs: their tables stop alone until they come whole."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.records.progress import position_hash
from tailrace_sink.errors import TopicUnknown
from tailrace_sink.fold.ledger import counted_by_spark, counted_in
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.recent_cuts import EVENTS, RecentCuts, events_of
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.rows.writer_schema import writer_schema
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.stories import Stories, Story

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

LARGE = {"local_changes_max": 0}
shared = Stories(16, small={}, large=LARGE, bulk={**LARGE, "bulk_changes": 1})


@pytest.mark.slow("two batches in a lake of its own, which may be the first that Spark runs")
def test_a_lake_of_which_the_only_table_lost_changes_says_so(source: Source, lake: Lake):
    """The sink goes on: the snapshot that brings the table back is still to come."""
    table = source.table("t", column(1, "id", "int", key=1))
    source.commit(*(lambda t, n=n: t.insert(table, id=n) for n in range(10)))
    source.publish()
    delete_records(source, table)

    lake.catch_up()

    (commit,) = lake.commits()
    assert commit["tables"] == {}
    assert "new snapshot" in json.loads(commit["stopped"])[table.topic]
    taken_again(source, table)
    lake.catch_up()
    brought_back(lake, table)


@shared.only("small", "large")  # test_bulk.py has those that are not copied into the log
def test_changes_that_retention_removed_stop_their_table_alone(source: Source, lake: Lake) -> Story:
    """In batches that are read at once, and in those that are read table by table."""
    keeps, loses = two_tables(source, "retained", "removed")
    delete_records(source, loses)
    yield
    stopped_alone(lake, keeps, loses, "new snapshot")
    taken_again(source, loses)
    yield
    brought_back(lake, loses)


@shared.only("small")
def test_a_snapshot_that_follows_lost_changes_in_the_same_cut_is_applied(
    source: Source, lake: Lake
) -> Story:
    """The sink stood still: what it lost and what the operator did about it come at once."""
    _, loses = two_tables(source, "stays", "follows")
    delete_records(source, loses)
    taken_again(source, loses)
    yield
    brought_back(lake, loses)


@shared.only("small")
def test_a_topic_that_was_made_anew_stops_its_table_alone(source: Source, lake: Lake) -> Story:
    keeps, loses = two_tables(source, "as_it_was", "created_again")
    yield
    source.topics.delete(loses.topic)
    source.topics.create_again(loses.topic)
    source.commit(lambda t: t.insert(keeps, id=10), lambda t: t.insert(loses, id=10))
    yield
    stopped_alone(lake, keeps, loses, "created again")
    assert len(lake.rows("as_it_was")) == 11


@pytest.mark.slow("three batches in a lake of its own")
def test_a_topic_that_was_deleted_stops_its_table_alone(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    keeps, loses = two_tables(source, "keeps", "loses")
    source.topics.delete(loses.topic)

    with pytest.raises(TopicUnknown, match="loses"):  # perhaps a broker has just started
        lake.catch_up()
    assert lake.commits() == []
    monkeypatch.setattr("tailrace_sink.kafka.offset_bounds.TOPIC_GONE_AFTER_S", 0)
    lake.catch_up()

    stopped_alone(lake, keeps, loses, "was deleted")
    source.topics.create_again(loses.topic)
    taken_again(source, loses)
    lake.catch_up()
    brought_back(lake, loses)


@shared
def test_other_changes_than_the_ledger_counts_stop_their_table_alone(
    source: Source, lake: Lake
) -> Story:
    """In batches that are read at once, and in those that are read table by table."""
    key = column(1, "id", "int", key=1)
    keeps, compacted, altered = (source.table(name, key) for name in ("counted", "comp", "alt"))
    keyless = source.table("log", column(1, "id", "int"))
    tables = (keeps, compacted, altered, keyless)
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(6)))
    yield
    before = lake.rows("comp"), lake.rows("alt"), lake.rows("log")
    compacted_holds = ""
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(6, 12)))
        messages = [m for m in source.pending if m.topic == table.topic]
        (first, *_, last) = messages
        if table is compacted:
            first.value = None  # compaction took the event and left the tombstone after it
            counted = sum(m.partition == first.partition for m in messages)
            compacted_holds = (
                f"table shop.dbo.comp: topic {table.topic} partition {first.partition} holds"
                f" {counted - 1} changes where the publisher counted {counted}"
            )
        elif table is not keeps:
            last.position = ChangePosition.of_snapshot(source.next_lsn())  # as many, but another
    yield
    stopped_alone(lake, keeps, compacted, compacted_holds)
    stopped = json.loads(lake.commits()[-1]["stopped"])
    for table in (altered, keyless):
        assert "changes, but others than the publisher counted" in stopped[table.topic]
    assert before == (lake.rows("comp"), lake.rows("alt"), lake.rows("log")), "nothing is written"
    assert len(lake.rows("counted")) == 12


@pytest.mark.slow("two batches in a lake of its own")
@pytest.mark.parametrize("lying", ["memory", "memory and log"])
def test_a_table_stops_only_if_no_place_has_what_was_counted(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch, lying: str
):
    """What one place lacks, the next one has: nobody has removed records."""

    def nothing(_: RecentCuts, ranges: Iterable[TopicRange]) -> dict[str, pa.Table]:
        return {found.topic: events_of(found.topic, EVENTS.empty_table()) for found in ranges}

    records = LogTable.records
    monkeypatch.setattr(RecentCuts, "values", nothing)
    if lying == "memory and log":
        monkeypatch.setattr(LogTable, "records", lambda *args: records(*args).where("false"))
    table = source.table("t", column(1, "id", "int", key=1))
    source.commit(*(lambda t, n=n: t.insert(table, id=n) for n in range(10)))
    source.publish()

    lake.catch_up()

    assert [json.loads(commit["stopped"]) for commit in lake.commits()] == [{}]
    assert lake.rows("t") == [{"id": n} for n in range(10)]


@shared
def test_records_of_somebody_else_in_a_topic_are_noticed(source: Source, lake: Lake) -> Story:
    keeps, loses = two_tables(source, "own", "foreign")
    foreign = Producer({"bootstrap.servers": lake.options["kafka"]["bootstrap"]})
    for partition in range(2):
        foreign.produce(loses.topic, b"not ours", partition=partition)
    foreign.flush(30)
    source.commit(*(lambda t, n=n: t.insert(loses, id=n) for n in range(10, 18)))
    yield
    stopped_alone(lake, keeps, loses, "where the publisher counted")


def test_both_ways_of_counting_find_the_same(source: Source, spark: SparkSession):
    """Events of two tables and of three schema versions, one of nobody's and one cut short."""
    key = column(1, "id", "int", key=1)
    one = source.table("one", key, column(2, "text", "nvarchar(max)"))
    other = source.table("other", key)
    ids = [one.value_schema_id, other.value_schema_id]
    source.commit(
        *(lambda t, n=n: t.insert(one, id=n, text="x" * n) for n in range(20)),
        *(lambda t, n=n: t.insert(other, id=n) for n in range(5)),
        lambda t: t.update(one, (3,), id=30),
    )
    source.alter(one, key, column(2, "text", "nvarchar(max)"), column(3, "more", "date"))
    ids.append(one.value_schema_id)
    source.snapshot(one, [{"id": n, "text": None, "more": None} for n in range(10)])
    source.commit(lambda t: t.delete(one, (1,)))
    expected: dict[int, Counted] = {}
    rows: list[tuple[int, bytes]] = []
    for message in source.pending:
        if message.value is None or message.position is None:
            continue
        one_more = Counted(1, position_hash(message.position.to_bytes()))
        expected[message.partition] = expected.get(message.partition, Counted()).plus(one_more)
        rows.append((message.partition, message.value))
    for foreign in (b"not ours", b"", rows[0][1][:7]):
        rows.append((1, foreign))
        expected[1] = expected.get(1, Counted()).plus(Counted(1, 0))
    writers = [
        writer_schema(schema_id, source.registry.schema_by_id(schema_id), one.topic)
        for schema_id in ids
    ]
    table = pa.table(
        {"partition": pa.array([p for p, _ in rows], pa.int32()), "value": [v for _, v in rows]}
    )

    assert counted_in(table, writers) == expected
    assert counted_by_spark(spark.createDataFrame(table), writers) == expected


def two_tables(source: Source, *names: str) -> list[SourceTable]:
    """Tables of ten rows each, published."""
    tables = [source.table(name, column(1, "id", "int", key=1)) for name in names]
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(10)))
    source.publish()
    return tables


def stopped_alone(lake: Lake, keeps: SourceTable, loses: SourceTable, reason: str) -> None:
    """The newest cut has one of two tables, and says why it does not have the other."""
    commit = lake.commits()[-1]
    assert f"shop/dbo/{keeps.name.table}" in commit["tables"]
    assert f"shop/dbo/{loses.name.table}" not in commit["tables"]
    stopped = json.loads(commit["stopped"])
    assert reason in stopped[loses.topic]
    assert keeps.topic not in stopped


def delete_records(source: Source, table: SourceTable) -> None:
    """The oldest records of both partitions are gone, as after their retention."""
    source.topics.delete_records(table.topic, {0: 3, 1: 3})


def taken_again(source: Source, table: SourceTable) -> None:
    """Publish a new snapshot; one row was deleted while nobody followed the table."""
    source.publish(snapshotting=[table])
    rows = list(table.rows.values())[1:]
    table.rows.clear()
    source.snapshot(table, rows)
    source.publish()


def brought_back(lake: Lake, table: SourceTable) -> None:
    """The new snapshot made the table whole, and part of the cut."""
    commit = lake.commits()[-1]
    assert table.topic not in json.loads(commit["stopped"])
    assert f"shop/dbo/{table.name.table}" in commit["tables"]
    assert lake.by_key(table) == table.rows
