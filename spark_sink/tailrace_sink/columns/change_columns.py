"""Messages of a table's topic to Arrow columns of its lake tables.

It has the outcome of ``rows.decode`` over from_avro (tests/property/test_columns.py). What it does
not decode it refuses, and Spark decodes that batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace_sink.columns.arrow_values import lake_type
from tailrace_sink.columns.cursor import Numbers, Undecodable
from tailrace_sink.columns.event_columns import Records, WriterColumns
from tailrace_sink.columns.positions import hash_sum, hashes
from tailrace_sink.columns.spec import Target, Work

_FRAME: Final = 5
AVAILABLE: Final = "_cdc_available_{}"
"""Name of a column with the position of the n-th large value; NULL: the change lacks the value."""


@dataclass(slots=True)
class Decoded:
    """The changes of a batch of messages.

    Attributes:
        count: number of all changes, also of those outside of the cut.
        hashes: sum of the hashes of their positions.
        rows: for each target its changes, with the columns of :attr:`ChangeDecoder.schemas`.
    """

    count: int = 0
    hashes: int = 0
    rows: list[list[pa.RecordBatch]] = field(default_factory=list)


class ChangeDecoder:
    """Decodes messages.

    Raises:
        NotByColumns: a column or a schema is not decoded by columns.
    """

    def __init__(self, work: Work) -> None:
        self._targets = work.targets
        self._schemas = [schema_of(target) for target in work.targets]
        self._writers = [WriterColumns(writer, work) for writer in work.writers]

    @property
    def schemas(self) -> list[pa.Schema]:
        """Arrow schema of each target's changes: its columns, then ``AVAILABLE`` if reduced."""
        return self._schemas

    def decode(self, values: pa.Array) -> Decoded:
        """Decode framed messages without NULL.

        Raises:
            Undecodable: a message is no change, or has a schema that the ledger does not name.
        """
        decoded = Decoded(rows=[[] for _ in self._targets])
        for writer, _, records in self._by_writer(values):
            self._decode(writer, records, decoded)
        return decoded

    def position_hashes(self, values: pa.Array) -> Numbers:
        """Return the hash of each message's position.

        Args:
            values: framed messages without NULL.

        Raises:
            Undecodable: a message is no change, or has a schema that the ledger does not name.
        """
        found = np.zeros(len(values), np.int64)
        for writer, chosen, records in self._by_writer(values):
            found[chosen] = hashes(writer.event(records).positions)
        return found

    def _by_writer(self, values: pa.Array) -> Iterator[tuple[WriterColumns, Numbers, Records]]:
        """Split messages by writer: yield the places of its messages, and their bytes."""
        if not len(values):
            return
        offsets, bytes_ = _buffers(values)
        data = np.frombuffer(bytes_, np.uint8)
        first, ends = offsets[:-1], offsets[1:]
        if (ends - first < _FRAME).any():
            raise Undecodable("a message is shorter than its frame")
        headers = data.take(first[:, None] + np.arange(_FRAME))
        ids = np.ascontiguousarray(headers[:, 1:]).view(">u4").reshape(-1)
        left = len(values)
        for writer in self._writers:
            chosen = np.flatnonzero((ids == writer.schema_id) & (headers[:, 0] == 0))
            left -= len(chosen)
            if len(chosen):
                yield writer, chosen, Records(bytes_, data, first[chosen] + _FRAME, ends[chosen])
        if left:
            raise Undecodable("a message has a schema id that the ledger does not name")

    def _decode(self, writer: WriterColumns, records: Records, decoded: Decoded) -> None:
        event = writer.event(records)
        decoded.count += len(records.first)
        decoded.hashes += hash_sum(event.positions)
        if writer.is_other:
            return
        for target, schema, rows in zip(self._targets, self._schemas, decoded.rows, strict=True):
            arrays = [event.array(column) for column in target.columns]
            arrays += [event.available(column) for column in target.large]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            rows.append(batch if event.chosen is None else batch.filter(event.chosen))


def schema_of(target: Target) -> pa.Schema:
    """Return the Arrow schema of a target's changes.

    Raises:
        NotByColumns: a column is not written by columns.
    """
    fields = []
    for column in target.columns:
        type_ = lake_type(column.type)
        if column.element_id is not None:
            type_ = pa.list_(
                pa.field("element", pa.string(), metadata=_identity(column.element_id))
            )
        fields.append(pa.field(column.physical, type_, metadata=_identity(column.field_id)))
    fields += [
        pa.field(AVAILABLE.format(number), pa.binary()) for number in range(len(target.large))
    ]
    return pa.schema(fields)


def _identity(field_id: int | None) -> dict[str, str]:
    return {} if field_id is None else {"PARQUET:field_id": str(field_id)}


def _buffers(values: pa.Array) -> tuple[Numbers, pa.Buffer]:
    """Return the offsets of messages, and their bytes."""
    is_large = pa.types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    if values.null_count or data is None:
        raise Undecodable("a message has no bytes")
    if len(data) >= 2**31:
        raise Undecodable("a batch has more than 2 GiB")
    every = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    return every[values.offset : values.offset + len(values) + 1].astype(np.int64), data
