"""Sinks of a lake in an object store: a late PUT, lost answers, a busy store, and every step."""

from __future__ import annotations

import random
import re
import threading
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace.explain.lake import LakeLook, add_lake
from tailrace.explain.row import Explanation
from tailrace.lag.lake import LakeStages
from tailrace.lag.stages import lake_stage
from tailrace.settings.settings import Settings
from tailrace_sink import read
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.delta.old_files import TableLog
from tailrace_sink.errors import LakeTaken, SinkError, StoreUnsafe
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.fix_object_store import SharedStore
from tests.sink.conftest import Lake
from tests.sink.daemon.test_samples import samples
from tests.sink.objects.proxy import Answer, Held, Pass, Request, busy
from tests.sink.objects.test_commit_files import accept_every_create

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

GO_ON = threading.Event()
STEPS = 7
ATTEMPTS = 20


def orders(source: Source) -> SourceTable:
    return source.table("orders", column(1, "id", "int", key=1), column(2, "v", "int"))


def change(source: Source, table: SourceTable, number: int) -> None:
    source.commit(lambda t: t.insert(table, id=number, v=number))
    source.publish()


def catch_up(sink: Sink, spark: SparkSession, source: Source) -> None:
    stream = ProgressStream(spark, sink.config, source.registry.schema_by_id, sink)
    stream.catch_up(GO_ON)
    sink.fold_tables(GO_ON)


def check(lake: Lake, source: Source) -> None:
    assert lake.cut() == source.cut()
    assert lake.logged_twice() == []
    versions = lake.commits()[-1]["tables"]
    for path, version in versions.items():
        log = TableLog(lake.spark, f"{lake.address}/{path}")
        assert log.newest >= version
        assert (log.written_ms(version) or 0) > 0
    cut = read(lake.spark, lake.address).as_of("latest")
    assert {row["id"] for row in cut.read("dbo.orders").collect()} == {
        key[0] for key in source.tables["orders"].rows
    }


@pytest.mark.slow("sinks start three times, each with its first reads of the store")
def test_a_sink_that_was_held_in_its_put_replaces_nothing(
    source: Source, lake: Lake, spark_with_store: SparkSession, store: SharedStore
):
    """It ends with LakeTaken at once, although it had looked before another took over."""
    table = orders(source)
    change(source, table, 1)
    lake.catch_up()
    older = lake.sink()
    older.open()
    change(source, table, 2)
    held = store.proxy.rule = Held(r"_tailrace/log/_delta_log/\d+\.json")
    told: list[BaseException] = []

    def run() -> None:
        try:
            catch_up(older, spark_with_store, source)
        except SinkError as error:
            told.append(error)

    writing = threading.Thread(target=run)
    writing.start()
    assert held.arrived.wait(120)
    lake.catch_up()
    held.go.set()
    writing.join(120)
    older.close()

    assert [type(error) for error in told] == [LakeTaken]
    check(lake, source)
    change(source, table, 3)
    lake.catch_up()
    check(lake, source)
    read_without_a_jvm(lake, source)
    read_as_on_the_page(lake, store)


@pytest.mark.slow("a sink starts for each step")
@pytest.mark.nightly(
    "test_kills.py breaks sinks off at these steps; to the store, one that broke off is one whose"
    " answer was lost, which the next test has at random"
)
def test_a_sink_that_breaks_off_at_each_step(source: Source, lake: Lake):
    table = orders(source)
    for at in range(STEPS):
        change(source, table, at)
        lake.break_off(at, merge_pool=1)
    lake.catch_up()
    check(lake, source)
    change(source, table, STEPS)
    lake.catch_up(bulk_changes=1, local_changes_max=0)  # written by pyarrow, not by Hadoop
    check(lake, source)


def catches_up(lake: Lake) -> bool:
    """Whether a sink gets through; otherwise it ends with an error after which one tries again."""
    try:
        lake.catch_up()
    except SinkError as error:
        if not error.retryable:
            raise
        return False
    return True


@pytest.mark.slow("sinks start until one gets through")
def test_lost_answers_and_a_busy_store_change_nothing(
    source: Source, lake: Lake, store: SharedStore
):
    """Of a hundred answers four are lost, of a hundred requests four refused, and half of the first
    commits' answers are lost; the attempts of the daemon follow."""
    chance = random.Random(1)
    table = orders(source)
    lost: list[str] = []

    def trouble(request: Request, pass_on: Pass) -> Answer | None:
        drawn = chance.random()
        if drawn < 0.04:
            return busy()
        answer = pass_on()
        if drawn > 0.96 or (is_first_commit(request) and drawn > 0.5):
            lost.append(request.path)
            return None
        return answer

    def is_first_commit(request: Request) -> bool:
        return request.is_conditional and request.path not in lost

    store.proxy.rule = trouble
    for number in range(2):
        change(source, table, number)
        assert any(catches_up(lake) for _ in range(ATTEMPTS)), "no attempt got through"
    assert any(re.search(r"_delta_log/\d+\.json", path) for path in lost)
    store.proxy.rule = lambda _request, pass_on: pass_on()
    check(lake, source)


def test_a_sink_does_not_start_on_a_store_that_ignores_the_condition(
    lake: Lake, store: SharedStore
):
    store.proxy.rule = accept_every_create
    sink = lake.sink()
    try:
        with pytest.raises(StoreUnsafe, match="accepted a second create"):
            sink.open()
    finally:
        sink.close()
    assert store.proxy.puts("_delta_log") == 0, "nothing was written but the proof"


def read_without_a_jvm(lake: Lake, source: Source) -> None:
    """``status``, ``lag`` and ``explain``, which get the store's options from the configuration."""
    config, closed_lsn = lake.config(), lake.commits()[-1]["through_lsn"]
    stage = lake_stage(Settings({}, lake.options))
    assert stage is not None
    assert stage.closed_lsn == closed_lsn
    stages = LakeStages(config)
    assert [of and of.closed_lsn for of in (stages.log(), stages.tables())] == [closed_lsn] * 2
    (table,) = source.tables.values()
    found = Explanation(table.name, {"id": 3})
    add_lake(found, LakeLook.at(config))
    assert found.lake_problem is None
    assert found.lake is not None
    assert (found.lake["id"], found.lake["v"]) == (3, 3)


def read_as_on_the_page(lake: Lake, store: SharedStore) -> None:
    """The sample of docs/object-stores.md."""
    (sample,) = samples("docs/object-stores.md")
    text = sample.replace("s3://lake/shop", lake.address.replace("s3a:", "s3:"))
    text = text.replace("dbo.orders", "shop.dbo.orders")
    text, count = re.subn(r"(?s)s3=\{.*?\}", f"s3={store.through_proxy!r}", text)
    assert count == 1
    told: dict[str, Any] = {}
    exec(compile(text, "sample", "exec"), told)  # noqa: S102 - what users paste
    assert told["cut"].read("shop.dbo.orders").count() == 3
