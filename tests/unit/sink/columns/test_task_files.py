"""Files of one task: complete or deleted, with the statistics that readers skip by."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_sink.columns import task_files
from tailrace_sink.columns.cursor import Undecodable
from tailrace_sink.columns.spec import Work, Writer
from tailrace_sink.columns.task_files import COUNTS, write_task
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.tables.lake_table import Kind
from tailrace_sink.tables.new_table import new_table
from tests.property.test_columns import FENCE, sum_of, writer_of
from tests.property.test_encode_roundtrip import encode_snapshot, encoder_of, schema_of

# ruff: noqa: DTZ901 - datetime2 has no zone

COLUMNS = (
    SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
    SchemaColumn(2, "text", ColumnType("nvarchar", length=60)),
    SchemaColumn(3, "price", ColumnType("decimal", precision=9, scale=2)),
    SchemaColumn(4, "wide", ColumnType("decimal", precision=38, scale=10)),
    SchemaColumn(5, "at", ColumnType("datetime2", scale=7)),
    SchemaColumn(6, "day", ColumnType("date")),
    SchemaColumn(7, "rate", ColumnType("float", precision=53)),
    SchemaColumn(8, "raw", ColumnType("varbinary", length=9)),
    SchemaColumn(9, "none", ColumnType("nvarchar", length=9)),
)
ROWS = [
    (
        *(n, "é" * (30 + n), Decimal(n) / 4 - 1),
        *(Decimal("-9999999999999999999999999999.9999999999"), dt.datetime.max),
        *(dt.date(1, 1, 1 + n), n / 2, b"\x00\xff", None),
    )
    for n in range(6)
]


def messages(rows: list[tuple[Any, ...]]) -> tuple[list[bytes], int]:
    encoded = encode_snapshot(encoder_of(schema_of(COLUMNS)), rows, FENCE, 5, True)
    return encoded.values, sum_of(encoded.positions)


def work_in(folder: Path, **physical: tuple[str, int | None]) -> Work:
    schema = schema_of(COLUMNS)
    writer = writer_of(schema)
    targets = []
    for kind in (Kind.MIRROR, Kind.CHANGES):
        target = folder / kind.name
        target.mkdir()
        targets.append(target_of(new_table(schema, kind), [writer], str(target), physical, 32))
    return Work(
        (Writer(writer.schema_id, writer.avro),), tuple(targets), metadata={"a.writer": "4.1"}
    )


@pytest.fixture(autouse=True)
def rows_of_two_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_files, "CHANGES_A_ROW", 2)


def results_of(work: Work, values: list[bytes]) -> list[dict[str, Any]]:
    """The results of a task, after a row for each two messages."""
    *before, last = (row for rows in write_task(work, batches(values)) for row in rows.to_pylist())
    assert before == [{"results": None}] * (len(values) // task_files.CHANGES_A_ROW)
    results: list[dict[str, Any]] = last["results"]
    return results


def batches(values: list[bytes]) -> list[pa.Array]:
    return [pa.array([value], pa.binary()) for value in values]


def test_a_task_writes_every_table_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "_GROUP_ROWS", 2)
    monkeypatch.setattr(task_files, "_FILE_BYTES", 1)
    values, hashes = messages(ROWS)

    results = results_of(work_in(tmp_path, text=("col-7", 7)), values)

    (counts,) = (of for of in results if of["target"] == COUNTS)
    assert (counts["changes"], counts["hashes"]) == (len(ROWS), hashes)
    for place, kind in enumerate((Kind.MIRROR, Kind.CHANGES)):
        files = [of for of in results if of["target"] == place]
        assert len(files) == 3
        paths = [tmp_path / kind.name / of["path"] for of in files]
        assert set((tmp_path / kind.name).iterdir()) == set(paths)
        assert [path.stat().st_size for path in paths] == [of["bytes"] for of in files]
        rows = pa.concat_tables(pq.ParquetFile(path).read() for path in paths)
        assert [row["id"] for row in rows.to_pylist()] == [row[0] for row in ROWS]
        assert rows["col-7"].to_pylist() == [row[1] for row in ROWS]
        footer = pq.read_metadata(paths[0])
        assert footer.metadata[b"a.writer"] == b"4.1"
        field = footer.schema.to_arrow_schema().field("col-7")
        assert field.metadata[b"PARQUET:field_id"] == b"7"


def test_statistics_are_bounds_in_deltas_form(tmp_path: Path) -> None:
    values, _ = messages(ROWS)
    text = results_of(work_in(tmp_path), values)[0]["statistics"]
    found = json.loads(text, parse_float=Decimal)
    assert found["numRecords"] == len(ROWS)
    assert (found["minValues"]["id"], found["maxValues"]["id"]) == (0, 5)
    assert found["minValues"]["text"] == "é" * 30
    assert found["maxValues"]["text"] == "é" * 32 + "\U0010ffff"
    assert (found["minValues"]["price"], found["maxValues"]["price"]) == (
        Decimal("-1.00"),
        Decimal("0.25"),
    )
    assert found["minValues"]["wide"] == Decimal("-9999999999999999999999999999.9999999999")
    assert found["maxValues"]["at"] == "9999-12-31T23:59:59.999"
    assert (found["minValues"]["day"], found["maxValues"]["day"]) == ("0001-01-01", "0001-01-06")
    assert "rate" in found["minValues"], "deltalake finds no row by a filter without bounds"
    assert "raw" not in found["minValues"]
    assert found["nullCount"]["none"] == len(ROWS)
    assert "none" not in found["minValues"]
    assert found["nullCount"]["id"] == 0
    assert found["tightBounds"] is True


def test_a_zero_is_within_the_bounds_of_floats_whatever_its_sign(tmp_path: Path) -> None:
    values, _ = messages([(*ROWS[0][:6], zero, *ROWS[0][7:]) for zero in (-0.0, 0.0)])
    text = results_of(work_in(tmp_path), values)[0]["statistics"]
    assert '"rate":-0.0' in text.partition("maxValues")[0]
    assert '"rate":0.0' in text.partition("maxValues")[2]


def test_a_text_of_greatest_characters_has_no_bound_that_excludes_it(tmp_path: Path) -> None:
    values, _ = messages([(6, "\U0010ffff" * 30, *ROWS[0][2:])])
    found = json.loads(results_of(work_in(tmp_path), values)[0]["statistics"])
    assert found["maxValues"]["text"] == "\U0010ffff" * 30


def test_a_task_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_files, "_GROUP_ROWS", 2)
    values, _ = messages(ROWS)
    with pytest.raises(Undecodable):
        results_of(work_in(tmp_path), [*values, values[0][:-1]])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_task_without_messages_writes_nothing(tmp_path: Path) -> None:
    assert [of["target"] for of in results_of(work_in(tmp_path), [])] == [COUNTS]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
