"""What a process knows of the files of small tables."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from tailrace_sink.files.parquet_files import FileForm
from tailrace_sink.iceberg.files import found_files
from tailrace_sink.iceberg.files.found_files import FoundFile, KnownFiles

KEYS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def test_files_are_known_of_one_snapshot_only():
    known, first, second = KnownFiles(), [FoundFile("a", 10)], [FoundFile("b", 10)]
    known.keep("shop.orders", 1, first)
    assert known.at("shop.orders", 1) == first
    assert known.at("shop.orders", 2) is None, "somebody else has committed"
    assert known.at("shop.lines", 1) is None

    known.keep("shop.orders", 2, second)
    assert known.at("shop.orders", 2) == second
    assert known.at("shop.orders", 1) is None, "the branch was set back"


def test_tables_that_were_not_used_for_long_make_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(found_files, "_KEYS_BYTES_MAX", 2 * KEYS.nbytes)
    known = KnownFiles()
    for table in ("a", "b", "a", "c"):
        known.keep(table, 1, [FoundFile(table, 10, keys=KEYS)])
    assert [known.at(table, 1) is not None for table in "abc"] == [True, False, True]

    known.keep("large", 1, [FoundFile("large", 10, keys=KEYS)] * 9)
    assert [known.at(table, 1) is not None for table in ("a", "c", "large")] == [False, False, True]


def test_a_file_keeps_its_keys_when_rows_leave():
    before = FoundFile("a", 10, keys=KEYS)
    assert before.deleted_rows(None) == BitMap64(), "nothing is read without vectors"

    after = before.without(BitMap64([1]), _Vector())
    assert after.deleted_rows(None) == BitMap64([1]), "nothing is read that was written here"
    assert after.keys is KEYS
    assert after.has_only_vectors
    assert before.deleted_rows(None) == BitMap64()


def test_the_form_of_files_is_read_once():
    known, read = KnownFiles(), []

    def form(name: str) -> FileForm:
        read.append(name)
        return FileForm(name, {}, {}, 0)

    for of in ("schema 1", "schema 1", "schema 2", "schema 2"):
        assert known.form("shop.orders", of, lambda of=of: form(of)).address == of
    assert read == ["schema 1", "schema 2"]


class _Vector:
    """An entry of a deletion vector, as far as its format."""

    def format(self) -> str:
        return "PUFFIN"
