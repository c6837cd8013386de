"""Whatever breaks, and wherever: the lake goes on from its last commit row."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from structlog.testing import capture_logs

from tailrace_compose.local.java import SPARK_QUICK_START
from tailrace_emulator.testing.process import free_port
from tailrace_service.status import DaemonStatus
from tailrace_sink.daemon.application import serve
from tailrace_sink.watch.metrics import SinkMetrics
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.fix_certificates import Chain
from tests.fix_kafka import SharedBroker
from tests.sink.conftest import Interrupted, Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

WAIT_S = 180.0


def two_tables(source: Source) -> tuple[SourceTable, SourceTable]:
    columns = (column(1, "id", "int", key=1), column(2, "value", "int"))
    return source.table("a", *columns), source.table("b", *columns)


def fill(source: Source) -> tuple[SourceTable, SourceTable]:
    a, b = two_tables(source)
    source.commit(*(lambda t, n=n: t.insert(a, id=n, value=n) for n in range(4)))
    source.commit(*(lambda t, n=n: t.insert(b, id=n, value=n) for n in range(4)))
    source.publish()
    return a, b


def change(source: Source, a: SourceTable, b: SourceTable) -> None:
    """A batch in which every kind of change could go wrong when it is applied twice."""
    source.commit(
        lambda t: t.update(a, (1,), value=10),
        lambda t: t.delete(a, (2,)),
        lambda t: t.update(b, (1,), id=11),
        lambda t: t.delete(b, (2,)),
        lambda t: t.insert(b, id=2, value=22),
    )
    source.publish()


@pytest.mark.guarantee(13)
@pytest.mark.slow("three starts of a sink on a lake of its own")
@pytest.mark.parametrize(
    "rewrite_below_bytes",
    [
        0,
        pytest.param(
            131_072,
            marks=pytest.mark.nightly("test_kills.py breaks off where files are written again"),
        ),
    ],
    ids=["vectors", "rewritten"],
)
def test_a_batch_that_broke_off_is_applied_again(
    source: Source, lake: Lake, rewrite_below_bytes: int
):
    """First between its two tables, then before its commit row: with deletion vectors the finished
    tables' MERGEs change no row; otherwise the same rows once more."""
    a, b = fill(source)
    lake.catch_up()
    change(source, a, b)
    merged: list[str] = []

    def interrupt_after(tables: int) -> Callable[[str, str], None]:
        merged.clear()

        def interrupt(step: str, path: str) -> None:
            if step in ("merged", "committed"):
                merged.append(path)
            if len(merged) == tables:
                raise Interrupted

        return interrupt

    with pytest.raises(Interrupted):
        lake.catch_up(interrupt_after(2), merge_pool=1, rewrite_below_bytes=rewrite_below_bytes)
    assert len(lake.commits()) == 1
    begun = [sorted(lake.raw(name), key=lambda row: row["id"]) for name in "ab"]

    assert lake.catch_up(merge_pool=1, rewrite_below_bytes=rewrite_below_bytes) == 1
    versions = lake.version("a"), lake.version("b")
    assert [sorted(lake.raw(name), key=lambda row: row["id"]) for name in "ab"] == begun
    assert lake.cut() == source.cut()
    assert lake.commits()[-1]["tables"] == {"shop/dbo/a": versions[0], "shop/dbo/b": versions[1]}


KILLED_SINK = """
import os, signal, sys, threading
from tailrace_compose.local.jars import spark_jars
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.daemon.start import run

def kill(step, path):
    if step == "merged":
        os.kill(os.getpid(), signal.SIGKILL)

config = SinkConfig.model_validate_json(sys.argv[1])
run(config, spark_jars(), threading.Event(), hook=kill)
"""


@pytest.mark.slow("starts the sink as a process, kills it and starts it again")
@pytest.mark.nightly(
    "test_a_batch_that_broke_off_is_applied_again breaks off at the same step;"
    " tests/end_to_end/test_pipeline.py kills the sink's process"
)
def test_killed_between_two_tables(source: Source, lake: Lake, tmp_path: Path):
    """A true kill -9 of the whole process after the first MERGE of a batch."""
    a, b = fill(source)
    lake.catch_up()
    change(source, a, b)
    config = lake.config(
        merge_pool=1,
        spark={
            "spark.master": "local[2]",
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": SPARK_QUICK_START,
            "spark.local.dir": str(tmp_path / "local"),
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        },
    )
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_SINK, config.model_dump_json()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.wait(WAIT_S) == -signal.SIGKILL
    finally:
        # PySpark's JVM outlives a killed Python until it notices the closed pipe.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert len(lake.commits()) == 1

    assert lake.catch_up() == 1
    assert lake.cut() == source.cut()


class Served:
    """A sink that streams in a thread until stopped."""

    def __init__(self, spark: SparkSession, lake: Lake, **options: Any) -> None:
        self.metrics = SinkMetrics()
        self.stop = threading.Event()
        self.ready = threading.Event()
        self.batches = threading.Semaphore(0)
        self.failure: BaseException | None = None

        def target() -> None:
            try:
                serve(
                    spark,
                    lake.config(**options),
                    self.stop,
                    on_ready=self.ready.set,
                    hook=self._hook,
                    metrics=self.metrics,
                )
            except Exception as error:  # noqa: BLE001 - shown by the test's own thread
                self.failure = error
                self.ready.set()

        self.thread = threading.Thread(target=target)

    def _hook(self, step: str, _path: str) -> None:
        if step == "committed":
            self.batches.release()

    def __enter__(self) -> Served:
        self.thread.start()
        assert self.ready.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        assert self.failure is None, self.failure

    def wait_for_retry(self, error: str) -> None:
        """Wait until the sink has met an error and is about to try again."""
        deadline = time.monotonic() + WAIT_S
        while not self.metrics.registry.get_sample_value(
            "tailrace_sink_retries_total", {"error": error}
        ):
            assert time.monotonic() < deadline, self.failure
            self.stop.wait(0.1)

    def wait_for_batch(self) -> None:
        assert self.batches.acquire(timeout=WAIT_S), self.failure


