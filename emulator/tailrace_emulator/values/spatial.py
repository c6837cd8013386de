"""geometry and geography: a point's text as the bytes of its value.

Only points: whether other shapes are valid, which their bytes say, is a computation of SQL
Server's own.

https://learn.microsoft.com/openspecs/sql_standards/ms-ssclrt, GEOMETRY. The value is SRID (4
bytes), version 1, properties (1 has Z, 2 has M, 4 is valid, 8 is a single point). Then come the
coordinates as doubles; those of geography with the latitude first.
"""

from __future__ import annotations

import re
import struct
from typing import Final

LATITUDE_MAX: Final = 90.0
LONGITUDE_MAX: Final = 15069.0
_NUMBER: Final = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_POINT: Final = re.compile(
    rf"\s*POINT\s*\(\s*({_NUMBER})\s+({_NUMBER})(?:\s+({_NUMBER}))?(?:\s+({_NUMBER}))?\s*\)\s*",
    re.IGNORECASE,
)
_HEADER_BYTES: Final = 6
_VERSIONS: Final = (1, 2)
_GEOGRAPHY_SRID: Final = 4326


def point(text: str, *, geography: bool) -> bytes | None:
    """The value of ``POINT (x y [z [m]])``; None for any other text.

    Args:
        text: the well-known text of one.
        geography: whether x and y are longitude and latitude.

    Raises:
        ValueError: a latitude or longitude that is none.
    """
    found = _POINT.fullmatch(text)
    if found is None:
        return None
    x, y, z, m = (None if part is None else float(part) for part in found.groups())
    if x is None or y is None:
        return None
    if geography:
        if abs(y) > LATITUDE_MAX:
            raise ValueError("24201: Latitude values must be between -90 and 90 degrees")
        if abs(x) > LONGITUDE_MAX:
            raise ValueError("24202: Longitude values must be between -15069 and 15069 degrees")
        x, y = y, x
    properties = 0x04 | 0x08 | (z is not None) | (m is not None) << 1
    further = [value for value in (z, m) if value is not None]
    srid = _GEOGRAPHY_SRID if geography else 0
    return struct.pack(f"<iBB{2 + len(further)}d", srid, 1, properties, x, y, *further)


def is_value(raw: bytes) -> bool:
    """Whether bytes begin as those of a value do."""
    if len(raw) < _HEADER_BYTES:
        return raw == b"\xff" * 4  # NULL as a value of its own
    return raw[4] in _VERSIONS
