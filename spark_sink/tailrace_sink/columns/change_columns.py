"""Messages of a table's topic to Arrow columns of its lake tables.

It has the outcome of ``rows.decode`` over from_avro (tests/property/test_columns.py). What it does
not decode it refuses, and Spark decodes that batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace_sink.columns.arrow_values import (
    avro_type,
    cast,
    decimals,
    lake_type,
    numbers,
    require_cast,
    texts,
)
from tailrace_sink.columns.avro_plan import AvroPlan, Found, NotByColumns, Values
from tailrace_sink.columns.cursor import Numbers, Undecodable
from tailrace_sink.columns.positions import BYTES, LSN_BYTES, hash_sum, lsn_bytes, within
from tailrace_sink.columns.spec import Column, Target, Work, Writer

_FRAME: Final = 5
_SOURCE: Final = ("commit_lsn", "command_id", "change_lsn", "operation", "ts_ms")
_IMAGES: Final = ("after", "before")
_COMMAND_MAX: Final = 2**31 - 1
_MS_MAX: Final = 2**63 // 1000 - 1


@dataclass(slots=True)
class Decoded:
    """The changes of a batch of messages.

    Attributes:
        count: number of all changes, also of those outside of the cut.
        hashes: sum of the hashes of their positions.
        rows: for each target the rows to write.
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
        self._schemas = [_schema_of(target) for target in work.targets]
        self._writers = [_WriterColumns(writer, work) for writer in work.writers]

    @property
    def schemas(self) -> list[pa.Schema]:
        """Arrow schema of each target's rows."""
        return self._schemas

    def decode(self, values: pa.Array) -> Decoded:
        """Decode framed messages without NULL.

        Raises:
            Undecodable: a message is no change, or has a schema that the ledger does not name.
        """
        decoded = Decoded(rows=[[] for _ in self._targets])
        if not len(values):
            return decoded
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
                records = _Records(bytes_, data, first[chosen] + _FRAME, ends[chosen])
                self._decode(writer, records, decoded)
        if left:
            raise Undecodable("a message has a schema id that the ledger does not name")
        return decoded

    def _decode(self, writer: _WriterColumns, records: _Records, decoded: Decoded) -> None:
        event = writer.event(records)
        decoded.count += len(records.first)
        decoded.hashes += hash_sum(event.positions)
        for target, schema, rows in zip(self._targets, self._schemas, decoded.rows, strict=True):
            arrays = [event.array(column) for column in target.columns]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            rows.append(batch if event.chosen is None else batch.filter(event.chosen))


@dataclass(frozen=True, slots=True)
class _Records:
    bytes_: pa.Buffer
    data: Numbers
    first: Numbers
    ends: Numbers


class _WriterColumns:
    """The columns that messages of one writer schema have."""

    def __init__(self, writer: Writer, work: Work) -> None:
        self.schema_id = writer.schema_id
        every = [column for target in work.targets for column in target.columns]
        self.types: dict[str, pa.DataType] = {}
        images = {of["name"]: of["type"] for of in _image_fields(json.loads(writer.avro))}
        for column in every:
            name = column.fields.get(writer.schema_id)
            if name is not None:
                self.types[name] = avro_type(images[name])
                require_cast(self.types[name], lake_type(column.type))
        wanted = {f"{image}.{name}" for image in _IMAGES for name in self.types}
        wanted |= {"op", *(f"source.{name}" for name in _SOURCE)}
        if any(column.type == "ARRAY<STRING>" for column in every):
            wanted.add("source.changed")
        if any(column.is_large for column in every):
            wanted.add("source.unavailable")
        self._plan = AvroPlan(writer.avro, wanted)
        self._after, self._up_to = map(_lsn_of, (work.after_lsn, work.up_to_lsn))

    def event(self, records: _Records) -> _Events:
        found = self._plan.decode(records.data, records.first, records.ends)
        events = _Events(self, records, found)
        if self._after is not None or self._up_to is not None:
            lsn = found.values.get("source.commit_lsn")
            chosen = within(events.positions, self._after, self._up_to)
            there = np.zeros(len(chosen), bool)
            if lsn is not None:
                there[slice(None) if lsn.rows is None else lsn.rows] = True
            chosen &= there
            events.chosen = None if chosen.all() else pa.array(chosen)
        return events


