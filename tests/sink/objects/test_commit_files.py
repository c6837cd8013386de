"""Commit files in an object store: of two drivers one creates each, whatever the network does.

A driver is a class loader of its own here: the locks of Delta's classes are static, so two loaders
share as little as two JVMs.
"""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyarrow.fs import S3FileSystem
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tailrace_sink.errors import StoreUnavailable, StoreUnsafe, StoreUnusable
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.spark import s3_log_store
from tailrace_sink.spark.jvm_errors import cause_classes
from tailrace_sink.spark.s3_log_store import prove_store
from tests.fix_object_store import SharedStore
from tests.sink.objects.proxy import Answer, Held, Pass, Request, busy, denied, without_bucket

pytestmark = [pytest.mark.spark, pytest.mark.guarantee(17)]

OURS = "io.tailrace.delta.ConditionalLogStore"
DELTAS = "io.delta.storage.S3SingleDriverLogStore"
TAKEN = "java.nio.file.FileAlreadyExistsException"


class Driver:
    """A log store with classes of its own, called by reflection: Py4J keeps methods by name."""

    def __init__(self, spark: SparkSession, name: str = OURS) -> None:
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        shared = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        known = [shared.loadClass(of) for of in (OURS, DELTAS)]
        urls = [of.getProtectionDomain().getCodeSource().getLocation() for of in known]
        found = self._jvm.java.net.URLClassLoader(
            self._array(self._jvm.java.net.URL, urls), shared.getParent()
        ).loadClass(name)
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._store = found.getConstructors()[0].newInstance(self._objects([self._conf]))
        (self._write,) = (
            method
            for method in found.getMethods()
            if method.getName() == "write" and not method.isBridge()
        )

    def write(self, path: str, line: str) -> str | None:
        """Create a file; returns the class of the error, None if it was created."""
        lines = self._jvm.java.util.ArrayList()
        lines.add(line)
        to = self._jvm.org.apache.hadoop.fs.Path(path)
        arguments = self._objects([to, lines.iterator(), False, self._conf])
        try:
            self._write.invoke(self._store, arguments)
        except Py4JJavaError as error:
            return cause_classes(error)[1]  # reflection's own error comes first
        return None

    def _objects(self, values: list[Any]) -> Any:
        return self._array(self._jvm.java.lang.Object, values)

    def _array(self, kind: Any, values: list[Any]) -> Any:
        made = self._gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made


def read(store: SharedStore, path: str) -> str:
    """What the store has, past the proxy."""
    files = S3FileSystem(**S3Options.model_validate(store.options).pyarrow())
    with files.open_input_stream(path.removeprefix("s3a://")) as stream:
        return str(stream.read().decode())


@pytest.fixture
def path() -> str:
    return f"s3a://lake/{uuid.uuid4().hex}/_delta_log/00000000000000000001.json"


def both_commit(spark: SparkSession, store: SharedStore, path: str, name: str) -> bool:
    """Whether two drivers both create a file: one is held in its PUT until the other is done."""
    older, newer = Driver(spark, name), Driver(spark, name)
    held = store.proxy.rule = Held(r"_delta_log/.*\.json")
    outcome: list[str | None] = []
    writing = threading.Thread(target=lambda: outcome.append(older.write(path, "older")))
    writing.start()
    assert held.arrived.wait(60)
    assert newer.write(path, "newer") is None
    assert read(store, path) == "newer\n"
    held.go.set()
    writing.join(60)
    if outcome == [None]:
        return True
    assert outcome == [TAKEN]
    assert read(store, path) == "newer\n"
    return False


def test_a_late_put_does_not_replace_a_commit(
    spark_with_store: SparkSession, store: SharedStore, path: str
):
    assert not both_commit(spark_with_store, store, path, OURS)


def test_deltas_own_log_store_loses_a_commit(
    spark_with_store: SparkSession, store: SharedStore, path: str
):
    """The mutant: what the test above holds is false without our log store."""
    assert both_commit(spark_with_store, store, path, DELTAS)


def test_a_write_whose_answer_is_lost_is_recognised(
    spark_with_store: SparkSession, store: SharedStore, path: str
):
    lost: list[Request] = []

    def lose_first(request: Request, pass_on: Pass) -> Answer | None:
        answer = pass_on()
        if request.method == "PUT" and not lost:
            lost.append(request)
            return None
        return answer

    store.proxy.rule = lose_first
    driver = Driver(spark_with_store)

    assert driver.write(path, "ours") is None
    assert len(lost) == 1
    assert store.proxy.puts("_delta_log") > 1, "the client wrote again"
    assert read(store, path) == "ours\n"
    assert driver.write(path, "another's") == TAKEN


def test_a_storm_of_503_delays_a_commit(
    spark_with_store: SparkSession, store: SharedStore, path: str
):
    left = [10]

    def storm(_request: Request, pass_on: Pass) -> Answer:
        left[0] -= 1
        return busy() if left[0] >= 0 else pass_on()

    store.proxy.rule = storm
    driver = Driver(spark_with_store)

    assert driver.write(path, "ours") is None
    assert left[0] < 0
    assert read(store, path) == "ours\n"


