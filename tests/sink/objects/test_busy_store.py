"""A store that answers 503 for a minute costs a pause, whatever is asked of it."""

from __future__ import annotations

import threading

import pytest

from tailrace_sink.daemon.application import serve
from tests.envelopes.source import Source
from tests.fix_object_store import PATIENT_BUCKET, SharedStore
from tests.sink.conftest import Lake
from tests.sink.objects.proxy import BusyFor
from tests.sink.objects.test_stored_lake import change, check, orders

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.guarantee(13),
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]
BUSY_S = 60.0
ANY = "GET HEAD PUT POST"
A_MINUTE = pytest.mark.nightly("the first case")


@pytest.mark.slow("the store is busy for a minute")
@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("", ANY),
        pytest.param(r"/orders/[^_].*\.parquet$", "PUT POST", marks=A_MINUTE),
        pytest.param(r"/orders/[^_].*\.parquet$", "GET HEAD", marks=A_MINUTE),
        pytest.param(r"/orders/_delta_log/", ANY, marks=A_MINUTE),
        pytest.param(r"/_tailrace/", ANY, marks=A_MINUTE),
    ],
    ids=["everything", "writes of files", "reads of files", "a table's log", "the sink's own"],
)
def test_a_minute_of_503_costs_a_pause(
    source: Source, lake: Lake, store: SharedStore, path: str, methods: str
):
    lake.address = lake.options["lake"] = lake.address.replace("s3a://lake/", PATIENT_BUCKET)
    table = orders(source)
    change(source, table, 0)
    lake.catch_up()
    change(source, table, 1)
    source.commit(lambda t: t.update(table, (0,), v=7))
    source.publish()
    # Readers of the test hold the proxy's process while they wait, so they go past it.
    direct, lake.options["s3"] = lake.options["s3"], store.through_proxy
    rule = store.proxy.rule = BusyFor(BUSY_S, path, methods)
    serve(lake._sink_spark, lake.config(retry_backoff_max_s=1), threading.Event(), once=True)
    lake.options["s3"] = direct
    assert rule.refused
    assert lake.commits()[-1]["stopped"] == "{}"
    check(lake, source)
