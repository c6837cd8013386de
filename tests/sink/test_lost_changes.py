"""Topics that no longer hold what the lake needs: their tables stop alone until they come whole."""

from __future__ import annotations

import json
from typing import Any

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


@pytest.mark.parametrize("local_changes_max", [10_000, 1], ids=["small", "large"])
def test_changes_that_retention_removed_stop_their_table_alone(
    source: Source, lake: Lake, local_changes_max: int
):
    options = {"local_changes_max": local_changes_max}
    columns = (column(1, "id", "int", key=1),)
    keeps, loses = source.table("keeps", *columns), source.table("loses", *columns)
    for table in (keeps, loses):
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(10)))
    source.publish()
    delete_records(source, loses)

    lake.catch_up(**options)

    (commit,) = lake.commits()
    assert set(commit["tables"]) == {"shop/dbo/keeps"}
    assert "new snapshot" in json.loads(commit["stopped"])[loses.topic]
    assert len(lake.rows("keeps")) == 10

    brought_back(source, lake, loses, **options)


def test_a_topic_that_was_made_anew_stops_its_table_alone(source: Source, lake: Lake):
    columns = (column(1, "id", "int", key=1),)
    keeps, loses = source.table("keeps", *columns), source.table("loses", *columns)
    for table in (keeps, loses):
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(10)))
    source.publish()
    lake.catch_up()
    source.delete_topic(loses)
    source.make_topic(loses)
    source.commit(lambda t: t.insert(keeps, id=10), lambda t: t.insert(loses, id=10))
    source.publish()

    lake.catch_up()

    commit = lake.commits()[-1]
    assert set(commit["tables"]) == {"shop/dbo/keeps"}
    assert "made again" in json.loads(commit["stopped"])[loses.topic]
    assert len(lake.rows("keeps")) == 11

    brought_back(source, lake, loses)


def test_a_topic_that_was_deleted_stops_its_table_alone(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    columns = (column(1, "id", "int", key=1),)
    keeps, loses = source.table("keeps", *columns), source.table("loses", *columns)
    for table in (keeps, loses):
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n) for n in range(10)))
    source.publish()
    source.delete_topic(loses)

    with pytest.raises(TopicUnknown, match="loses"):  # perhaps a broker has just started
        lake.catch_up()
    assert lake.commits() == []
    monkeypatch.setattr("spark_sink.topic_reader.TOPIC_GONE_AFTER_S", 0)
    lake.catch_up()

    (commit,) = lake.commits()
    assert set(commit["tables"]) == {"shop/dbo/keeps"}
    assert "was deleted" in json.loads(commit["stopped"])[loses.topic]

    source.make_topic(loses)
    brought_back(source, lake, loses)


def delete_records(source: Source, table: SourceTable) -> None:
    """The oldest records of both partitions are gone, as after their retention."""
    doomed = [TopicPartition(table.topic, partition, 3) for partition in range(2)]
    for future in source.admin.delete_records(doomed).values():
        future.result(30)


def brought_back(source: Source, lake: Lake, table: SourceTable, **options: Any) -> None:
    """A new snapshot makes a stopped table whole, and part of the cut."""
    source.publish(snapshotting=[table])
    rows = list(table.rows.values())[1:]  # one was deleted while nobody followed the table
    table.rows.clear()
    source.snapshot(table, rows)
    source.publish()
    lake.catch_up(**options)
    commit = lake.commits()[-1]
    assert commit["stopped"] == "{}"
    assert f"shop/dbo/{table.name.table}" in commit["tables"]
    found = lake.rows(table.name.table)
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in rows)
