"""Iceberg's identity partitions hold every value: those that Delta's do not hold, too."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace import lake as without_spark
from tailrace_sink import read
from tests.envelopes.source import Source
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.tables.test_partition_values import HELD, REFUSED, partitioned

pytest.importorskip("pyiceberg", reason="make setup-tests installs it")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]


@pytest.mark.slow("tables that have some eighty partitions")
def test_identity_partitions_hold_every_value(source: Source, lake: Lake, server: CatalogServer):
    space = f"parted_{source.prefix}".replace("-", "_")
    data = f"{server.options['data']}/{space}"
    options = server.options | {"namespace": space, "data": data}
    lake.options |= {"format": "iceberg", "iceberg": options}
    texts = [*HELD["nvarchar(400)"], *(of for kind, of in REFUSED if kind.startswith("nvarchar"))]
    others = {k: v for k, v in HELD.items() if k in {"char(3)", "bit", "date", "datetime2(6)"}}
    kinds: dict[str, list[Any]] = {
        "nvarchar(400)": texts,
        "varbinary(20)": [of for kind, of in REFUSED if kind.startswith("varbinary")],
        **others,
    }
    tables, layout = partitioned(source, kinds)
    for turn in range(3):
        changes = []
        for table, values in zip(tables, kinds.values(), strict=True):
            for key, value in enumerate([None, *values]):
                if turn:
                    changes.append(lambda t, of=table, key=key, n=turn: t.update(of, (key,), n=n))
                else:
                    changes.append(
                        lambda t, of=table, key=key, v=value: t.insert(of, id=key, v=v, n=0)
                    )
        source.commit(*changes)
        source.publish()
        lake.catch_up(partition_by=layout)
        if turn == 1:
            for table in tables:
                name = f"tailrace.{space}.{table.name.table}"
                lake.spark.sql(f"CALL tailrace.system.rewrite_data_files('{name}')")
    assert lake.commits()[-1]["stopped"] == "{}"
    cut = read(lake.spark, lake.address).as_of("latest")
    other = without_spark.open(lake.address, iceberg=options, **lake.options["s3"]).as_of()
    for table in tables:
        name = f"dbo.{table.name.table}"
        by_spark = [row.asDict() for row in cut.read(name).select("id", "v", "n").collect()]
        by_arrow = other.read(name).select(["id", "v", "n"]).to_pylist()
        for rows in (by_spark, by_arrow):
            assert sorted(rows, key=lambda row: row["id"]) == list(table.rows.values())
