"""Trouble of one table stays that table's; a busy store costs a pause."""

from __future__ import annotations

import json
import threading

import pytest

from tailrace_sink.daemon.application import serve
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.fix_object_store import SharedStore
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_cuts import ID, Shop, once_is_enough
from tests.sink.objects.proxy import Answer, BusyFor, Pass, Request

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]
BUSY_S = 20.0
MINUTE_S = 60.0
A_MINUTE = pytest.mark.nightly("the data files of the first case")


@pytest.fixture
def shop(
    source: Source, lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    """A shop whose first cut is published."""
    found = Shop(source, lake, server)
    found.change(0)
    assert lake.catch_up() == 1
    once_is_enough(monkeypatch)
    return found


def carry(shop: Shop) -> None:
    config = shop.lake.config(apply_attempts=3, retry_backoff_max_s=0.25)
    serve(shop.lake._sink_spark, config, threading.Event(), once=True)


def carried(shop: Shop) -> dict[str, str]:
    """Run a sink until it has carried everything; return the reasons of stopped tables."""
    carry(shop)
    reasons: dict[str, str] = json.loads(shop.lake.commits()[-1]["stopped"])
    return reasons


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (r"/items/.*\.parquet$", "PUT POST"),
        pytest.param("", "GET HEAD PUT POST", marks=A_MINUTE),
        pytest.param(r"/metadata/", "GET HEAD PUT POST", marks=A_MINUTE),
    ],
    ids=["data files", "everything", "metadata"],
)
def test_a_store_that_is_busy_for_a_while_costs_a_pause(
    shop: Shop, store: SharedStore, path: str, methods: str
):
    shop.change(1)
    shop.lake.log_only()
    rule = store.proxy.rule = BusyFor(BUSY_S if methods == "PUT POST" else MINUTE_S, path, methods)
    # deltalake, which reads the commit table below, holds the proxy's process while it waits.
    direct, shop.lake.options["s3"] = shop.lake.options["s3"], store.through_proxy
    carry(shop)
    shop.lake.options["s3"] = direct
    assert rule.refused
    assert shop.lake.commits()[-1]["stopped"] == "{}"
    shop.check()


def test_a_name_that_somebody_has_stops_its_table_alone(shop: Shop):
    spark, name = shop.lake.spark, f"other.{shop.space}.items"
    spark.sql(f"DROP TABLE {name}")
    spark.sql(f"CREATE TABLE {name} (id INT) USING iceberg")
    shop.change(1)
    reasons = carried(shop)
    assert list(reasons) == [shop.items.topic]
    shop.change(2)
    assert list(carried(shop)) == [shop.items.topic]
    expected = shop.expected()[0]["orders"]
    assert {(row["id"],): row["note"] for row in shop.bare("orders")} == {
        key: row["note"] for key, row in expected.items()
    }

    # With the name free again, a snapshot brings the table back.
    spark.sql(f"DROP TABLE {name}")
    shop.source.publish(snapshotting=[shop.items])
    shop.source.snapshot(shop.items, list(shop.items.rows.values()))
    shop.source.publish()
    assert carried(shop) == {}
    shop.check()


def test_a_table_that_the_catalog_forbids_stops_alone_as_does_one_with_a_reserved_name(shop: Shop):
    odd = shop.source.table("odd", ID, column(2, "_pos", "int"))
    shop.source.commit(lambda t: t.insert(odd, id=1, _pos=1))
    shop.change(1)

    def rule(request: Request, pass_on: Pass) -> Answer | None:
        if request.path.partition("?")[0].endswith("/tables/items"):
            body = {"error": {"message": "denied", "type": "ForbiddenException", "code": 403}}
            kind = {"Content-Type": "application/json"}
            return Answer(403, kind, json.dumps(body).encode())
        return pass_on()

    shop.server.proxy.rule = rule
    reasons = carried(shop)
    assert set(reasons) == {shop.items.topic, odd.topic}
    assert "its rights on this table" in reasons[shop.items.topic]
    assert "column _pos: iceberg reserves this name" in reasons[odd.topic]
    assert len(shop.bare("orders")) == 2
