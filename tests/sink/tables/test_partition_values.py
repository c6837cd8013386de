"""Values in the names of folders: a table partitioned by any type has the source's rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tailrace_sink import read
from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.sink.both_readers import assert_same_cut
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.guarantee(18)]
KEY, NUMBER = column(1, "id", "int", key=1), column(3, "n", "int")
HELD: dict[str, list[Any]] = {
    "nvarchar(400)": [
        *(" ", "x", "x ", "X", "a/b c%20", "x=y:z", "ü東\U0001f600", "a'b\"c\\", ".", "..", "NULL"),
        *("null", "true", "01", "1e5", "2024-01-01", "cafe\u0301", "caf\u00e9", "%", "%2F", "\x7f"),
        *("__HIVE_DEFAULT_PARTITION__ ", "__hive_default_partition__", "z" * 200),
        *("\x01", "\t", "\n", "\x1f"),
    ],
    "char(3)": ["   ", "a  "],
    "float": [-0.0, 5e-324, 1.7976931348623157e308, 0.1],
    "real": [0.5, 3.4028234663852886e38],
    "decimal(38,10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0E-10")],
    "bigint": [-(2**63), 2**63 - 1],
    "bit": [True, False],
    "date": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)],
    "datetime2(6)": [
        dt.datetime(1, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - datetime2 has no zone
        dt.datetime(2026, 3, 29, 2, 30),  # noqa: DTZ001 - as above
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - as above
    ],
    "time(6)": [dt.time(23, 59, 59, 999_999)],
    "datetimeoffset(7)": ["9999-12-31T23:59:59.9999999+14:00"],
    "uniqueidentifier": ["6f9619ff-8b86-d011-b42d-00c04fc964ff"],
}
REFUSED: list[tuple[str, Any]] = [
    ("nvarchar(30)", ""),
    ("nvarchar(31)", "__HIVE_DEFAULT_PARTITION__"),
    ("varbinary(20)", b""),
    ("varbinary(21)", b"\xff"),
    ("nvarchar(32)", "x\0y"),
    ("nvarchar(300)", "y" * 300),
]
"""In the partitions of a Delta table they are read back as others, or name no folder."""


def partitioned(source: Source, kinds: Any, prefix: str = "t") -> tuple[list[SourceTable], Any]:
    """Tables with a column of each type, and the option that partitions them by it."""
    tables = [
        source.table(f"{prefix}{n}", KEY, column(2, "v", kind), NUMBER)
        for n, kind in enumerate(kinds)
    ]
    return tables, {f"dbo.{table.name.table}": ["v"] for table in tables}


@pytest.mark.slow("twelve tables, each with up to sixty partitions")
def test_partitions_hold_the_values_of_every_other_type(source: Source, lake: Lake):
    tables, layout = partitioned(source, HELD)
    values = {t.name: [None, *of] for t, of in zip(tables, HELD.values(), strict=True)}

    def carry(n: int) -> None:
        changes = []
        for table in tables:
            for key, value in enumerate(values[table.name]):
                if n == 0:
                    changes.append(
                        lambda t, of=table, key=key, v=value: t.insert(of, id=key, v=v, n=0)
                    )
                else:
                    changes.append(lambda t, of=table, key=key: t.update(of, (key,), n=n))
        source.commit(*changes)
        source.publish()
        lake.catch_up(partition_by=layout)

    carry(0)
    carry(1)
    cut = read(lake.spark, lake.address).as_of("latest")
    assert lake.commits()[-1]["stopped"] == "{}"
    for table in tables:
        name = f"dbo.{table.name.table}"
        found = [row.asDict() for row in cut.read(name).select("id", "v", "n").collect()]
        expected = list(table.rows.values())
        if table.name.table == "t9":
            expected = [{**row, "v": row["v"] and 86_399_999_999} for row in expected]
        assert sorted(found, key=lambda row: row["id"]) == expected
        assert_same_cut(cut, name)
        deltalake = sorted(lake.rows(table.name.table), key=lambda row: row["id"])
        assert deltalake == expected


def of_source(lake: Lake, table: SourceTable) -> dict[Key, Row]:
    """The rows by key, without the column that somebody else has added."""
    rows = lake.by_key(table)
    return {key: {n: v for n, v in row.items() if n != "own"} for key, row in rows.items()}


@pytest.mark.slow("nineteen tables, and three batches")
def test_a_value_that_no_partition_holds_stops_its_table_by_name(source: Source, lake: Lake):
    kinds = [kind for kind, _ in REFUSED]
    groups, layout = {}, {}
    for way in ("append", "upsert", "merge"):
        groups[way], more = partitioned(source, kinds, way)
        layout |= more
    options = {"partition_by": layout, "kinds": {r"dbo\.append0": ["mirror", "changelog"]}}
    fine, more = partitioned(source, ["nvarchar(30)"], "fine")
    layout |= more
    every = [*fine, *(table for group in groups.values() for table in group)]
    source.commit(*(lambda t, of=of: t.insert(of, id=0, v=None, n=0) for of in every))
    source.publish()
    lake.catch_up(**options)
    assert lake.commits()[-1]["stopped"] == "{}"
    before = {table.name.table: dict(table.rows) for table in every}
    for table in groups["merge"]:
        at = lake.location(table.name.table)
        lake.spark.sql(f"ALTER TABLE delta.`{at}` ADD COLUMNS (own INT)")

    changes = [lambda t: t.update(fine[0], (0,), v=" ", n=1)]
    for way, tables in groups.items():
        for table, (_, value) in zip(tables, REFUSED, strict=True):
            if way == "append":
                changes.append(lambda t, of=table, v=value: t.insert(of, id=1, v=v, n=1))
            else:
                changes.append(lambda t, of=table, v=value: t.update(of, (0,), v=v, n=1))
    source.commit(*changes)
    source.publish()
    lake.catch_up(**options)
    stopped = lake.commits()[-1]["stopped"]
    for group in groups.values():
        for table in group:
            assert f"table {table.name}, column v: the lake table is partitioned by it" in stopped
            assert of_source(lake, table) == before[table.name.table]
    assert lake.by_key(fine[0]) == fine[0].rows

    cluster = {"cluster_by": {name: ["id"] for name in layout}}
    again = [table for group in groups.values() for table in group]
    for table in again:
        source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=again)
    source.publish()
    lake.catch_up(**cluster)
    assert lake.commits()[-1]["stopped"] == "{}"
    for table in every:
        assert of_source(lake, table) == table.rows
