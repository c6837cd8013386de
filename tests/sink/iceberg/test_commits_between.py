"""Somebody else commits to tables of the catalog while each batch is staged."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.iceberg.names import TableId
from tests.envelopes.source import Source
from tests.envelopes.tables import Row
from tests.envelopes.transaction import Transaction
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_cuts import EVERY_KIND, Shop, once_is_enough

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

Foreign = Callable[[], object]
ONE_ATTEMPT = {"apply_attempts": 1, "retry_backoff_max_s": 0.25}


@pytest.fixture
def shop(
    source: Source, lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    once_is_enough(monkeypatch)
    return Shop(source, lake, server)


def meanwhile(
    commits: Mapping[str, Foreign], *, times: int = 1 << 30
) -> Callable[[str, str], None]:
    """A hook: others commit to a table each time it is staged, up to some times each."""
    left = dict.fromkeys(commits, times)

    def hook(step: str, path: str) -> None:
        name = path.rpartition("/")[2]
        if step == "merged" and left.get(name, 0) > 0:
            left[name] -= 1
            commits[name]()

    return hook


def appends_nothing(shop: Shop, name: str) -> Foreign:
    """A commit without files, as a catalog makes them to sign a table."""
    return lambda: load(shop, name).newFastAppend().commit()


def load(shop: Shop, name: str) -> Any:
    return loaded(shop.lake, shop.space, name)


def loaded(lake: Lake, space: str, name: str) -> Any:
    """A table of Iceberg's Java library, past the sink's proxy."""
    jvm: Any = lake.spark._jvm
    manager: Any = lake.spark._jsparkSession.sessionState().catalogManager()
    parts = lake.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 2)
    parts[0], parts[1] = space, name
    identifier = jvm.org.apache.iceberg.catalog.TableIdentifier.of(parts)
    return manager.catalog("other").icebergCatalog().loadTable(identifier)


def rewrites(shop: Shop, name: str) -> Foreign:
    """A compaction of all files."""
    return lambda: shop.lake.spark.sql(
        f"CALL other.system.rewrite_data_files(table => '{shop.space}.{name}',"
        " options => map('rewrite-all', 'true'))"
    )


def runs(shop: Shop, name: str, statement: str) -> Foreign:
    full = TableId((shop.space,), name).sql("other")
    return lambda: shop.lake.spark.sql(statement.format(t=full))


def staged_again(logs: Iterable[MutableMapping[str, Any]]) -> list[str]:
    return [of["table"] for of in logs if of["event"] == "lake_table_staged_again"]


def adopted(logs: Iterable[MutableMapping[str, Any]]) -> set[str]:
    return {of["table"] for of in logs if of["event"] == "foreign_commits_adopted"}


def many_items() -> list[Row]:
    return [{"id": id_, "at": None, "n": id_ % 7} for id_ in range(1000, 1100)]


def insert_item(shop: Shop, t: Transaction, **values: Any) -> None:
    t.insert(shop.items, **values)


@pytest.mark.slow("two starts of a sink over a catalog")
def test_a_catalog_that_commits_during_each_batch_costs_no_attempt(shop: Shop):
    lake = shop.lake
    shop.change(0)
    lake.catch_up()
    commits = {name: appends_nothing(shop, name) for name in (*shop.keyed, "log")}
    with closing(lake.sink(meanwhile(commits), **ONE_ATTEMPT)) as sink:
        sink.open()
        schema_by_id = shop.source.registry.schema_by_id
        stream = ProgressStream(lake._sink_spark, sink.config, schema_by_id, sink)
        for number in range(1, 4):
            shop.change(number)
            stream.catch_up(threading.Event())
            assert sink.fold_tables(threading.Event()) == 1
            shop.check()
    assert lake.commits()[-1]["stopped"] == "{}"
    shop.check_verified()


@pytest.mark.slow("five starts of a sink over a catalog, with compactions")
def test_compactions_during_a_batch_cost_no_attempt(shop: Shop):
    """Of appended rows, merged rows, companions, and a snapshot in bulk."""
    lake = shop.lake
    lake.options |= ONE_ATTEMPT | {"kinds": EVERY_KIND}
    for number in range(3):
        shop.change(number)
    lake.catch_up()
    every = {name: rewrites(shop, name) for name in (*shop.keyed, "log")}

    shop.change(3)
    with capture_logs() as logs:
        assert lake.catch_up(meanwhile(every, times=2)) == 1
    shop.check()
    assert sorted(staged_again(logs)) == ["shop/dbo/items"] * 2 + ["shop/dbo/orders"] * 2
    assert adopted(logs) >= {f"{shop.space}.log"}, "what is only appended stands on a compaction"

    # In bulk: as many compactions as stages, and a snapshot that replaces what was there.
    shop.source.snapshot(shop.items, [*shop.items.rows.values(), *many_items()])
    shop.source.publish(snapshotting=[shop.items])
    shop.change(4)
    with capture_logs() as logs:
        assert lake.catch_up(meanwhile(every, times=2), bulk_changes=1, local_changes_max=0) >= 1
    shop.check()
    assert lake.commits()[-1]["stopped"] == "{}"

    # New rows alone are appended, whatever happens at each stage.
    shop.source.commit(*(partial(insert_item, shop, id=id_) for id_ in range(2000, 2010)))
    shop.source.publish()
    with capture_logs() as logs:
        assert lake.catch_up(meanwhile(every), bulk_changes=1, local_changes_max=0) == 1
    shop.check()
    assert staged_again(logs) == []
    assert adopted(logs) == {f"{shop.space}.items"}
    shop.check_companions()


@pytest.mark.slow("four starts of a sink over a catalog")
def test_a_table_that_somebody_changes_during_a_batch_stops_alone(shop: Shop):
    lake = shop.lake
    lake.options |= ONE_ATTEMPT | {"kinds": EVERY_KIND}
    for number in range(3):
        shop.change(number)
    lake.catch_up()
    before = {name: shop.bare(name) for name in ("items", "orders", "orders__changes")}

    shop.change(3)
    changes = {
        "items": runs(shop, "items", "DROP TABLE {t}"),
        "orders": runs(shop, "orders__history", "UPDATE {t} SET note = 'x' WHERE id = 0"),
    }
    assert lake.catch_up(meanwhile(changes)) == 1

    last = lake.commits()[-1]
    reasons = json.loads(last["stopped"])
    assert set(reasons) == {shop.items.topic, shop.orders.topic}
    assert "it was dropped while a batch was staged" in reasons[shop.items.topic]
    assert re.search(r"snapshot \d+: overwrite", reasons[shop.orders.topic])
    assert set(last["tables"]) == {"shop/dbo/log"}
    lines = Counter(row["line"] for row in shop.bare("log"))
    assert lines == shop.expected()[1]
    for name in ("orders", "orders__changes"):
        assert shop.bare(name) == before[name], "nothing of a stopped table is published"

    keyed = list(shop.keyed.values())
    shop.source.publish(snapshotting=keyed)
    for table in keyed:
        shop.source.snapshot(table, list(table.rows.values()))
    shop.source.publish()
    shop.change(4)
    lake.catch_up()
    assert lake.commits()[-1]["stopped"] == "{}"
    shop.check()


@pytest.mark.slow("three starts of a sink over a catalog, with compactions")
def test_a_sink_that_is_asked_to_stop_stages_nothing_again(shop: Shop):
    lake, stop = shop.lake, threading.Event()
    lake.options |= ONE_ATTEMPT
    for number in range(3):
        shop.change(number)
    lake.catch_up()
    before = shop.expected()
    shop.change(3)

    def ends() -> None:
        rewrites(shop, "items")()
        stop.set()

    with closing(lake.sink(meanwhile({"items": ends}, times=1))) as sink:
        sink.open()
        schema_by_id = shop.source.registry.schema_by_id
        stream = ProgressStream(lake._sink_spark, sink.config, schema_by_id, sink)
        stream.catch_up(threading.Event())
        assert sink.fold_tables(stop) == 0
        assert shop.bare_cut() == before
        # The same process continues.
        assert sink.fold_tables(threading.Event()) == 1
    shop.check()
