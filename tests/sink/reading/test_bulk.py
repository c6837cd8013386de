"""Cuts that are not copied into the log: what readers see of them, and what may be lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tailrace_sink import read
from tailrace_sink.columns import task_files, topic_messages
from tailrace_sink.columns.topic_messages import Brokers, Piece, values_of
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.files import range_files
from tailrace_sink.watch import task_rows
from tailrace_sink.watch.task_rows import TaskRows
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.pipeline.running import wait_until
from tests.sink.conftest import Lake
from tests.sink.delta.test_column_files import OURS
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


@pytest.mark.slow("two batches in a lake of its own")
def test_a_large_batch_of_which_the_log_has_a_part_is_read_from_kafka_if_it_has_all(
    source: Source, lake: Lake
):
    lake.options |= {"bulk_changes": 8, "local_changes_max": 0, "rewrite_below_bytes": 0}
    table = source.table("t", *COLUMNS)
    insert(source, table, *range(4))
    lake.log_only()
    insert(source, table, *range(4, 14))
    lake.catch_up()
    assert by_columns(lake, table) == [True], "one append of all"
    assert lake.by_key(table) == table.rows

    insert(source, table, *range(14, 18))
    lake.log_only()
    copied = source.topics.end_offset(table.topic)
    insert(source, table, *range(18, 28))
    lake.log_only()
    source.topics.delete_records(table.topic, {0: copied})
    lake.catch_up()
    assert by_columns(lake, table) == [True, False], "Kafka lacks what the log has"
    assert lake.by_key(table) == table.rows


def by_columns(lake: Lake, table: SourceTable) -> list[bool]:
    """Whether the files of each append were written without Spark, oldest first."""
    location = lake.location(table.name.table)
    found, known = [], set[str]()
    for version in range(DeltaTable(location).version() + 1):
        files = set(DeltaTable(location, version=version).file_uris())
        if new := files - known:
            found.append(all(OURS.fullmatch(uri.rpartition("/")[2]) for uri in new))
        known = files
    return found


ROWS = 12_000
READ_AT_ONCE = 2_000


@pytest.mark.slow("a batch whose tasks wait, in a lake of its own")
def test_what_running_tasks_have_read_of_a_batch_is_known_before_its_end(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    released = lake.path / "released"

    def held(brokers: Brokers, pieces: Sequence[Piece]) -> Iterator[pa.Array]:
        """Read a task's messages; the task ends when it is released."""
        yield from values_of(brokers, pieces)
        for _ in range(4_000):
            if released.exists():
                return
            threading.Event().wait(0.05)

    # Both go to the tasks by value.
    monkeypatch.setattr(topic_messages, "_BATCH_ROWS", READ_AT_ONCE)
    monkeypatch.setattr(task_files, "CHANGES_A_ROW", 1)
    monkeypatch.setattr(task_rows, "_READS", {"MapInArrow": 1})
    monkeypatch.setattr(range_files, "values_of", held)
    lake.options["bulk_changes"] = ROWS
    table = source.table("t", *COLUMNS)
    insert(source, table, *range(ROWS))
    steps: list[str] = []
    reads: list[TaskRows] = []

    def hook(step: str, _path: str) -> None:
        steps.append(step)
        if step == "planned":
            reads.append(TaskRows(lake.spark))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lake.catch_up, hook)
        try:
            wait_until(
                lambda: running.done() or any(of.count() >= READ_AT_ONCE for of in reads),
                "the tasks' first messages are counted",
            )
            assert not running.done(), running.result()
            assert reads[0].count() <= ROWS
            assert "merged" not in steps
        finally:
            released.touch()
        assert running.result(200) == 1
    assert lake.by_key(table) == table.rows
    tasks = lake.spark.sparkContext.defaultParallelism
    assert reads[0].count() == ROWS + tasks, "each task returns its results in one row more"
