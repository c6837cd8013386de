"""Cuts that are not copied into the log: what readers see of them, and what may be lost."""

from __future__ import annotations

import pytest

from tailrace_sink import read
from tailrace_sink.errors import ChangesUnknown
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.intake.test_lost_changes import brought_back, stopped_alone, taken_again

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))


def insert(source: Source, table: SourceTable, *numbers: int) -> None:
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in numbers))
    source.publish()


def last_record(source: Source) -> int:
    """The offset after the newest progress record, which a transaction marker follows."""
    return source.topics.end_offset(source.names.progress) - 1


def group_offset(source: Source) -> int:
    return source.topics.group_offset(source.prefix, source.names.progress)


@pytest.mark.slow("three batches and a log that is ahead, in a lake of its own")
def test_a_bulk_cut_is_readable_from_its_commit_row_on(source: Source, lake: Lake):
    lake.options["bulk_changes"] = 4
    lake.options["kafka"]["consumer_group"] = source.prefix
    table = source.table("t", *COLUMNS)
    source.snapshot(table, [{"id": n, "v": n} for n in range(6)])
    source.publish(snapshotting=[table])
    source.publish()
    lake.catch_up()
    reader = read(lake.spark, f"{lake.path}/lake")
    assert reader.changes(table.name).collect() == [], "snapshot rows are no changes"

    before = last_record(source)
    insert(source, table, *range(10, 20))
    lake.log_only(opens_tables=True)
    assert group_offset(source) == before, "the log only names a bulk cut"
    insert(source, table, 20)
    lake.log_only()
    assert reader.as_of("latest").read(table.name).count() == 6, "the tail ends before a bulk cut"
    lake.catch_up()
    assert reader.as_of("latest").read(table.name).count() == 17
    assert lake.by_key(table) == table.rows
    with pytest.raises(ChangesUnknown, match=r"10 changes of table shop.dbo.t .* in bulk"):
        reader.changes(table.name)
    bulk_lsn = lake.commits()[0]["through_lsn"]
    since = min(lsn for lsn in source.cuts if lsn > bulk_lsn)
    (change,) = reader.changes(table.name, after=since).collect()
    assert change["after"]["id"] == 20
    insert(source, table, 21)
    lake.log_only(opens_tables=True)
    assert group_offset(source) == last_record(source), "the log has it, the tables do not"


@pytest.mark.slow("three batches in a lake of its own")
def test_what_kafka_loses_before_the_batch_stops_its_table_alone(source: Source, lake: Lake):
    lake.options |= {"bulk_changes": 1, "local_changes_max": 0}
    keeps, loses = source.table("keeps", *COLUMNS), source.table("loses", *COLUMNS)
    insert(source, keeps, *range(10))
    insert(source, loses, *range(10))
    lake.log_only()
    source.topics.delete_records(loses.topic, {0: 3, 1: 3})
    lake.catch_up()
    stopped_alone(lake, keeps, loses, "new snapshot")
    taken_again(source, loses)
    lake.catch_up()
    brought_back(lake, loses)
