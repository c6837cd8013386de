"""Readers skip files by the bounds that the sink writes: no row is lost that a filter is for."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from tailrace_sink.columns.file_statistics import statistics_json

MOMENT = dt.datetime(2026, 11, 30, 12, 30, 59, 123456, tzinfo=dt.UTC)
TYPES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "double": (pa.float64(), [0.5, 1.5, -0.0, 0.1 + 0.2, 5e-324, -1.7976931348623157e308]),
    "float": (pa.float32(), [0.5, 1.5, -3.4028234663852886e38, 1.401298464324817e-45]),
    "boolean": (pa.bool_(), [True, False]),
    "long": (pa.int64(), [0, 2**63 - 1, -(2**63)]),
    "integer": (pa.int32(), [0, 2**31 - 1, -(2**31)]),
    "string": (pa.string(), ["", "a" * 40, "a" * 39 + "b", "\U0010ffff" * 40, "ÿ" * 33]),
    "decimal(38,4)": (pa.decimal128(38, 4), [Decimal("0.0001"), Decimal("-" + "9" * 34 + ".9999")]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 15), dt.date(9999, 12, 31)]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff" * 40]),
    "timestamp": (pa.timestamp("us", "UTC"), [MOMENT, MOMENT.replace(microsecond=1)]),
}


@pytest.mark.parametrize("type_name", TYPES)
def test_a_filter_finds_each_value_in_its_file(type_name: str, tmp_path: Path):
    type_, values = TYPES[type_name]
    table = table_of(tmp_path, type_name, type_, values)
    for number, value in enumerate(values):
        wanted = pl.lit(value, dtype=pl.Series(pa.array([value], type_)).dtype)
        seen = table.to_pyarrow_table(filters=[("v", "=", value)])["id"].to_pylist()
        assert number in seen, f"deltalake, {value!r}"
        rows = pl.scan_delta(str(tmp_path)).filter(pl.col("v") == wanted).collect()
        assert number in rows["id"].to_list(), f"Polars, {value!r}"


def test_querybuilder_takes_far_times_as_microseconds(tmp_path: Path):
    """Its literals are nanoseconds, as docs/readers.md says."""
    end = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
    table = table_of(tmp_path, "timestamp", pa.timestamp("us", "UTC"), [end, MOMENT])
    queries = QueryBuilder().register("t", table)

    def ids(literal: str) -> list[int]:
        found = pa.table(queries.execute(f"SELECT id FROM t WHERE v = {literal}").read_all())
        return list(found["id"].to_pylist())

    with pytest.raises(DeltaError, match="Cast error: Overflow"):
        ids("TIMESTAMP '9999-12-31 00:00:00'")
    microseconds = "'Timestamp(Microsecond, Some(\"UTC\"))'"
    assert ids(f"arrow_cast('9999-12-31T00:00:00Z', {microseconds})") == [0]


def table_of(path: Path, name: str, type_: pa.DataType, values: Sequence[Any]) -> DeltaTable:
    """A Delta table with a file of each value, and its bounds as the sink writes them."""
    schema = pa.schema([("id", pa.int32()), ("v", type_)])
    fields = [
        {"name": field, "type": of, "nullable": True, "metadata": {}}
        for field, of in (("id", "integer"), ("v", name))
    ]
    form = {"type": "struct", "fields": fields}
    entries: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": name,
                "format": {"provider": "parquet", "options": {}},
                "partitionColumns": [],
                "schemaString": json.dumps(form),
                "configuration": {},
                "createdTime": 0,
            }
        },
    ]
    for number, value in enumerate(values):
        file = path / f"part-{number}.parquet"
        columns = [pa.array([number], pa.int32()), pa.array([value], type_)]
        pq.write_table(pa.table(columns, schema), file)
        added = {
            "path": file.name,
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": statistics_json(pq.ParquetFile(file).metadata, schema, 32),
        }
        entries.append({"add": added})
    log = path / "_delta_log"
    log.mkdir()
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    (log / f"{0:020}.json").write_text("\n".join(lines), encoding="utf-8")
    return DeltaTable(path)
