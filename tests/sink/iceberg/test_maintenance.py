"""Small files are combined, and snapshots go that no kept cut has; cuts are published meanwhile."""

from __future__ import annotations

import pytest

from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.maintenance import Compaction, expire
from tailrace_sink.iceberg.names import BRANCH, MAIN
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.iceberg.tables import IcebergTables
from tailrace_sink.options.iceberg_options import IcebergOptions
from tests.sink.iceberg.conftest import LAKE, CatalogServer, TwoTables, stamp

pytestmark = pytest.mark.spark


def files_of(table: LoadedTable) -> int:
    return int(dict(table.java.currentSnapshot().summary())["total-data-files"])


def test_files_and_snapshots_of_a_table_stay_few(server: CatalogServer, tables: TwoTables):
    sink, orders = tables.sink(1), tables.names[0]
    path, versions = "shop/dbo/orders", {}

    def publish(batch: int) -> None:
        versions[batch] = tables.stage_one(sink, batch, orders, {batch: f"v{batch}"})
        sink.publish({orders: versions[batch]}, stamp(sink, batch))

    for batch in range(5, 11):
        publish(batch)
    assert files_of(tables.loaded(orders)) == 6
    caching = server.options | {"name": "caching", "properties": {"cache-enabled": "true"}}
    set_catalog(server.spark, IcebergOptions.load(caching))
    reader = IcebergTables(IcebergCatalog(server.spark, "caching"), LAKE, orders.namespace[0])
    assert reader.rows(server.spark, path, versions[10]).count() == 6
    lake = IcebergTables(tables.catalog, LAKE, orders.namespace[0])
    too_few, enough = (Compaction(tables.spark, tables.catalog, lake, n) for n in (7, 6))
    for work in (too_few, enough):
        work.note({}, {path: versions[10]})

    assert too_few.run() == path
    assert files_of(tables.loaded(orders)) == 6
    assert enough.run() == path
    assert enough.run() is None
    table = tables.loaded(orders)
    assert files_of(table) == 1
    assert table.head(BRANCH) == table.head(MAIN) != versions[10]
    publish(11)
    expected = {batch: f"v{batch}" for batch in range(5, 12)}
    assert tables.rows(orders) == expected
    assert reader.rows(server.spark, path, versions[11]).count() == 7, "though it has a cache"

    tables.stage_one(sink, 12, orders, {12: "not published yet"})
    staged = tables.loaded(orders).head(BRANCH)
    assert expire(tables.loaded(orders), versions[8]) > 3  # one created the table, one took it
    table = tables.loaded(orders)
    assert [batch for batch, found in versions.items() if table.snapshot(found)] == [8, 9, 10, 11]
    assert tables.rows(orders, versions[8]) == {b: v for b, v in expected.items() if b <= 8}
    assert tables.rows(orders) == expected
    assert table.head(BRANCH) == staged
    assert expire(table, versions[8]) == 0
