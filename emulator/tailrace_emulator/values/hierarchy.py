"""hierarchyid: paths such as ``/1/2.1/`` as bits whose order is that of the paths, and back.

A path is a sequence of labels, each an integer in a pattern of bits that its range decides. The
letters x are the integer's distance from the begin of the range. The T is 1 if a slash follows and
0 if a dot does. The integer before a dot is one more than it is shown as. The bits fill bytes from
the left; zeros fill the last one.

https://learn.microsoft.com/openspecs/sql_standards/ms-ssclrt, OrdPath; checked against values of
SQL Server's that are published: ``/1/`` is 0x58, ``/1/1/`` 0x5AC0, ``/98/`` 0xE02540.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

BYTES_MAX: Final = 892


class _Range(NamedTuple):
    low: int
    high: int
    pattern: str


_LONG_TAIL: Final = "0" + "x" * 21 + "0xxxxxx0xxx0x1xxxT"
_RANGES: Final = (
    _Range(-281479271682120, -4294971465, "000100" + "x" * 14 + _LONG_TAIL),
    _Range(-4294971464, -4169, "000101" + "x" * 19 + "0xxxxxx0xxx0x1xxxT"),
    _Range(-4168, -73, "000110xxxxx0xxx0x1xxxT"),
    _Range(-72, -9, "0010xx0x1xxxT"),
    _Range(-8, -1, "00111xxxT"),
    _Range(0, 3, "01xxT"),
    _Range(4, 7, "100xxT"),
    _Range(8, 15, "101xxxT"),
    _Range(16, 79, "110xx0x1xxxT"),
    _Range(80, 1103, "1110xxx0xxx0x1xxxT"),
    _Range(1104, 5199, "11110xxxxx0xxx0x1xxxT"),
    _Range(5200, 4294972495, "111110" + "x" * 19 + "0xxxxxx0xxx0x1xxxT"),
    _Range(4294972496, 281479271683151, "111111" + "x" * 14 + _LONG_TAIL),
)
_PATH: Final = re.compile(r"/(?:-?\d+(?:\.-?\d+)*/)*")
_LABEL: Final = re.compile(r"(-?\d+)([./])")


def parsed(text: str) -> bytes | None:
    """The value of a path; None where the text is none, or a label is out of range."""
    if not _PATH.fullmatch(text):
        return None
    bits = []
    for number, end in _LABEL.findall(text):
        label = int(number) + (end == ".")
        found = next((r for r in _RANGES if r.low <= label <= r.high), None)
        if found is None:
            return None
        bits.append(_written(found, label - found.low, ends=end == "/"))
    joined = "".join(bits)
    joined += "0" * (-len(joined) % 8)
    raw = int(joined, 2).to_bytes(len(joined) // 8, "big") if joined else b""
    return raw if len(raw) <= BYTES_MAX else None


def shown(value: bytes) -> str | None:
    """The path of a value; None where the bytes are no value."""
    bits = "".join(f"{byte:08b}" for byte in value)
    parts = ["/"]
    place, ends = 0, True
    while "1" in bits[place:]:
        found = next((r for r in _RANGES if _matches(r.pattern, bits[place:])), None)
        if found is None:
            return None
        taken = bits[place : place + len(found.pattern)]
        digits = "".join(b for b, p in zip(taken, found.pattern, strict=True) if p == "x")
        ends = taken[-1] == "1"
        parts.append(f"{found.low + int(digits, 2) - (not ends)}{'/' if ends else '.'}")
        place += len(found.pattern)
    return "".join(parts) if ends and len(bits) - place < 8 else None


def _written(found: _Range, distance: int, *, ends: bool) -> str:
    digits = iter(f"{distance:0{found.pattern.count('x')}b}")
    return "".join(
        next(digits) if bit == "x" else str(int(ends)) if bit == "T" else bit
        for bit in found.pattern
    )


def _matches(pattern: str, bits: str) -> bool:
    return len(bits) >= len(pattern) and all(
        p in "xT" or p == b for p, b in zip(pattern, bits, strict=False)
    )
