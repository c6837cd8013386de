"""What an encoder remembers is bounded in bytes, and is the same bytes again."""

from __future__ import annotations

import random

from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.encode.source_parts import SUFFIXES_BYTES_MAX
from tailrace_schemas.envelope import SchemaColumn, TableSchema
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.topics import TableName
from tailrace_schemas.types import ColumnType

COLUMNS = 1000
SCHEMA = TableSchema(
    TableName("db", "dbo", "wide"),
    "dbo_wide",
    Lsn(1, 0, 1),
    tuple(
        SchemaColumn(n, f"a_column_with_a_long_name_{n}", ColumnType("int"))
        for n in range(1, COLUMNS + 1)
    ),
)
COMMIT = Lsn(1, 1, 1).to_bytes()


def update(number: int, mask: bytes) -> list[tuple[object, ...]]:
    seqval = Lsn(1, 1, number).to_bytes()
    values = [number] * COLUMNS
    return [(COMMIT, number, seqval, operation, mask, *values) for operation in (3, 4)]


def test_masks_of_wide_tables_are_not_remembered_without_bound():
    draw = random.Random(5)
    encoder = EnvelopeEncoder("server", SCHEMA, "t", 1, None)
    masks = [draw.randbytes(COLUMNS // 8) for _ in range(60)]
    once = [encoder.encode(update(7, mask), {COMMIT: 1}).values for mask in masks]
    held = encoder._source.suffixes

    assert sum(map(len, held.values())) <= SUFFIXES_BYTES_MAX
    assert len(held) > 1
    assert [encoder.encode(update(7, mask), {COMMIT: 1}).values for mask in masks] == once


def test_the_rows_of_a_large_transaction_share_what_is_remembered():
    encoder = EnvelopeEncoder("server", SCHEMA, "t", 1, None)
    rows = [row for number in range(50) for row in update(number, b"\x01" * 125)]
    encoder.encode(rows, {COMMIT: 1})

    assert len(encoder._source.suffixes) == 1
