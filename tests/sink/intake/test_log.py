"""The log takes every change first: once, from one sink at a time; what is late is waited for."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_service.registry.client import RegistryRejected
from tailrace_sink.daemon.application import serve
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.errors import EXCLUDED, KafkaUnavailable, LakeTaken, SinkError
from tailrace_sink.log import progress_feed as feed
from tailrace_sink.log import schema_store
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.sink_state import SinkState
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.lake_rows import query_delta

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

GO_ON = threading.Event()
"""Never set: the sinks of these tests end when there is nothing more."""


def tables_of(source: Source) -> tuple[SourceTable, SourceTable]:
    """A keyed table and a keyless one."""
    keyed = source.table("keyed", column(1, "id", "int", key=1), column(2, "v", "int"))
    return keyed, source.table("lines", column(1, "line", "varchar(20)"))


def change(source: Source, keyed: SourceTable, lines: SourceTable, number: int) -> None:
    source.commit(
        lambda t: t.insert(keyed, id=number, v=number),
        lambda t: t.insert(lines, line=f"line {number}"),
    )
    source.publish()


def check(lake: Lake, keyed: SourceTable, lines: int) -> None:
    """Every change is in log and tables, once."""
    assert {row["id"] for row in lake.rows("keyed")} == {key for (key,) in keyed.rows}
    assert sorted(row["line"] for row in lake.rows("lines")) == sorted(
        f"line {n}" for n in range(lines)
    )
    assert lake.logged_twice() == []
    batches = [row["batch"] for row in lake.commits()]
    assert len(batches) == len(set(batches)), "a cut has one row"


@pytest.mark.guarantee(17)
@pytest.mark.slow("two sinks take one lake from each other until one has it")
def test_sinks_that_start_together(source: Source, lake: Lake, spark: SparkSession):
    """One of them has the lake in the end, whoever that is."""
    keyed, lines = tables_of(source)
    change(source, keyed, lines, 0)
    sinks = [lake.sink(merge_pool=1) for _ in range(2)]
    failures: list[SinkError | None] = [None, None]

    def run(index: int) -> None:
        for _ in range(5):
            try:
                sinks[index].open()
                stream_of(spark, source, sinks[index]).catch_up(GO_ON)
                sinks[index].fold_tables(GO_ON)
            except SinkError as error:
                failures[index] = error
                if error.retryable:  # both make the same table, say: as the application does
                    continue
            return

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
        assert not thread.is_alive()
    for sink, failure in zip(sinks, failures, strict=True):
        sink.close()
        assert failure is None or failure.retryable or isinstance(failure, LakeTaken), failure
    change(source, keyed, lines, 1)

    lake.catch_up(merge_pool=1)
    check(lake, keyed, 2)


@pytest.mark.guarantee(17)
def test_two_sinks_may_store_one_schema(
    source: Source, lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    """One of them finds the file in its way; only a file that is not there is an error."""
    table = source.table("t", column(1, "id", "int", key=1))
    config = lake.config()
    LogTable(lake.spark, config.log_path, config.prefix).ensure()
    by_id = source.registry.schema_by_id
    store = SchemaStore(spark, config.log_path, config.schemas_path, by_id)
    real = schema_store.write_text

    def in_its_way(*arguments: Any) -> None:
        if is_other_faster:
            real(*arguments)
        raise Py4JError("FileAlreadyExistsException")

    monkeypatch.setattr(schema_store, "write_text", in_its_way)
    is_other_faster = False
    with pytest.raises(SinkError, match=f"{table.value_schema_id}.json"):
        store.schema_by_id(table.value_schema_id)
    is_other_faster = True
    assert store.schema_by_id(table.value_schema_id) == by_id(table.value_schema_id)


@pytest.mark.guarantee(17)
def test_an_append_tells_whether_another_sink_was_first(lake: Lake):
    """With the same mark, or a newer one: Delta drops the second without a word."""
    config, today = lake.config(), dt.date(2024, 1, 1)
    table = LogTable(lake.spark, config.log_path, config.prefix)
    table.ensure()

    def append(owner: str, epoch: int) -> bool:
        state = LogState(SinkState(), epoch, owner)
        return table.append(
            lake.spark, state, [], config.topics.progress, None, today, one_file=True
        )

    assert append("one", 2)
    assert not append("other", 2)
    assert not append("late", 1)
    found = table.last()
    assert found is not None
    assert (found.owner, table.mark()) == ("one", found.mark)


def stream_of(spark: SparkSession, source: Source, sink: Sink) -> ProgressStream:
    return ProgressStream(spark, sink.config, source.registry.schema_by_id, sink)


@pytest.mark.guarantee(13)
@pytest.mark.slow("a sink waits for a marker, gives up, and is started again")
def test_a_late_marker_is_waited_for(source: Source, lake: Lake):
    """The brokers write the markers of a transaction one partition after the other."""
    keyed, lines = tables_of(source)
    change(source, keyed, lines, 0)
    lake.catch_up()
    source.commit(*(lambda t, n=n: t.insert(keyed, id=n, v=n) for n in range(1, 9)))
    source.publish(late_marker=True)

    with pytest.raises(KafkaUnavailable, match="transaction marker is late"):
        lake.catch_up(kafka={**lake.options["kafka"], "poll_timeout_s": 1})
    source.write_marker()
    lake.catch_up()

    assert lake.commits()[-1]["stopped"] == "{}"
    check(lake, keyed, 1)


@pytest.mark.guarantee(13)
def test_once_carries_what_is_there_and_ends(source: Source, lake: Lake, spark: SparkSession):
    keyed, lines = tables_of(source)
    change(source, keyed, lines, 0)
    serve(spark, lake.config(), threading.Event(), once=True)
    check(lake, keyed, 1)


@pytest.mark.slow("sinks of four days, each with a batch and a compaction")
def test_old_days_of_the_log_go(source: Source, lake: Lake, spark: SparkSession):
    """Not before what waits in them for the end of a snapshot was applied."""
    keyed, lines = tables_of(source)
    later = source.table("later", column(1, "id", "int", key=1))
    day_s, days = 86_400.0, iter(range(0, 100, 10))
    source.snapshot(later, [{"id": 1}])
    source.publish(snapshotting=[later])

    def days_of_the_log() -> int:
        return len(query_delta(lake.config().log_path, "SELECT DISTINCT day FROM t"))

    def a_while_later(number: int, snapshotting: Sequence[SourceTable] = ()) -> None:
        source.commit(
            lambda t: t.insert(keyed, id=number, v=number),
            lambda t: t.insert(lines, line=f"line {number}"),
        )
        source.publish(snapshotting=snapshotting)
        today = next(days)
        config = lake.config(retention={"days": 5})
        sink = Sink(
            spark, config, source.registry.schema_by_id, now_s=lambda: 1.8e9 + today * day_s
        )
        try:
            sink.open()
            stream_of(spark, source, sink).catch_up(GO_ON)
            sink.fold_tables(GO_ON)
        finally:
            sink.close()

    a_while_later(0, [later])
    a_while_later(1, [later])
    assert days_of_the_log() == 2, "the snapshot waits in the first"
    a_while_later(2)
    a_while_later(3)
    assert days_of_the_log() == 4, "the oldest cut that is kept still waits for the snapshot"
    a_while_later(4)
    assert days_of_the_log() == 2, "what the clock says counts at the next look"
    assert lake.rows("later") == [{"id": 1}]
    check(lake, keyed, 5)


@pytest.mark.slow("many cuts of the log")
def test_a_fold_that_is_far_behind_reads_the_log_in_slices(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feed, "_SLICE_CUTS", 2)
    keyed, lines = tables_of(source)
    for number in range(5):
        change(source, keyed, lines, number)
    lake.log_only(changes_per_batch=1)
    assert lake.catch_up() == 3, "two cuts, two cuts, one cut"
    check(lake, keyed, 5)


def test_a_schema_that_nobody_has_stops_its_table_alone(
    source: Source, lake: Lake, spark: SparkSession
):
    """It was deleted in the registry before the lake had it."""
    keyed, lines = tables_of(source)
    change(source, keyed, lines, 0)

    def without(schema_id: int) -> dict[str, Any]:
        if schema_id == keyed.value_schema_id:
            raise RegistryRejected(f"id {schema_id}", 404, "not found", "register it")
        return source.registry.schema_by_id(schema_id)

    sink = Sink(spark, lake.config(), without)
    try:
        sink.open()
        stream_of(spark, source, sink).catch_up(GO_ON)
        sink.fold_tables(GO_ON)
    finally:
        sink.close()
    commit = lake.commits()[-1]
    assert set(commit["tables"]) == {"shop/dbo/lines"}
    assert "does not have schema" in json.loads(commit["stopped"])[keyed.topic]


@pytest.mark.slow("five starts of a sink with changing configuration")
def test_what_configuration_left_out_comes_back_whole(source: Source, lake: Lake):
    """Also what was logged before it was left out is not passed over."""
    keyed, lines = tables_of(source)
    change(source, keyed, lines, 0)
    lake.catch_up()
    change(source, keyed, lines, 1)
    lake.log_only()
    for number in (2, 3):
        lake.catch_up(tables={"exclude": [r"dbo\.keyed"]})
        excluded = lake.commits()[-1]
        assert set(excluded["tables"]) == {"shop/dbo/lines"}
        assert json.loads(excluded["stopped"]) == {keyed.topic: EXCLUDED}
        change(source, keyed, lines, number)

    source.topics.create(source.names.signals)
    lake.catch_up(request_snapshots=True)
    assert set(lake.commits()[-1]["tables"]) == {"shop/dbo/lines"}, "it lacks what was left out"
    assert source.signals() == [SnapshotSignal(("dbo.keyed",))]

    source.publish(snapshotting=[keyed])
    source.snapshot(keyed, list(keyed.rows.values()))
    source.publish()
    lake.catch_up()
    assert set(lake.commits()[-1]["tables"]) == {"shop/dbo/keyed", "shop/dbo/lines"}
    check(lake, keyed, 4)
