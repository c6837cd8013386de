"""Files of tables in a catalog are missing or damaged: a snapshot heals each, or says what does."""

from __future__ import annotations

import uuid

import pytest
from pyarrow.fs import S3FileSystem

from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable
from tests.file_damage import OF_ICEBERG, TableFiles, folders_of
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.tables.test_damaged_files import COLUMNS, FEW_TRIES, ROWS, run, snapshots, stopped

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

NOT_REPLACED = {name for name in OF_ICEBERG if name.startswith("manifest_")}
"""Damage after which a table does not show its files, which a new snapshot would delete."""


@pytest.mark.slow("tables of a catalog are damaged, and come back with snapshots")
def test_tables_whose_files_are_damaged_come_back(
    source: Source, lake: Lake, server: CatalogServer
):
    space = f"damaged_{uuid.uuid4().hex[:8]}"
    data = f"{server.options['data']}/{space}"
    catalog = server.options | {"namespace": space, "data": data}
    lake.options |= {"format": "iceberg", "iceberg": catalog}
    tables = {name: source.table(name, *COLUMNS) for name in (*OF_ICEBERG, "sound")}
    for table in tables.values():
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n, v=n) for n in range(ROWS)))
    source.publish()
    lake.catch_up(**FEW_TRIES)
    for number in range(2):
        for table in tables.values():
            source.commit(lambda t, of=table, n=number: t.update(of, (n,), v=100 + n))
        source.publish()
        lake.catch_up(**FEW_TRIES)
    store = S3FileSystem(**lake.config().s3.pyarrow())
    for name, damage in OF_ICEBERG.items():
        damage(TableFiles(store, folders_of(lake.spark, f"other.{space}.{name}")))

    snapshots(source, [tables[name] for name in OF_ICEBERG])
    run(lake, server.spark, FEW_TRIES)
    reasons = stopped(lake)
    assert set(reasons) == NOT_REPLACED
    for name, reason in reasons.items():
        dropped = f"tailrace.{space}.{name}"
        assert f"drop the table {dropped} in the catalog" in reason, reason
        lake.spark.sql(f"DROP TABLE other.{space}.{name}")
    snapshots(source, [tables[name] for name in NOT_REPLACED])
    run(lake, server.spark, FEW_TRIES)

    assert stopped(lake) == {}
    for name, table in tables.items():
        rows = lake.spark.table(f"other.{space}.{name}").collect()
        assert {(row["id"],): row["v"] for row in rows} == values(table), name


def values(table: SourceTable) -> dict[tuple[int], int]:
    return {key: row["v"] for key, row in table.rows.items()}