def test_a_store_that_refuses_every_write_is_an_error_and_no_commit(
    spark_with_store: SparkSession, store: SharedStore, path: str
):
    def refuse(request: Request, pass_on: Pass) -> Answer:
        return denied(request, pass_on) if request.method == "PUT" else pass_on()

    store.proxy.rule = refuse
    driver = Driver(spark_with_store)
    assert driver.write(path, "ours") == "java.nio.file.AccessDeniedException"

    store.proxy.rule = lambda _request, pass_on: pass_on()
    assert driver.write(path, "another's") is None


def test_the_store_is_proven(spark_with_store: SparkSession, store: SharedStore):
    lake = f"s3a://lake/{uuid.uuid4().hex}"
    prove_store(spark_with_store, lake)

    assert store.proxy.puts("_tailrace/proof-") == 2
    assert all(one.is_conditional for one in store.proxy.seen if one.method == "PUT")
    deleted = [one for one in store.proxy.seen if one.method in {"DELETE", "POST"}]
    assert deleted, "the object is removed"


def test_a_store_that_accepts_the_second_create_is_refused(
    spark_with_store: SparkSession, store: SharedStore
):
    store.proxy.rule = accept_every_create
    with pytest.raises(StoreUnsafe) as raised:
        prove_store(spark_with_store, f"s3a://lake/{uuid.uuid4().hex}")

    told = str(raised.value)
    assert f"the store {store.proxy.url} accepted a second create" in told
    assert "Fix: use a release of the store that honours it" in told
    assert not raised.value.retryable


@pytest.mark.parametrize(
    ("setting", "value", "error", "told"),
    [
        ("access.key", "nobody", StoreUnusable, "refused the request (The access key ID"),
        ("endpoint", "http://127.0.0.1:1", StoreUnavailable, "ConnectException: Connection refuse"),
        ("endpoint", "http://nowhere.invalid", StoreUnavailable, "UnknownHostException: nowhere"),
    ],
)
def test_a_store_that_cannot_be_used_is_named_at_once(
    spark_with_store: SparkSession,
    store: SharedStore,
    setting: str,
    value: str,
    error: type[StoreUnusable],
    told: str,
):
    settings: Any = spark_with_store.sparkContext._jsc.hadoopConfiguration()
    before = settings.get(f"fs.s3a.{setting}")
    settings.set(f"fs.s3a.{setting}", value)
    try:
        with pytest.raises(error) as raised:
            prove_store(spark_with_store, f"s3a://lake/{uuid.uuid4().hex}")
    finally:
        settings.set(f"fs.s3a.{setting}", before)
    assert told in str(raised.value)
    assert f"sink.s3.{setting.replace('.', '_')}" in raised.value.fix


def test_a_store_that_does_not_answer_is_named_soon(
    spark_with_store: SparkSession, store: SharedStore, monkeypatch: pytest.MonkeyPatch
):
    go_on = threading.Event()
    monkeypatch.setitem(s3_log_store._IMPATIENT, "connection.timeout", "1s")

    def stall(request: Request, _pass_on: Pass) -> Answer | None:
        assert go_on.wait(60)
        return None

    store.proxy.rule = stall
    try:
        with pytest.raises(StoreUnavailable, match=r"SocketTimeoutException.*sink\.s3\.endpoint"):
            prove_store(spark_with_store, f"s3a://lake/{uuid.uuid4().hex}")
    finally:
        go_on.set()


def test_a_bucket_that_is_not_there_is_named(spark_with_store: SparkSession, store: SharedStore):
    """SeaweedFS creates it, so the proxy answers as AWS does."""
    store.proxy.rule = without_bucket
    with pytest.raises(StoreUnusable, match=r"has no bucket nowhere\. Fix: create the bucket"):
        prove_store(spark_with_store, f"s3a://nowhere/{uuid.uuid4().hex}")


def test_deltas_own_log_store_is_refused_and_another_is_not_proven(
    spark_with_store: SparkSession, store: SharedStore, monkeypatch: pytest.MonkeyPatch
):
    context, lake = spark_with_store.sparkContext, f"s3a://lake/{uuid.uuid4().hex}"
    setting = "spark.delta.logStore.s3a.impl"

    def name(log_store: str) -> None:
        conf = context.getConf().set(setting, log_store)
        monkeypatch.setattr(context, "getConf", lambda: conf)

    name(DELTAS)
    with pytest.raises(StoreUnsafe, match=rf"locks commits within .* Fix: remove {setting} "):
        prove_store(spark_with_store, lake)
    name("io.delta.storage.S3DynamoDBLogStore")
    with capture_logs() as logged:
        prove_store(spark_with_store, lake)
    assert [event["event"] for event in logged] == ["log_store_not_proven"]
    assert setting in logged[0]["fix"]
    assert store.proxy.seen == [], "nothing is created to prove it"


def accept_every_create(_request: Request, pass_on: Pass) -> Answer:
    """What a store does that does not know If-None-Match."""
    answer = pass_on()
    return Answer(200, {"ETag": '"1"'}, b"") if answer.status == 412 else answer
