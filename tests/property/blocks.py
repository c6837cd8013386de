"""Puts Python values into the cells of a block, as the driver does it; by ODBC's layouts alone."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np

from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.header import HEADER_CELLS
from tailrace_publisher.encode.columns.column_forms import Cell, Form

_WIDE = Context(prec=60)
HEADER = HEADER_CELLS


def cells_of(cell: Cell, values: Sequence[Any]) -> Cells:
    """A column of a block; what is behind a value's bytes is left over from other rows."""
    data = np.frombuffer(b"\xa5" * (cell.width * len(values)), np.uint8).copy()
    data = data.reshape(len(values), cell.width)
    lengths = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        if value is None:
            lengths[row] = -1
            continue
        raw, lengths[row] = _raw(cell, value)
        data[row, : len(raw)] = np.frombuffer(raw, np.uint8)
    return Cells(data, lengths)


def _raw(cell: Cell, value: Any) -> tuple[bytes, int]:
    """Bytes of the cell, and the length that the driver tells."""
    if cell.form is Form.TEXT:
        raw = value.encode("utf-16-le", "surrogatepass")
        return raw + b"\0\0", len(raw)
    if cell.form is Form.ASCII:
        # Of a code page with one byte for each character; which one is the server's business.
        raw = bytes(min(ord(character), 0xFF) for character in value)
        return raw, len(raw)
    raw = bytes(value) if cell.form is Form.BYTES else _FIXED[cell.form](value, cell)
    return raw, len(raw)


def _numeric(value: Decimal, cell: Cell) -> bytes:
    unscaled = int(value.scaleb(cell.scale, _WIDE))
    sign = 0 if unscaled < 0 else 1
    return struct.pack("<BbB", cell.precision, cell.scale, sign) + abs(unscaled).to_bytes(
        16, "little"
    )


def _timestamp(value: dt.datetime, _: Cell) -> bytes:
    # The digit of 100 ns is cut, so any does.
    nanos = value.microsecond * 1000 + 700
    return struct.pack("<h5HI", *value.timetuple()[:6], nanos)


def _time(value: dt.time, _: Cell) -> bytes:
    return struct.pack(
        "<HHHxxI", value.hour, value.minute, value.second, value.microsecond * 1000 + 900
    )


def _timestamp_offset(text: str, _: Cell) -> bytes:
    date, _, rest = text.partition("T")
    clock, fraction, sign, zone = rest[:8], rest[9:16], rest[16], rest[17:]
    hours, minutes = (int(part) * (-1 if sign == "-" else 1) for part in zone.split(":"))
    return struct.pack(
        "<h5HI2h",
        *map(int, date.split("-")),
        *map(int, clock.split(":")),
        int(fraction) * 100,
        hours,
        minutes,
    )


_FIXED = {
    Form.BIT: lambda value, _: bytes([value]),
    Form.LONG: lambda value, _: struct.pack("<q", value),
    Form.SINGLE: lambda value, _: struct.pack("<f", value),
    Form.DOUBLE: lambda value, _: struct.pack("<d", value),
    Form.NUMERIC: _numeric,
    Form.DATE: lambda value, _: struct.pack("<hHH", value.year, value.month, value.day),
    Form.TIMESTAMP: _timestamp,
    Form.TIME: _time,
    Form.TIMESTAMP_OFFSET: _timestamp_offset,
    Form.GUID: lambda value, _: value.bytes_le,
}