class _Events:
    """Decoded messages of one writer schema.

    Attributes:
        chosen: whether each is in the cut; None: all are.
    """

    def __init__(self, writer: _WriterColumns, records: _Records, found: Found) -> None:
        self._writer = writer
        self._records = records
        self._found = found
        self._count = len(records.first)
        self._arrays: dict[tuple[str, str, bool], pa.Array] = {}
        self.chosen: pa.Array | None = None
        self._has_after = self._image("after")
        self.positions = self._positions()

    def array(self, column: Column) -> pa.Array:
        """Return a column of these messages, in the order of the messages."""
        name = column.fields.get(self._writer.schema_id)
        if name is None and column.name in _OWN:
            return _OWN[column.name](self)
        if name is None:
            return pa.nulls(self._count, lake_type(column.type))
        key = (name, column.type, column.is_large)
        if key not in self._arrays:
            array = cast(self._natural(name), lake_type(column.type))
            self._arrays[key] = self._held(array, name) if column.is_large else array
        return self._arrays[key]

    def position_bytes(self) -> pa.Array:
        offsets = np.arange(0, BYTES * (self._count + 1), BYTES, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.positions)]
        return pa.Array.from_buffers(pa.binary(), self._count, buffers)

    def lsns(self) -> pa.Array:
        return self._texts(self._found.values.get("source.commit_lsn"))

    def operations(self) -> pa.Array:
        return self._texts(self._found.values.get("op"))

    def commit_times(self) -> pa.Array:
        ms, there = self._dense(self._found.values.get("source.ts_ms"), np.int64)
        if len(ms) and max(-int(ms.min()), int(ms.max())) > _MS_MAX:
            raise Undecodable("a commit time is out of range")
        return numbers(ms * 1000, pa.timestamp("us", "UTC"), there)

    def changed(self) -> pa.Array:
        return self._lists("source.changed")

    def _image(self, image: str) -> Numbers:
        there = np.zeros(self._count, bool)
        if image in self._found.there:
            rows = self._found.there[image]
            there[slice(None) if rows is None else rows] = True
        return there

    def _positions(self) -> Numbers:
        """Compute ``ChangePosition.to_bytes`` of each message."""
        packed = np.zeros((self._count, BYTES), np.uint8)
        values = self._found.values
        for name, place in (("commit_lsn", 0), ("change_lsn", LSN_BYTES + 4)):
            lsn = values.get(f"source.{name}")
            if lsn is not None and lsn.lengths is not None:
                rows = slice(None) if lsn.rows is None else lsn.rows
                found = texts(self._records.bytes_, lsn.data, lsn.lengths, pa.binary(), None)
                packed[rows, place : place + LSN_BYTES] = lsn_bytes(found)
        for name, place, size, most in (
            ("command_id", LSN_BYTES, 4, _COMMAND_MAX),
            ("operation", BYTES - 1, 1, 255),
        ):
            number = values.get(f"source.{name}")
            if number is None or not len(number.data):
                continue
            if number.data.min() < 0 or number.data.max() > most:
                raise Undecodable(f"source.{name} is out of range")
            rows = slice(None) if number.rows is None else number.rows
            digits = number.data.astype(f">u{size}").view(np.uint8).reshape(-1, size)
            packed[rows, place : place + size] = digits
        return packed

    def _natural(self, name: str) -> pa.Array:
        """Return the field of the image after a change, or of that before a delete."""
        type_ = self._writer.types[name]
        after, before = (self._found.values.get(f"{image}.{name}") for image in _IMAGES)
        if before is not None:
            before = self._without_after(before)
        if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_decimal(type_):
            first, lengths, there = self._spans(after, before)
            if pa.types.is_decimal(type_):
                return decimals(self._records.data, first, lengths, type_, there)
            return texts(self._records.bytes_, first, lengths, type_, there)
        numbers_, there = self._dense(after, None, before)
        return numbers(numbers_, type_, there)

    def _without_after(self, values: Values) -> Values | None:
        """Select the values of messages without an image after the change."""
        rows = np.arange(self._count) if values.rows is None else values.rows
        chosen = ~self._has_after[rows]
        if not chosen.any():
            return None
        lengths = None if values.lengths is None else values.lengths[chosen]
        return Values(rows[chosen], values.data[chosen], lengths)

    def _dense(
        self, values: Values | None, dtype: Any, others: Values | None = None
    ) -> tuple[Numbers, Numbers | None]:
        """Return a number for each message, and where there is one (None: everywhere)."""
        if values is not None and values.rows is None and others is None:
            return values.data, None
        parts = [part for part in (values, others) if part is not None]
        dense = np.zeros(self._count, parts[0].data.dtype if parts else (dtype or np.int64))
        there = np.zeros(self._count, bool)
        for part in parts:
            rows = slice(None) if part.rows is None else part.rows
            dense[rows], there[rows] = part.data, True
        return dense, there

    def _spans(
        self, values: Values | None, others: Values | None = None
    ) -> tuple[Numbers, Numbers, Numbers | None]:
        """Return the place of a text in each message, and where there is one."""
        if values is not None and values.rows is None and others is None:
            return values.data, _lengths(values), None
        first, lengths = self._records.first.copy(), np.zeros(self._count, np.int64)
        there = np.zeros(self._count, bool)
        for part in (values, others):
            if part is not None:
                rows = slice(None) if part.rows is None else part.rows
                first[rows], lengths[rows], there[rows] = part.data, _lengths(part), True
        return first, lengths, there

    def _texts(self, values: Values | None) -> pa.Array:
        first, lengths, there = self._spans(values)
        return texts(self._records.bytes_, first, lengths, pa.string(), there)

    def _lists(self, path: str) -> pa.Array:
        found = self._found.values[path]
        if found.rows is not None or found.firsts is None:
            raise Undecodable(f"{path} is missing")
        items = texts(self._records.bytes_, found.firsts, _lengths(found), pa.string(), None)
        offsets = np.zeros(self._count + 1, np.int32)
        np.cumsum(found.data, out=offsets[1:])
        type_ = lake_type("ARRAY<STRING>")
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=type_)

    def _held(self, array: pa.Array, name: str) -> pa.Array:
        """Replace the placeholders of values that the change table does not hold by NULL."""
        unavailable = self._lists("source.unavailable")
        if not len(unavailable.values):
            return array
        named = pc.filter(pc.list_parent_indices(unavailable), pc.equal(unavailable.values, name))
        is_held = np.ones(self._count, bool)
        is_held[named.to_numpy()] = False
        return pc.if_else(pa.array(is_held), array, pa.scalar(None, array.type))


_OWN: Final = {
    "_cdc_position": _Events.position_bytes,
    "_cdc_lsn": _Events.lsns,
    "_cdc_op": _Events.operations,
    "_cdc_commit_time": _Events.commit_times,
    "_cdc_changed": _Events.changed,
}
"""The sink's own columns."""


def _image_fields(envelope: Any) -> Sequence[Any]:
    """Return the fields of the images of an envelope's schema."""
    try:
        (before,) = (of["type"] for of in envelope["fields"] if of["name"] == "before")
        (record,) = (branch for branch in before if branch != "null")
        fields: Sequence[Any] = record["fields"]
    except (KeyError, TypeError, ValueError) as error:
        raise NotByColumns("not the schema of an envelope") from error
    return fields


def _schema_of(target: Target) -> pa.Schema:
    fields = []
    for column in target.columns:
        identity = {} if column.field_id is None else {"PARQUET:field_id": str(column.field_id)}
        fields.append(pa.field(column.physical, lake_type(column.type), metadata=identity))
    return pa.schema(fields)


def _lengths(values: Values) -> Numbers:
    if values.lengths is None:
        raise Undecodable("a field has no length")
    return values.lengths


def _lsn_of(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text.replace(":", ""))


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
