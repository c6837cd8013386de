"""Sinks of a lake in an object store: a late PUT, lost answers, a busy store, and every step."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSelector, S3FileSystem
from pyspark.sql import SparkSession

from tailrace.explain.lake import LakeLook, add_lake
from tailrace.explain.row import Explanation
from tailrace.lag.lake import LakeStages
from tailrace.lag.stages import lake_stage
from tailrace.settings.settings import Settings
from tailrace.spark import changes_stream
from tailrace_sink import read
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.delta import old_files, table_maintenance
from tailrace_sink.delta.old_files import TableLog
from tailrace_sink.delta.table_maintenance import compact
from tailrace_sink.errors import LakeTaken, SinkError, StoreUnsafe
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.reading.cut_errors import CutForgotten
from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.fix_object_store import IMPATIENT_BUCKET, SharedStore
from tests.sink.both_readers import assert_same_cut
from tests.sink.conftest import Lake
from tests.sink.daemon.test_samples import samples
from tests.sink.fold.test_storage import DAY_S, FIRST_S, vacuum_at
from tests.sink.objects.proxy import Answer, Held, Pass, Request, busy, straight
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


def hold_and_take_over(
    lake: Lake, source: Source, spark: SparkSession, store: SharedStore, at: str
) -> None:
    """Hold a sink in a PUT until another took over; it ends with LakeTaken at once.

    It had looked before: the lake was its own when it began to write.
    """
    older = lake.sink()
    older.open()
    change(source, source.tables["orders"], len(source.tables["orders"].rows) + 1)
    held = store.proxy.rule = Held(at)
    told: list[BaseException] = []

    def run() -> None:
        try:
            catch_up(older, spark, source)
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


@pytest.mark.slow("five sinks start, each with its first reads of the store")
def test_a_sink_that_was_held_in_its_put_replaces_nothing(
    source: Source,
    lake: Lake,
    spark_with_store: SparkSession,
    store: SharedStore,
    monkeypatch: pytest.MonkeyPatch,
):
    """Neither in the log nor in a table; nor does the upkeep break a cut that others read."""
    lake.options["table_properties"] = {"delta.checkpointInterval": "2"}
    orders(source)
    hold_and_take_over(lake, source, spark_with_store, store, r"_tailrace/log/_delta_log/\d+\.json")
    hold_and_take_over(lake, source, spark_with_store, store, r"dbo/orders/_delta_log/\d+\.json")
    read_as_on_the_page(lake, store)
    read_without_a_jvm(lake, source)
    tend_while_cuts_are_read(lake, source, spark_with_store, monkeypatch)
    change(source, source.tables["orders"], 77)
    lake.log_only()
    cut = read(lake.spark, lake.address).as_of("latest")
    assert 77 in assert_same_cut(cut, "dbo.orders", store.options)["id"].to_pylist()
    assert 77 in streamed(lake, store)


def streamed(lake: Lake, store: SharedStore) -> list[int]:
    """Ids of new rows by a stream of Spark, whose plans do not show the secret that it gets."""
    options = dict(store.options)
    secret = Path(options.pop("secret_key_file")).read_text("utf-8").strip()
    s3 = options | {"secret_key": secret}
    stream = changes_stream(lake.spark, lake.address, "dbo.orders", s3=s3)
    ids: list[int] = []
    writer = stream.writeStream.option("checkpointLocation", f"{lake.path}/checkpoint")
    writer = writer.foreachBatch(
        lambda batch, _: ids.extend(row["id"] for row in batch.select("after.id").collect())
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    plans = (stream._jdf.queryExecution().toString(), query._jsq.explainInternal(True))
    assert all("tailrace" in plan or "Python" in plan for plan in plans)
    stored = [f.read_text("utf-8") for f in Path(lake.path, "checkpoint").rglob("[0-9m]*")]
    assert not any(secret in text for text in (*plans, str(query.recentProgress), *stored))
    return ids


def read_without_a_jvm(lake: Lake, source: Source) -> None:
    """``status``, ``lag`` and ``explain``, which get the store's options from the configuration."""
    config, closed_lsn = lake.config(), lake.commits()[-1]["through_lsn"]
    stage = lake_stage(Settings({}, lake.options))
    assert stage is not None
    assert stage.closed_lsn == closed_lsn
    stages = LakeStages(config)
    assert [of and of.closed_lsn for of in (stages.log(), stages.tables())] == [closed_lsn] * 2
    (table,) = source.tables.values()
    found = Explanation(table.name, {"id": 2})
    add_lake(found, LakeLook.at(config))
    assert found.lake_problem is None
    assert found.lake is not None
    assert (found.lake["id"], found.lake["v"]) == (2, 2)


