"""Somebody else drops, changes, compacts and alters tables of the catalog, and their branches."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest

from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.errors import ApplyFailed, ForeignCommit, LakeRowsChanged
from tailrace_sink.iceberg.names import BRANCH
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_commits_between import load, loaded, runs
from tests.sink.iceberg.test_cuts import Shop, once_is_enough
from tests.sink.tables.test_altered_by_hand import Hand, Rows, adds, renames, retyped, tell

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]


@pytest.fixture
def shop(source: Source, lake: Lake, server: CatalogServer) -> Shop:
    return Shop(source, lake, server)


@pytest.mark.slow("four starts of a sink over a catalog")
def test_tables_whose_rows_somebody_else_changed_stop_alone_and_come_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    lake, source = shop.lake, shop.source
    source.commit(lambda t: t.insert(shop.items, id=100, n=1))  # a row that never changes
    for number in range(3):
        shop.change(number)
    assert lake.catch_up() == 1
    once_is_enough(monkeypatch)
    lake.spark.sql(f"DROP TABLE other.{shop.space}.items")
    lake.spark.sql(f"DELETE FROM other.{shop.space}.orders WHERE id = 0")
    lake.spark.sql(
        f"CALL other.system.rewrite_data_files(table => '{shop.space}.log',"
        " options => map('rewrite-all', 'true'))"
    )
    reader = read(lake.spark, lake.address)
    for table, words in ((shop.items, "there is no table"), (shop.orders, "delete")):
        with pytest.raises(LakeRowsChanged, match=f"{words}.*take a new snapshot"):
            reader.require_own_rows(table.name)
    reader.require_own_rows(shop.log.name)

    shop.change(3)
    assert lake.catch_up() == 1
    last = lake.commits()[-1]
    reasons = json.loads(last["stopped"])
    assert set(reasons) == {shop.items.topic, shop.orders.topic}
    assert "there is no table" in reasons[shop.items.topic]
    assert "delete" in reasons[shop.orders.topic]
    assert set(last["tables"]) == {"shop/dbo/log"}

    keyed = [shop.items, shop.orders]
    source.publish(snapshotting=keyed)
    for table in keyed:
        source.snapshot(table, list(table.rows.values()))
    source.publish()
    lake.catch_up()
    assert lake.commits()[-1]["stopped"] == "{}"
    shop.check()


@pytest.mark.slow("a sink runs over a catalog while its branch and columns are exchanged")
def test_a_sink_that_runs_sees_a_branch_that_was_removed_or_moved_and_another_column(shop: Shop):
    lake, never = shop.lake, threading.Event()
    shop.change(0)
    with closing(lake.sink()) as sink:
        sink.open()
        by_id = shop.source.registry.schema_by_id
        stream = ProgressStream(lake._sink_spark, sink.config, by_id, sink)
        stream.catch_up(never)
        sink.fold_tables(never)
        load(shop, "orders").manageSnapshots().removeBranch(BRANCH).commit()
        for change in ("DROP COLUMN n", "ADD COLUMN n INT"):  # neither makes a snapshot
            runs(shop, "items", f"ALTER TABLE {{t}} {change}")()
        reader = read(lake.spark, lake.address)
        with pytest.raises(LakeRowsChanged, match="another column has the name n"):
            reader.require_own_rows(shop.items.name)
        shop.change(1)
        stream.catch_up(never)
        with pytest.raises(ApplyFailed, match=f"Cannot find ref {BRANCH}"):
            sink.fold_tables(never)
        sink.open()  # as the loop does that tries again
        sink.fold_tables(never)
        found = load(shop, "orders")
        oldest = next(iter(found.history())).snapshotId()
        found.manageSnapshots().replaceBranch(BRANCH, oldest).commit()
        shop.change(2)
        stream.catch_up(never)
        with pytest.raises(ForeignCommit, match=f"branch {BRANCH}.*moved back"):
            sink.fold_tables(never)
        sink.open()
        sink.fold_tables(never)
    reasons = json.loads(lake.commits()[-1]["stopped"])
    assert list(reasons) == [shop.items.topic]
    assert "another column has the name n" in reasons[shop.items.topic]
    found = shop.by_key({"orders": shop.bare("orders"), "items": []})
    assert found["orders"] == shop.orders.rows, "no row is there twice"


ALTERED = {
    "dropped": Hand(("DROP COLUMN v",)),
    "replaced": Hand(("DROP COLUMN v", "ADD COLUMN v STRING")),
    "renamed": Hand(("RENAME COLUMN v TO value",)),
    "added": Hand(("ADD COLUMN late STRING",), adds),
    "widened": Hand(("ALTER COLUMN v TYPE BIGINT",), retyped("decimal(12,2)")),
    "narrow": Hand((), retyped("varchar(9)")),
    "partitioned": Hand((), renames, stops=False),
    "copied": Hand(("SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')",), stops=False),
    "unset": Hand(("UNSET TBLPROPERTIES ('tailrace.columns')",)),
    "own_columns": Hand(("DROP COLUMN _cdc_op",)),
    "in_orc": Hand(("SET TBLPROPERTIES ('write.format.default' = 'orc')",), stops=False),
}


@pytest.mark.slow("eleven tables in four batches over a catalog")
def test_a_snapshot_brings_back_whatever_was_altered(
    source: Source, lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
):
    space = f"altered_{source.prefix}".replace("-", "_")
    data = f"{server.options['data']}/{space}"
    iceberg = server.options | {"namespace": space, "data": data}
    lake.options |= {"format": "iceberg", "iceberg": iceberg, "merge_pool": 1}
    once_is_enough(monkeypatch)

    def alter(name: str, text: str) -> None:
        lake.spark.sql(f"ALTER TABLE other.{space}.{name} {text}")
        if name == "dropped":  # once: the statement is one of Iceberg's extension of Spark
            loaded(lake, space, "partitioned").updateSpec().addField("v").commit()

    def rows_of(table: SourceTable) -> Rows:
        rows = read(lake.spark, lake.address).as_of("latest").read(table.name).collect()
        return {table.key_of(row.asDict()): row.asDict() for row in rows}

    tell(source, lake, ALTERED, alter, rows_of)
