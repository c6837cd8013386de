"""How pyodbc returns values of types that it does not know, or knows only with a loss."""

from __future__ import annotations

import struct
from typing import Any, Final

_DATETIMEOFFSET: Final = -155
"""SQL_SS_TIMESTAMPOFFSET, https://learn.microsoft.com/sql/relational-databases/native-client-odbc-date-time/data-type-support-for-odbc-date-and-time-improvements"""
_CLR_TYPE: Final = -151
"""SQL_SS_UDT: hierarchyid, geometry and geography, as their bytes."""
_CHAR: Final = 1
_WIDE_CHAR: Final = -8
NATIONAL_TEXT: Final = (-8, -9, -10)
"""SQL_WCHAR, SQL_WVARCHAR, SQL_WLONGVARCHAR: nchar, nvarchar, nvarchar(max) and ntext."""
_DATETIMEOFFSET_LAYOUT: Final = struct.Struct("<6hI2h")


def add_converters(odbc: Any) -> None:
    """Let a connection return (var)char as UTF-16, and the types that pyodbc does not know."""
    # By default (var)char arrives in the locale's code page; UTF-16 loses nothing anywhere.
    odbc.setdecoding(_CHAR, encoding="utf-16le", ctype=_WIDE_CHAR)
    odbc.add_output_converter(_DATETIMEOFFSET, datetimeoffset_text)
    odbc.add_output_converter(_CLR_TYPE, bytes)


def utf16_text(raw: bytes) -> str:
    """Return text of UTF-16 code units; half a surrogate pair stays one."""
    return raw.decode("utf-16le", "surrogatepass")


def datetimeoffset_text(raw: bytes) -> str:
    """Return ISO 8601 text with seven digits and the offset, from the driver's structure."""
    year, month, day, hour, minute, second, nanos, offset_h, offset_min = (
        _DATETIMEOFFSET_LAYOUT.unpack(raw)
    )
    sign = "-" if offset_h < 0 or offset_min < 0 else "+"
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{nanos // 100:07d}"
        f"{sign}{abs(offset_h):02d}:{abs(offset_min):02d}"
    )
