"""Single values of a block, as the row by row reader returns them: for the key at its end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, Form

_DATE: Final = struct.Struct("<hHH")
_TIMESTAMP: Final = struct.Struct("<hHHHHHI")
_TIME: Final = struct.Struct("<HHHxxI")
_NUMERIC: Final = struct.Struct("<BbB16s")


def value_of(cell: Cell, cells: Cells, row: int) -> Any:
    """Return the value of a row, which is not NULL.

    Raises:
        Declined: only the reference can read it.
    """
    length = int(cells.lengths[row])
    if length < 0 or cell.form not in _VALUES:
        raise Declined("a key column without a value")
    raw = cells.data[row].tobytes()
    return _VALUES[cell.form](cell, raw, length)


def _numeric(cell: Cell, raw: bytes, length: int) -> Decimal:
    del length
    _, _, sign, magnitude = _NUMERIC.unpack(raw)
    digits = Decimal(int.from_bytes(magnitude, "little")).as_tuple().digits
    return Decimal((int(sign == 0), digits, -cell.scale))


def _date(cell: Cell, raw: bytes, length: int) -> date:
    del cell, length
    return date(*_DATE.unpack(raw))


def _timestamp(cell: Cell, raw: bytes, length: int) -> datetime:
    del cell, length
    year, month, day, hour, minute, second, nanoseconds = _TIMESTAMP.unpack(raw)
    micros = nanoseconds // 1000
    return datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - without a zone


def _time(cell: Cell, raw: bytes, length: int) -> time:
    del cell, length
    hour, minute, second, nanoseconds = _TIME.unpack(raw)
    return time(hour, minute, second, nanoseconds // 1000)


def _text(cell: Cell, raw: bytes, length: int) -> str:
    del cell
    try:
        return raw[:length].decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise Declined("half a surrogate pair") from error


_VALUES: Final[dict[Form, Callable[[Cell, bytes, int], Any]]] = {
    Form.BIT: lambda _, raw, __: bool(raw[0]),
    Form.LONG: lambda _, raw, __: struct.unpack("<q", raw)[0],
    Form.SINGLE: lambda _, raw, __: struct.unpack("<f", raw)[0],
    Form.DOUBLE: lambda _, raw, __: struct.unpack("<d", raw)[0],
    Form.NUMERIC: _numeric,
    Form.DATE: _date,
    Form.TIMESTAMP: _timestamp,
    Form.TIME: _time,
    Form.GUID: lambda _, raw, __: str(UUID(bytes_le=raw)).upper(),
    Form.TEXT: _text,
    Form.ASCII: lambda _, raw, length: raw[:length].decode("ascii"),
    Form.BYTES: lambda _, raw, length: raw[:length],
}
