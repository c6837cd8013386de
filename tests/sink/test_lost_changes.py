"""Topics that no longer hold what the lake needs: their tables stop alone until they come whole."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import TopicPartition

from spark_sink.errors import ChangesLost, TopicUnknown
from tests.fix_envelopes import Source, SourceTable, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_changes_that_retention_removed_end_the_sink_of_a_single_table(source: Source, lake: Lake):
    table = source.table("t", column(1, "id", "int", key=1))
    source.commit(*(lambda t, n=n: t.insert(table, id=n) for n in range(10)))
    source.publish()
    delete_records(source, table)

    with pytest.raises(ChangesLost, match="new snapshot"):
        lake.catch_up()
    assert lake.commits() == []


def test_changes_that_retention_removed_stop_their_table_alone(source: Source, lake: Lake):
    _, loses = two_tables(source)
    delete_records(source, loses)

    lake.catch_up()

    stopped_alone(lake, loses, "new snapshot")
    brought_back(source, lake, loses)


def test_the_same_in_a_batch_that_is_read_table_by_table(source: Source, lake: Lake):
    _, loses = two_tables(source)
    delete_records(source, loses)

    lake.catch_up(local_changes_max=1)

    stopped_alone(lake, loses, "new snapshot")


def test_a_topic_that_was_made_anew_stops_its_table_alone(source: Source, lake: Lake):
    keeps, loses = two_tables(source)
    lake.catch_up()
    source.delete_topic(loses)
    source.make_topic(loses)
    source.commit(lambda t: t.insert(keeps, id=10), lambda t: t.insert(loses, id=10))
    source.publish()

    lake.catch_up()

    stopped_alone(lake, loses, "made again")
    assert len(lake.rows("keeps")) == 11


def test_a_topic_that_was_deleted_stops_its_table_alone(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    _, loses = two_tables(source)
    source.delete_topic(loses)

    with pytest.raises(TopicUnknown, match="loses"):  # perhaps a broker has just started
        lake.catch_up()
    assert lake.commits() == []
    monkeypatch.setattr("spark_sink.topic_reader.TOPIC_GONE_AFTER_S", 0)
    lake.catch_up()

    stopped_alone(lake, loses, "was deleted")
    source.make_topic(loses)
    brought_back(source, lake, loses)


def two_tables(source: Source) -> tuple[SourceTable, SourceTable]:
    """Tables of ten rows each, published."""
    columns = (column(1, "id", "int", key=1),)
    tables = source.table("keeps", *columns), source.table("loses", *columns)
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(10)))
    source.publish()
    return tables


def stopped_alone(lake: Lake, table: SourceTable, reason: str) -> None:
    """The newest cut has the other table, and says why it has not this one."""
    commit = lake.commits()[-1]
    assert set(commit["tables"]) == {"shop/dbo/keeps"}
    assert reason in json.loads(commit["stopped"])[table.topic]


def delete_records(source: Source, table: SourceTable) -> None:
    """The oldest records of both partitions are gone, as after their retention."""
    doomed = [TopicPartition(table.topic, partition, 3) for partition in range(2)]
    for future in source.admin.delete_records(doomed).values():
        future.result(30)


def brought_back(source: Source, lake: Lake, table: SourceTable) -> None:
    """A new snapshot makes a stopped table whole, and part of the cut."""
    source.publish(snapshotting=[table])
    rows = list(table.rows.values())[1:]  # one was deleted while nobody followed the table
    table.rows.clear()
    source.snapshot(table, rows)
    source.publish()
    lake.catch_up()
    commit = lake.commits()[-1]
    assert commit["stopped"] == "{}"
    assert f"shop/dbo/{table.name.table}" in commit["tables"]
    found = lake.rows(table.name.table)
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in rows)
