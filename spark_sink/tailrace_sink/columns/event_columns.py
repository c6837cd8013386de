"""The columns of decoded messages of one writer schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
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
from tailrace_sink.columns.positions import BYTES, LSN_BYTES, lsn_bytes, within
from tailrace_sink.columns.spec import Column, Work, Writer

_SOURCE: Final = ("commit_lsn", "command_id", "change_lsn", "operation", "ts_ms")
_IMAGES: Final = ("after", "before")
_COMMAND_MAX: Final = 2**31 - 1
_MS_MAX: Final = 2**63 // 1000 - 1


@dataclass(frozen=True, slots=True)
class Records:
    """The places of some messages in the bytes of all.

    Attributes:
        data: the same bytes as ``bytes_``.
        first: position of each record's first byte, after the frame.
        ends: position after its last one.
    """

    bytes_: pa.Buffer
    data: Numbers
    first: Numbers
    ends: Numbers


class WriterColumns:
    """The columns that messages of one writer schema have."""

    def __init__(self, writer: Writer, work: Work) -> None:
        self.schema_id = writer.schema_id
        self.is_other = writer.is_other
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

    def event(self, records: Records) -> EventColumns:
        """Decode messages.

        Raises:
            Undecodable: a message is none of the schema.
        """
        found = self._plan.decode(records.data, records.first, records.ends)
        events = EventColumns(self, records, found)
        if self._after is not None or self._up_to is not None:
            lsn = found.values.get("source.commit_lsn")
            chosen = within(events.positions, self._after, self._up_to)
            there = np.zeros(len(chosen), bool)
            if lsn is not None:
                there[slice(None) if lsn.rows is None else lsn.rows] = True
            chosen &= there
            events.chosen = None if chosen.all() else pa.array(chosen)
        return events


class EventColumns:
    """Decoded messages of one writer schema.

    Attributes:
        chosen: whether each is in the cut; None: all are.
    """

    def __init__(self, writer: WriterColumns, records: Records, found: Found) -> None:
        self._writer = writer
        self._records = records
        self._found = found
        self._count = len(records.first)
        self._arrays: dict[tuple[str, str, bool, str], pa.Array] = {}
        self.chosen: pa.Array | None = None
        self._has_after = self._image("after")
        self.positions = self._positions()

    def array(self, column: Column) -> pa.Array:
        """Return a column of these messages, in the order of the messages."""
        name = column.fields.get(self._writer.schema_id)
        if column.is_presence:
            return pa.array(self._image(column.image))
        if name is None and column.name in _OWN:
            return _OWN[column.name](self)
        if self._writer.schema_id in column.origins:
            text = pa.scalar(column.origins[self._writer.schema_id], lake_type(column.type))
            return pa.repeat(text, self._count)
        if name is None:
            return pa.nulls(self._count, lake_type(column.type))
        key = (name, column.type, column.is_large, column.image)
        if key not in self._arrays:
            array = cast(self._natural(name, column.image), lake_type(column.type))
            self._arrays[key] = self._held(array, name) if column.is_large else array
        array = self._arrays[key]
        if column.is_key and pa.types.is_floating(array.type):
            # Zero has two forms as a float, which SQL Server and Spark's joins take for one key.
            return pc.add(array, pa.scalar(0.0, array.type))
        return array

    def available(self, column: Column) -> pa.Array:
        """Return the position of each message with a value of a large column, else NULL."""
        is_there = pc.fill_null(pc.not_equal(self.operations(), "d"), False)
        name = column.fields.get(self._writer.schema_id)
        if name is not None:
            is_there = pc.and_(is_there, self._is_held(name))
        return pc.if_else(is_there, self.position_bytes(), pa.scalar(None, pa.binary()))

    def position_bytes(self) -> pa.Array:
        """Return the position of each message."""
        offsets = np.arange(0, BYTES * (self._count + 1), BYTES, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.positions)]
        return pa.Array.from_buffers(pa.binary(), self._count, buffers)

    def lsns(self) -> pa.Array:
        """Return the commit LSN of each message, as text."""
        return self._texts(self._found.values.get("source.commit_lsn"))

    def operations(self) -> pa.Array:
        """Return the operation of each message."""
        return self._texts(self._found.values.get("op"))

    def commit_times(self) -> pa.Array:
        """Return the commit time of each message."""
        ms, there = self._dense(self._found.values.get("source.ts_ms"), np.int64)
        if len(ms) and max(-int(ms.min()), int(ms.max())) > _MS_MAX:
            raise Undecodable("a commit time is out of range")
        return numbers(ms * 1000, pa.timestamp("us", "UTC"), there)

    def changed(self) -> pa.Array:
        """Return the names of the changed fields of each message."""
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

    def _natural(self, name: str, image: str) -> pa.Array:
        """Return a field of an image; without one, of that after a change or before a delete."""
        type_ = self._writer.types[name]
        after, before = (
            self._found.values.get(f"{of}.{name}") if image in ("", of) else None for of in _IMAGES
        )
        if before is not None and not image:
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

    def _is_held(self, name: str) -> pa.Array:
        """Whether the change table holds the value of a field, for each message."""
        unavailable = self._lists("source.unavailable")
        is_held = np.ones(self._count, bool)
        if len(unavailable.values):
            parents = pc.list_parent_indices(unavailable)
            named = pc.filter(parents, pc.equal(unavailable.values, name))
            is_held[named.to_numpy()] = False
        return pa.array(is_held)

    def _held(self, array: pa.Array, name: str) -> pa.Array:
        """Replace the placeholders of values that the change table does not hold by NULL."""
        return pc.if_else(self._is_held(name), array, pa.scalar(None, array.type))


_OWN: Final = {
    "_cdc_position": EventColumns.position_bytes,
    "_cdc_lsn": EventColumns.lsns,
    "_cdc_op": EventColumns.operations,
    "_cdc_commit_time": EventColumns.commit_times,
    "_cdc_changed": EventColumns.changed,
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


def _lengths(values: Values) -> Numbers:
    if values.lengths is None:
        raise Undecodable("a field has no length")
    return values.lengths


def _lsn_of(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text.replace(":", ""))
