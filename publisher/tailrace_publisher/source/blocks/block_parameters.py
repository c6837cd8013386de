"""Parameters of statements of a block connection."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from tailrace_publisher.source.connection.odbc import wide

_INPUT: Final = 1
_BINARY, _INTEGER, _BIGINT, _WVARCHAR = -3, 4, -5, -9
_C_BINARY, _C_LONG, _C_BIGINT, _C_WCHAR = -2, 4, -25, -8


def bind_parameter(call: Callable[..., int], number: int, value: object) -> tuple[Any, Any]:
    """Bind a parameter: bytes as varbinary, str as nvarchar, int as int or bigint.

    Args:
        call: calls a function of the driver on the statement.

    Returns:
        Memory that the driver reads when the statement runs.
    """
    buffer: Any
    if isinstance(value, bytes):
        c_type, sql_type, size = _C_BINARY, _BINARY, max(len(value), 1)
        buffer = ctypes.create_string_buffer(value, size)
        length = len(value)
    elif isinstance(value, int):
        is_small = -(2**31) <= value < 2**31
        c_type, sql_type = (_C_LONG, _INTEGER) if is_small else (_C_BIGINT, _BIGINT)
        buffer = ctypes.c_int32(value) if is_small else ctypes.c_int64(value)
        size, length = 0, ctypes.sizeof(buffer)
    elif isinstance(value, str):
        c_type, sql_type = _C_WCHAR, _WVARCHAR
        buffer, units = wide(value)
        size, length = max(units, 1), 2 * units
    else:
        raise TypeError(f"no parameter of type {type(value).__name__}")
    indicator = ctypes.c_ssize_t(length)
    call(
        "SQLBindParameter",
        *(number, _INPUT, c_type, sql_type, size, 0),
        *(ctypes.addressof(buffer), ctypes.sizeof(buffer), ctypes.addressof(indicator)),
    )
    return buffer, indicator
