"""Small files are combined, and what no kept cut has is removed; cuts are published meanwhile."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.maintenance import Compaction, expire, remove_orphans, rewrite
from tailrace_sink.iceberg.names import BRANCH, MAIN, TableId
from tailrace_sink.iceberg.new_table import DATA_PROPERTY
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.iceberg.tables import IcebergTables
from tailrace_sink.options.iceberg_options import IcebergOptions
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY, Identity, identities_text
from tailrace_sink.tables.lake_table import Kind
from tests.sink.iceberg.conftest import LAKE, CatalogServer, TwoTables, stamp

pytestmark = pytest.mark.spark


def set_properties(table: LoadedTable, properties: dict[str, str]) -> None:
    update = table.java.updateProperties()
    for name, text in properties.items():
        update.set(name, text)
    update.commit()


def without_totals(tables: TwoTables, table: LoadedTable) -> LoadedTable:
    """Another program commits a snapshot like the newest one, whose summary has no totals."""
    iceberg: Any = tables.catalog.jvm
    metadata = table.java.operations().current()
    found = json.loads(iceberg.SnapshotParser.toJson(table.java.currentSnapshot()))
    found["parent-snapshot-id"] = found["snapshot-id"]
    found |= {"snapshot-id": 1, "sequence-number": metadata.nextSequenceNumber()}
    found |= {"first-row-id": metadata.nextRowId(), "added-rows": 0}
    found["summary"] = {"operation": "append"}
    snapshot = iceberg.SnapshotParser.fromJson(json.dumps(found))
    changed = iceberg.TableMetadata.buildFrom(metadata).setBranchSnapshot(snapshot, MAIN).build()
    table.java.operations().commit(metadata, changed)
    return tables.loaded(table.name)


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
    too_few, enough = (
        Compaction(tables.spark, tables.catalog, lake, lambda _: ["gone", "v"], n) for n in (7, 6)
    )
    for work in (too_few, enough):
        work.note({}, {path: versions[10]})

    assert too_few.run() == path
    assert files_of(tables.loaded(orders)) == 6
    assert enough.run() == path
    assert enough.run() is None
    table = tables.loaded(orders)
    assert files_of(table) == 1
    name = orders.sql(tables.catalog.name)
    sorted_rows = tables.spark.sql(f"SELECT v FROM {name} ORDER BY _pos").collect()
    assert [row["v"] for row in sorted_rows] == ["v10", "v5", "v6", "v7", "v8", "v9"]
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

    # A write that failed left a file; what is staged, and published, are in snapshots.
    folder = table.properties[DATA_PROPERTY]
    tables.spark.range(1).coalesce(1).write.mode("append").parquet(folder)
    now_ms = round(time.time() * 1000)
    assert remove_orphans(tables.catalog, tables.spark, table, now_ms - 3_600_000) == 0
    assert remove_orphans(tables.catalog, tables.spark, table, now_ms + 3_600_000) == 1
    assert remove_orphans(tables.catalog, tables.spark, table, now_ms + 3_600_000) == 0
    sink.publish({orders: staged}, stamp(sink, 12))
    assert tables.rows(orders) == {**expected, 12: "not published yet"}
    shared = {DATA_PROPERTY: folder.rpartition("/")[0]}
    set_properties(tables.loaded(orders), shared)
    assert remove_orphans(tables.catalog, tables.spark, tables.loaded(orders), 1 << 50) == 0

    # Who leaves the totals out does not say that there are no rows.
    key = identities_text([("id", Identity(1, "bigint", 1))])
    set_properties(tables.loaded(orders), {COLUMNS_PROPERTY: key})
    table = without_totals(tables, tables.loaded(orders))
    assert lake.total(table, "total-records") is None
    described = lake.described(tables.spark, TableName("shop", "dbo", "orders"), Kind.MIRROR)
    assert described is not None
    assert not described.is_new


def test_tags_and_branches_of_others_keep_their_snapshots_and_stop_no_removal(tables: TwoTables):
    sink, orders = tables.sink(1), tables.names[0]
    versions = {}
    for batch in range(5, 12):
        versions[batch] = tables.stage_one(sink, batch, orders, {batch: f"v{batch}"})
        sink.publish({orders: versions[batch]}, stamp(sink, batch))
    refs = tables.loaded(orders).java.manageSnapshots()
    refs.createTag("month_end", versions[6]).createBranch("audit", versions[7]).commit()
    java = tables.loaded(orders).java
    java.newDelete().deleteFromRowFilter(
        tables.catalog.jvm.expressions.Expressions.alwaysTrue()
    ).toBranch("audit").commit()
    of_audit = int(tables.loaded(orders).java.refs().get("audit").snapshotId())

    assert expire(tables.loaded(orders), versions[10]) > 0

    left = {int(found.snapshotId()) for found in tables.loaded(orders).java.snapshots()}
    assert {versions[6], of_audit, versions[10], versions[11]} <= left
    assert not {versions[5], versions[8], versions[9]} & left


def test_a_rewrite_takes_the_smallest_files_up_to_its_bound(tables: TwoTables):
    sink, orders = tables.sink(1), tables.names[0]
    for batch in range(5, 12):
        rows = {100 * batch + n: f"v{n}" * batch for n in range(5000 if batch == 8 else 1)}
        sink.publish({orders: tables.stage_one(sink, batch, orders, rows)}, stamp(sink, batch))
    sizes = file_sizes(tables, orders)
    assert len(sizes) == 7
    largest = max(sizes, key=lambda path: sizes[path])
    expected = tables.rows(orders)

    bound = sum(sizes.values()) - 1
    assert rewrite(tables.catalog, tables.spark, tables.loaded(orders), bytes_max=bound) == 6
    assert largest in file_sizes(tables, orders), "it is more than the rest of the bound"
    assert files_of(tables.loaded(orders)) == 2

    # A file with many deleted rows is rewritten alone, however large it is.
    head = tables.run(sink, 12, orders, "DELETE FROM {t} WHERE id >= 1200 AND id < 3800")
    sink.publish({orders: head}, stamp(sink, 12))
    assert rewrite(tables.catalog, tables.spark, tables.loaded(orders), bytes_max=1) == 1
    assert largest not in file_sizes(tables, orders)
    left = {key: text for key, text in expected.items() if not 1200 <= key < 3800}
    assert tables.rows(orders) == left
    assert rewrite(tables.catalog, tables.spark, tables.loaded(orders), bytes_max=1) == 0


def file_sizes(tables: TwoTables, name: TableId) -> dict[str, int]:
    found = tables.spark.sql(
        f"SELECT file_path, file_size_in_bytes FROM {name.sql(tables.catalog.name)}.data_files"
    )
    return {row[0]: row[1] for row in found.collect()}
