"""Columns whose files have other names than the table: the same rows in every reader of a cut."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace import lake as without_spark
from tailrace.lake.cut import Cut
from tailrace_sink import read
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake
from tests.sink.lake_files import int96_columns

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.guarantee(14)]
KEY = column(1, "id", "int", key=1)
SETTING = "${env:HOME} ${spark.app.name}"
"""Spark replaces such text in its SQL, unless it is told not to."""
ODD = (
    *("_metadata", "_pos", "_file", "a.b", "back`tick", 'quo"te', "apo'strophe", "semi;colon"),
    *("שלום", "caf\u00e9", "cafe\u0301", "n" * 128, "trailing ", "select", "%20", "#", "?"),
)
"""Names that readers, formats or SQL give a meaning; two of them differ only in normal form."""


def rows_of(cut: Cut, table: str) -> dict[str, list[dict[str, Any]]]:
    """The rows by each way to ask for them."""
    name = table.replace(".", '"."')
    found = {
        "read": cut.read(table),
        "dataset": cut.dataset(table).to_table(),
        "lazy_frame": cut.lazy_frame(table).collect().to_arrow(),
        "sql": cut.sql(f'SELECT * FROM "{name}"').to_arrow_table(),
        "relation": cut.relation(table).to_arrow_table(),
    }
    frame = cut.pandas(table)
    by_reader: dict[str, list[dict[str, Any]]] = {
        reader: rows.to_pylist() for reader, rows in found.items()
    }
    by_reader["pandas"] = frame.to_dict("records")
    return {reader: sorted(rows, key=lambda r: r["id"]) for reader, rows in by_reader.items()}


@pytest.mark.slow("a lake with two tables that change")
def test_renamed_and_spaced_columns_are_the_same_in_every_reader(source: Source, lake: Lake):
    renamed = source.table("renamed", KEY, column(2, "v", "int"), column(3, "body", "varchar(max)"))
    spaced = source.table("spaced", KEY, column(2, "the value", "int"), column(3, SETTING, "int"))
    odd = source.table("odd", KEY, *(column(n, name, "int") for n, name in enumerate(ODD, 2)))

    def insert(key: int, v: int, name: str = "v") -> None:
        source.commit(
            lambda t: t.insert(renamed, id=key, **{name: v, "body": "b" * 9000}),
            lambda t: t.insert(spaced, id=key, **{"the value": v, SETTING: v}),
            lambda t: t.insert(odd, id=key, **dict.fromkeys(ODD, v)),
            lambda t: t.update(odd, (1,), **dict.fromkeys(ODD, v)),
        )
        source.publish()
        lake.catch_up()

    insert(1, 10)
    source.alter(renamed, KEY, column(2, "V", "int"), column(3, "body", "varchar(max)"))
    insert(2, -20, "V")
    for turn, table in enumerate((renamed, spaced, odd, renamed, spaced, odd)):
        if turn == 3:
            for name in ("renamed", "spaced", "odd"):
                lake.spark.sql(f"OPTIMIZE delta.`{lake.location(name)}`")
            insert(3, 30, "V")
        mirrored = [c.name for c in table.schema.columns]
        expected = [table.rows[key] for key in sorted(table.rows)]
        at = f"dbo.{table.name.table}"
        by_spark = read(lake.spark, lake.address).as_of("latest").read(at)
        found = rows_of(without_spark.open(lake.address).as_of("latest"), at)
        found["spark"] = sorted((r.asDict() for r in by_spark.collect()), key=lambda r: r["id"])
        for reader, rows in found.items():
            assert [{n: row[n] for n in mirrored} for row in rows] == expected, (turn, reader)
    assert int96_columns(lake.path) == {}
