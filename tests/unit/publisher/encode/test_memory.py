"""What an encoder remembers is bounded in bytes, and is the same bytes again."""

from __future__ import annotations

import random
import subprocess
import sys

from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.envelopes.remembered_parts import (
    REMEMBERED_BYTES_MAX,
    RememberedParts,
)
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

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


def remembered_by(encoder: EnvelopeEncoder) -> list[RememberedParts]:
    cells = [cell for kernel in encoder._writer._kernels for cell in kernel.__closure__ or ()]
    return [c.cell_contents for c in cells if isinstance(c.cell_contents, RememberedParts)]


def test_masks_of_wide_tables_are_not_remembered_without_bound():
    draw = random.Random(5)
    encoder = EnvelopeEncoder("server", SCHEMA, "t", 1, None)
    masks = [draw.randbytes(COLUMNS // 8) for _ in range(60)]
    once = [encoder.encode(update(7, mask), {COMMIT: 1}).values for mask in masks]
    (held,) = remembered_by(encoder)

    assert sum(map(len, held.values())) <= REMEMBERED_BYTES_MAX
    assert len(held) > 1
    assert [encoder.encode(update(7, mask), {COMMIT: 1}).values for mask in masks] == once


def test_the_rows_of_a_large_transaction_share_what_is_remembered():
    encoder = EnvelopeEncoder("server", SCHEMA, "t", 1, None)
    rows = [row for number in range(50) for row in update(number, b"\x01" * 125)]
    encoder.encode(rows, {COMMIT: 1})

    assert list(map(len, remembered_by(encoder))) == [1]


IN_BLOCKS = """
import sys
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_schemas.events.forms import EventForm
from tests.property.test_encode_blocks import COMMIT, KEY, TEXT, block_encoder, block_of, row
from tests.property.test_encode_roundtrip import schema_of

rows = [row(), row(1, 2), row(3, 3), row(4, 3, 2), row(3, 4), row(4, 4)]
for treatment in (Treatment(form=form, skips_unchanged=True) for form in list(EventForm)[:2]):
    encoder = block_encoder(schema_of([KEY, TEXT]), treatment)
    assert len(encoder.encode([block_of(encoder, rows)], {COMMIT: 1})) == 4
print(sorted({"numpy", "pyarrow", "pandas"} & sys.modules.keys()))
"""


def test_blocks_are_encoded_without_pandas_which_arrow_imports_where_it_can():
    done = subprocess.run([sys.executable, "-c", IN_BLOCKS], capture_output=True, check=False)

    assert done.stdout.split(b"\n")[0] == b"['numpy', 'pyarrow']", done.stderr.decode()
