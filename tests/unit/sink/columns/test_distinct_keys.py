"""Keys of written files are compared without Spark."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.columns import distinct_keys
from tailrace_sink.columns.distinct_keys import are_distinct, keys_in
from tailrace_sink.columns.spec import Target
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.tables.lake_table import Kind, LakeTable


def has_distinct_keys(folder: Path, names: list[str], key: list[str]) -> bool:
    keys = keys_in(str(folder), names, key, None)
    return keys is not None and are_distinct(keys)


TABLE = LakeTable(TableName("shop", "dbo", "t"), Kind.MIRROR, (), "")


def never(*_: Any) -> None:
    raise AssertionError("nothing is appended here")


def written(folder: Path, *files: list[tuple[Any, ...]]) -> list[str]:
    names = []
    for number, rows in enumerate(files):
        columns = list(zip(*rows, strict=True))
        names.append(f"{number}.parquet")
        pq.write_table(
            pa.table({f"c{n}": list(column) for n, column in enumerate(columns)}),
            folder / names[-1],
        )
    return names


@pytest.mark.parametrize(
    ("again", "is_distinct"),
    [
        ((3, "a", b"\x00"), True),
        ((2, "A", b"\x00"), True),
        ((2, "a ", b"\x00"), True),
        ((2, "a", b""), True),
        ((2, "a", b"\x00"), False),
    ],
)
def test_a_key_repeats_within_a_file_and_between_files(
    tmp_path: Path, again: tuple[Any, ...], is_distinct: bool
):
    rows = [(1, "a", b"\x00"), (2, "a", b"\x00"), (2, "b", b"\x00")]
    for files in ((rows, [again]), ([*rows, again],), ([again], rows, [(9, "z", b"z")])):
        names = written(tmp_path, *files)
        found = has_distinct_keys(tmp_path, names, ["c0", "c1", "c2"])
        assert found is is_distinct


def test_names_in_parquet_are_those_of_the_tables_form(tmp_path: Path):
    pq.write_table(pa.table({"a": [1, 1], "a.b": [1, 2], "a b": [3, 3]}), tmp_path / "0.parquet")
    types = dict.fromkeys(("id", "text"), "BIGINT")
    form = FileForm(str(tmp_path), types, {"id": ("a.b", 1), "text": ("a", 2)}, 32)
    files = (ParquetFile("0.parquet", 1, "{}"),)
    written = CountedFiles(TABLE, form, files, Target(str(tmp_path), (), 0), None, never)
    nothing = CountedFiles(TABLE, form, (), Target(str(tmp_path), (), 0), None, never)
    assert written.has_distinct(["id"])
    assert written.has_distinct(["text", "id"])
    assert not written.has_distinct(["text"])
    assert nothing.has_distinct(["id"])
    assert nothing.keys(["id"]) is None
    rest = replace(nothing, rest=files)
    keys = rest.keys(["text", "id"])
    assert keys is not None
    assert keys.to_pylist() == [{"text": 1, "id": 1}, {"text": 1, "id": 2}]


def test_only_the_columns_of_the_key_count(tmp_path: Path):
    names = written(tmp_path, [(Decimal("1.00"), 7), (Decimal("1.01"), 7)])
    assert has_distinct_keys(tmp_path, names, ["c0"])
    assert not has_distinct_keys(tmp_path, names, ["c1"])


def test_what_cannot_be_compared_is_not_known_to_be_distinct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = written(tmp_path, [(1,), (2,)], [(3,), (4,)])
    (tmp_path / "damaged").write_bytes(b"PAR1")
    for name in ("missing", "damaged"):
        assert not has_distinct_keys(tmp_path, [*names, name], ["c0"])
    assert has_distinct_keys(tmp_path, names, ["c0"])
    monkeypatch.setattr(distinct_keys, "_BYTES_MAX", 20)
    assert not has_distinct_keys(tmp_path, names, ["c0"])


@pytest.mark.parametrize("is_offered", [False, True])
def test_files_that_no_version_can_have_are_deleted(tmp_path: Path, is_offered: bool):
    names = written(tmp_path, [(1,)], [(2,)])
    row, rest = (ParquetFile(name, 1, "{}") for name in names)
    target, form = Target(str(tmp_path), (), 0), FileForm(str(tmp_path), {}, {}, 32)
    missing = ParquetFile("missing", 1, "{}")
    files = CountedFiles(
        TABLE, form, (row,), target, None, never, (missing, rest), is_offered=is_offered
    )
    files.discard()
    assert [path.name for path in tmp_path.iterdir()] == ([row.name] if is_offered else [])
