"""A table is read once, whole, in the order of what tells its rows apart, in bounded chunks."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from tailrace_publisher.errors import SnapshotTooLarge, SourceBehind, SourceBusy
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.table_reader import ChunkLimits, TableReader
from tailrace_publisher.source.pages.page_size import PageLimit
from tests.unit.publisher.snapshot.table_source import (
    START,
    Row,
    TableSource,
    at,
    encoder_of,
    instance_of,
    pending,
)

MEGABYTE = 1_000_000
KEYS = ("a", "b", "c")


def reader_of(
    table: PendingTable, rows: int = 1000, size: int = MEGABYTE, whole: int = MEGABYTE
) -> TableReader:
    limits = ChunkLimits(PageLimit(rows, size), whole)
    return TableReader(table, encoder_of(table), limits, lambda: False)


def chunks_of(reader: TableReader, source: TableSource) -> list[Chunk]:
    chunks = []
    while (chunk := reader.read(source.as_source(), START)) is not None:
        chunks.append(chunk)
        assert len(chunks) <= len(source.rows) + 1, "it does not come to an end"
    return chunks


def images_of(table: PendingTable, rows: list[Row]) -> list[bytes]:
    return encoder_of(table).encode_images(rows, START)[0]


def rows_of(count: int, seed: int = 1) -> list[Row]:
    randomness = random.Random(seed)
    keys = list(itertools.product(range(6), range(7), range(8)))
    return [(*key, f"row {key}") for key in sorted(randomness.sample(keys, count))]


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_row_comes_once_and_in_order(chunk_rows: int, width: int):
    rows = rows_of(100) if width == 3 else [(n // 10 * (width - 1), n, 0, "x") for n in range(100)]
    identity = {1: ("b",), 2: ("a", "b"), 3: KEYS}[width]
    table = pending(instance_of(identity))
    source = TableSource(rows)

    chunks = chunks_of(reader_of(table, chunk_rows), source)

    assert [image for chunk in chunks for image in chunk.images] == images_of(table, rows)
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(len(chunk) == chunk_rows for chunk in chunks[:-1])


def test_a_composite_key_is_read_by_a_seek_for_each_prefix():
    rows = rows_of(300)
    source = TableSource(rows)

    chunks = chunks_of(reader_of(pending(instance_of(KEYS)), 50), source)

    assert not any(" OR " in sql for sql in source.reads)
    wheres = {sql.partition(" WHERE ")[2].partition(" ORDER BY ")[0] for sql in source.reads}
    assert wheres == {
        "",
        "[a] > CAST(? AS int)",
        "[a] = CAST(? AS int) AND [b] > CAST(? AS int)",
        "[a] = CAST(? AS int) AND [b] = CAST(? AS int) AND [c] > CAST(? AS int)",
    }
    # Of each chunk the rest of a pair, the rest of an a, and what is behind.
    assert len(source.reads) <= len(chunks) * len(KEYS) + 1


def test_a_chunk_goes_on_behind_the_last_key_after_a_restart():
    rows = rows_of(100)
    table = pending(instance_of(KEYS))
    first = reader_of(table, 33).read(TableSource(rows).as_source(), START)
    assert first is not None
    again = pending(instance_of(KEYS), first.resume_key)

    rest = chunks_of(reader_of(again, 33), TableSource(rows))

    images = [image for chunk in (first, *rest) for image in chunk.images]
    assert images == images_of(table, rows)


@pytest.mark.parametrize(
    ("resume_key", "goes_on"),
    [
        (json.dumps({"columns": ["b"], "values": ["41"]}), True),
        (json.dumps(["41"]), True),  # of a former version, where the key is the event key
        (json.dumps({"columns": ["a"], "values": ["41"]}), False),
        (json.dumps(["0", "41"]), False),
    ],
)
def test_a_resume_key_of_other_columns_begins_again(resume_key: str, goes_on: bool):
    rows: list[Row] = [(0, n, 0, "x") for n in range(100)]

    (chunk,) = chunks_of(
        reader_of(pending(instance_of(("b",)), resume_key), 1000), TableSource(rows)
    )

    assert len(chunk) == (58 if goes_on else 100)


def test_rows_are_told_apart_by_the_identity_whatever_the_event_key_is():
    rows: list[Row] = [(n, 7, 7, "x") for n in range(10)]
    table = pending(instance_of(("a",), key=("b", "c")))

    chunks = chunks_of(reader_of(table, 4), TableSource(rows))

    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    assert len({identity for chunk in chunks for identity in chunk.identities}) == 10
    assert len({key for chunk in chunks for key in chunk.keys}) == 1


def test_wide_rows_make_small_chunks():
    rows: list[Row] = [(0, n, 0, "x" * (20 if n < 50 else 300_000)) for n in range(60)]
    table = pending(instance_of(("b",)))

    chunks = chunks_of(reader_of(table, size=MEGABYTE), TableSource(rows))

    assert [image for chunk in chunks for image in chunk.images] == images_of(table, rows)
    assert max(chunk.size for chunk in chunks) < MEGABYTE + 310_000
    assert len(chunks) >= 3


def test_a_row_that_is_larger_than_a_chunk_is_a_chunk():
    rows: list[Row] = [(0, n, 0, "x" * 2_000_000) for n in range(3)]

    chunks = chunks_of(reader_of(pending(instance_of(("b",)))), TableSource(rows))

    assert [len(chunk) for chunk in chunks][:3] == [1, 1, 1]


def test_a_table_that_cannot_be_cut_is_one_chunk_or_refused_by_name():
    rows: list[Row] = [(0, n, 0, "x" * 1000) for n in range(100)]
    table = pending(instance_of(()))

    (chunk,) = chunks_of(reader_of(table, rows=10, size=1, whole=MEGABYTE), TableSource(rows))
    assert len(chunk) == 100
    assert chunk.is_last
    assert chunk.resume_key is None

    with pytest.raises(SnapshotTooLarge, match=r"dbo\.t has no primary key.*@index_name") as error:
        reader_of(table, whole=50_000).read(TableSource(rows).as_source(), START)
    assert error.value.rows < 100


def test_an_empty_table_is_one_empty_chunk():
    for identity in ((), ("a",), KEYS):
        (chunk,) = chunks_of(reader_of(pending(instance_of(identity))), TableSource([]))
        assert (len(chunk), chunk.is_last, chunk.resume_key) == (0, True, None)


def test_a_replica_that_is_behind_what_is_out_is_not_read():
    source = TableSource(rows_of(10), newest=at(0x20))

    with pytest.raises(SourceBehind):
        reader_of(pending(instance_of(KEYS))).read(source.as_source(), at(0x21))

    assert not source.reads


def test_the_end_of_the_log_is_asked_for_behind_the_rows():
    source = TableSource(rows_of(10), log_end=at(0x99))

    chunk = reader_of(pending(instance_of(KEYS))).read(source.as_source(), START)

    assert chunk is not None
    assert chunk.log_end == at(0x99)
    assert "dm_db_log_stats" in source.statements[-1]


def test_behind_a_chunk_that_was_not_read_none_is():
    source = TableSource(rows_of(10), error=SourceBusy("locked"))
    reader = reader_of(pending(instance_of(KEYS)))

    with pytest.raises(SourceBusy):
        reader.read(source.as_source(), START)
    source.error = None

    assert reader.read(source.as_source(), START) is None


def test_a_stop_ends_it_between_two_statements():
    table = pending(instance_of(KEYS))
    limits = ChunkLimits(PageLimit(10, MEGABYTE), MEGABYTE)
    source = TableSource(rows_of(10))

    assert (
        TableReader(table, encoder_of(table), limits, lambda: True).read(source.as_source(), START)
        is None
    )
    assert not source.reads