def over_tls(broker: SharedBroker, chain: Chain) -> dict[str, Any]:
    """Options of Kafka for Java's clients, with certificates on both sides."""
    return {
        "bootstrap": broker.tls_bootstrap,
        "poll_timeout_s": 3,
        "extra": {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(chain.root),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(chain.client.both),
        },
    }


@pytest.mark.slow("a sink streams three times, over TLS")
def test_streaming_goes_on_after_a_stop_and_a_lost_checkpoint_all_of_it_over_tls(
    source: Source, lake: Lake, spark: SparkSession, shared_broker: SharedBroker, chain: Chain
):
    a, b = fill(source)
    lake.options["kafka"] = over_tls(shared_broker, chain)
    port, trusted = free_port(), ssl.create_default_context(cafile=str(chain.root))
    shown = {"http_certificate": str(chain.server.chain), "http_key": str(chain.server.key)}
    with Served(spark, lake, metrics_port=port, **shown) as served:
        served.wait_for_batch()
        source.commit(lambda t: t.insert(a, id=100, value=1))
        source.publish()
        served.wait_for_batch()
        with httpx.Client(
            base_url=f"https://127.0.0.1:{port}", verify=trusted, trust_env=False
        ) as client:
            assert client.get("/health").text == "ok\n"
            assert client.get("/ready").text == "running\n"
            status = DaemonStatus.from_json(client.get("/status").json())
            assert "tailrace_sink_cuts_total" in client.get("/metrics").text
    closed = lake.commits()[-1]["through_lsn"]
    assert (status.closed_lsn, status.log_lsn) == (closed, closed)
    assert {(t.state, t.lsn, t.log_lsn) for t in status.tables} == {("followed", closed, closed)}
    assert {t.table for t in status.tables} == {f"dbo.{name}" for name in ("a", "b")}
    assert (status.errors, status.lag_s is None) == ((), False)
    assert lake.cut() == source.cut()
    assert not (lake.path / "lake/_tailrace/warm_up").exists(), "what waits comes first"

    # As a kill in the middle of a micro-batch leaves it: planned, and not known as done.
    done = Path(lake.config().progress_checkpoint, "commits")
    max(done.glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
    source.commit(lambda t: t.delete(a, (100,)))
    source.publish()
    with capture_logs() as told, Served(spark, lake) as served:
        served.wait_for_batch()
        source.commit(lambda t: t.insert(a, id=101, value=1))
        source.publish()
        served.wait_for_batch()
    lsns = dict.fromkeys(("log_lsn", "closed_lsn"), lake.commits()[-1]["through_lsn"])
    ended = [event for event in told if event["event"] == "stopped"]
    assert ended == [{"event": "stopped", "log_level": "info", **lsns}]
    sample = served.metrics.registry.get_sample_value
    assert sample("tailrace_sink_retries_total", {"error": "ApplyFailed"}) is None
    assert lake.cut() == source.cut()

    shutil.rmtree(lake.config().progress_checkpoint)
    with Served(spark, lake) as served:
        change(source, a, b)
        served.wait_for_batch()
    assert lake.cut() == source.cut()
    assert len(lake.commits()) == 5
    sample = served.metrics.registry.get_sample_value
    assert sample("tailrace_sink_batches_total") == 1
    assert sample("tailrace_sink_changes_total") == 6
    assert sample("tailrace_sink_table_seconds_count", {"table": "shop.dbo.b"}) == 1


def test_a_micro_batch_that_begins_during_the_stop_does_not_hold_it_up(
    spark: SparkSession, source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    """Spark waits for the micro-batch when a query is stopped, so that must not wait for us."""
    a, b = fill(source)
    begun = threading.Event()
    for_each, stop_query = DataStreamWriter.foreachBatch, StreamingQuery.stop

    def noted(writer: DataStreamWriter, function: Callable[[Any, int], None]) -> Any:
        def begin(frame: Any, number: int) -> None:
            begun.set()
            function(frame, number)

        return for_each(writer, begin)

    def stop_in_a_batch(query: StreamingQuery) -> None:
        begun.clear()
        change(source, a, b)
        assert begun.wait(WAIT_S)
        stop_query(query)

    monkeypatch.setattr(DataStreamWriter, "foreachBatch", noted)
    monkeypatch.setattr(StreamingQuery, "stop", stop_in_a_batch)
    with Served(spark, lake) as served:
        served.wait_for_batch()
        assert begun.wait(WAIT_S)  # the query runs; its first micro-batch has nothing new
    assert len(lake.commits()) == 1
    # What came during the stop is there at the next start.
    assert lake.catch_up() == 1
    assert lake.cut() == source.cut()


def test_it_waits_for_the_publisher_to_make_the_topics(
    lake: Lake, spark: SparkSession, kafka: str, registry: str
):
    with Served(spark, lake, prefix="late", retry_backoff_max_s=0.5) as served:
        served.wait_for_retry("TopicUnknown")
        late = Source(kafka, registry, prefix="late")
        try:
            table = late.table("t", column(1, "id", "int", key=1))
            late.commit(lambda t: t.insert(table, id=1))
            late.publish()
        finally:
            late.close()
        served.wait_for_batch()
    assert lake.rows("t") == [{"id": 1}]