class Reader:
    """Reads cuts of a table without a JVM, again and again, while the block runs.

    Args:
        cuts: rows by key, by the table's version.
    """

    def __init__(self, lake: Lake, cuts: Mapping[int, Mapping[Key, Row]]) -> None:
        self.count = 0
        self.wrong: list[object] = []
        self._lake, self._cuts = lake, cuts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        table = self._lake.source.tables["orders"]
        while not self._stop.is_set():
            for version, wanted in self._cuts.items():
                try:
                    found = self._lake.by_key(table, version)
                except (DeltaError, OSError) as error:
                    self.wrong.append(error)
                    continue
                self.wrong += [] if found == wanted else [(version, found, wanted)]
                self.count += 1


def tend_while_cuts_are_read(
    lake: Lake, source: Source, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction, VACUUM and removal of log entries, while the older of two kept cuts is read.

    Then the lake has the files that its kept cuts need, and no others.
    """
    monkeypatch.setattr(old_files, "SLACK_MS", 0)
    monkeypatch.setattr(old_files, "run_vacuum", vacuum_at)
    monkeypatch.setattr(table_maintenance, "COMMITS_BETWEEN", 1)
    monkeypatch.setattr(table_maintenance, "compact", partial(compact, files_min=2))
    now = [FIRST_S]
    config = lake.config(retention={"days": 1000, "cuts": 2})
    sink = Sink(spark, config, source.registry.schema_by_id, now_s=lambda: now[0])
    table, kept = source.tables["orders"], dict[int, Any]()

    def fold() -> int:
        source.publish()
        catch_up(sink, spark, source)
        (version,) = lake.commits()[-1]["tables"].values()
        kept[version] = source.cut()["orders"]
        return int(version)

    def update_all(value: int) -> None:
        source.commit(*(partial(_update, table=table, key=key, v=value) for key in [*table.rows]))
        fold()

    try:
        sink.open()
        update_all(100)
        forgotten = lake.commits()[-1]["through_lsn"]
        kept.clear()
        update_all(200)
        before = files_of(lake, "shop/dbo/orders")
        # The store's clock may be coarse: what left with the oldest kept version may be there.
        needed = files_at(lake, min(kept) - 1)
        now[0] += 8 * DAY_S
        with Reader(lake, dict(kept)) as reader:
            source.commit(lambda t: t.insert(table, id=300, v=300))
            small = files_at(lake, fold())
            sink.fold.tidy(GO_ON.is_set)
            count = reader.count
        assert reader.wrong == []
        assert count > 0
    finally:
        sink.close()
    for version, wanted in kept.items():
        assert lake.by_key(table, version) == wanted
    newest = TableLog(lake.spark, lake.location("orders")).newest
    assert (len(small), len(files_at(lake, newest))) == (2, 1), "small files are one now"
    assert lake.by_key(table) == source.cut()["orders"]
    with pytest.raises(CutForgotten, match=r"sink\.retention keeps .* at most 2 cuts"):
        read(lake.spark, lake.address).as_of(lsn=forgotten)
    after = files_of(lake, "shop/dbo/orders")
    assert f"{0:020}.json" in before - after
    assert data_of(after) < data_of(before | after)
    needed = needed.union(*(files_at(lake, of) for of in range(min(kept), newest + 1)))
    assert data_of(after) <= needed
    check(lake, source)


def _update(transaction: Transaction, *, table: SourceTable, key: Key, v: int) -> None:
    transaction.update(table, key, v=v)


def files_of(lake: Lake, path: str) -> set[str]:
    """Names of all objects below a path of the lake."""
    store = S3Options.model_validate(lake.options["s3"])
    folder = f"{lake.address}/{path}".removeprefix("s3a://")
    listed = S3FileSystem(**store.pyarrow()).get_file_info(FileSelector(folder, recursive=True))
    return {info.base_name for info in listed}


def data_of(names: Iterable[str]) -> set[str]:
    """Those of them that are a table's data."""
    return {name for name in names if name.startswith("part-")}


def files_at(lake: Lake, version: int) -> set[str]:
    """Names of a version's files, as Delta knows them."""
    versions = lake.spark.read.format("delta").option("versionAsOf", version)
    return {file.rpartition("/")[2] for file in versions.load(lake.location("orders")).inputFiles()}


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


class Stalls:
    """Delays every answer, and never answers the first PUT of some paths.

    Every second of these PUTs arrives, so its client does not know that it was written.
    """

    PATHS = (
        r"_tailrace/log/_delta_log/\d+\.json",
        r"dbo/orders/[^_].*\.parquet",
        r"dbo/orders/_delta_log/\d+\.json",
        r"_tailrace/commits/_delta_log/\d+\.json",
    )

    def __init__(self) -> None:
        self.stalled: list[str] = []
        self.over = threading.Event()
        self._taking = threading.Lock()

    def __call__(self, request: Request, pass_on: Pass) -> Answer | None:
        self.over.wait(0.03)
        with self._taking:
            left = [path for path in self.PATHS if path not in self.stalled]
            is_put = request.method == "PUT"
            found = next((path for path in left if is_put and re.search(path, request.path)), None)
            if found is not None:
                self.stalled.append(found)
                arrives = len(self.stalled) % 2 == 0
        if found is None:
            return pass_on()
        if arrives:
            pass_on()
        assert self.over.wait(120), "the client ended before"
        return None


@pytest.mark.guarantee(13)
@pytest.mark.slow("sinks start until one gets through")
def test_lost_answers_and_a_busy_store_change_nothing(
    source: Source, lake: Lake, store: SharedStore
):
    """Of a hundred answers four are lost, of a hundred requests four refused, and half of the first
    commits' answers are lost; the attempts of the daemon follow.

    Then the store is slow, and stalls in a PUT of each kind: the client's time limit ends it.
    """
    lake.address = lake.options["lake"] = lake.address.replace("s3a://lake/", IMPATIENT_BUCKET)
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

    stalls = Stalls()
    for number, rule in enumerate((trouble, stalls)):
        store.proxy.rule = rule
        change(source, table, number)
        try:
            assert any(catches_up(lake) for _ in range(ATTEMPTS)), "no attempt got through"
        finally:
            stalls.over.set()
    assert any(re.search(r"_delta_log/\d+\.json", path) for path in lost)
    assert sorted(stalls.stalled) == sorted(Stalls.PATHS)
    store.proxy.rule = straight
    check(lake, source)


@pytest.mark.guarantee(17)
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


def read_as_on_the_page(lake: Lake, store: SharedStore) -> None:
    """The sample of docs/object-stores.md."""
    (sample,) = samples("docs/object-stores.md")
    text = sample.replace("s3://lake/shop", lake.address.replace("s3a:", "s3:"))
    text = text.replace("dbo.orders", "shop.dbo.orders")
    text, count = re.subn(r"(?s)s3=\{.*?\}", f"s3={store.through_proxy!r}", text)
    assert count == 1
    told: dict[str, Any] = {}
    exec(compile(text, "sample", "exec"), told)  # noqa: S102 - what users paste
    assert told["cut"].read("shop.dbo.orders").count() == len(lake.source.tables["orders"].rows)
