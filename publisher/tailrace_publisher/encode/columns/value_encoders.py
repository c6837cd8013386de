"""Encoders of one Avro type each: a sequence of values in, a list of Avro bytes out.

Each encoder is one list comprehension. Apparent repetition is unrolled on purpose, because a call
per value costs more than the encoding. ``optional`` puts the branch of ``["null", type]`` first.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

from tailrace_publisher.encode.columns.varint import (
    CONTINUED,
    DIGIT_MASK,
    FINAL,
    NULL,
    OPTIONAL_CONTINUED,
    OPTIONAL_FINAL,
    PRESENT,
    encode_long,
)

ColumnEncoder = Callable[[Sequence[Any]], list[bytes]]


_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local-timestamp-micros has no zone


_EPOCH_DATE: Final = dt.date(1970, 1, 1)


_MICROSECOND: Final = dt.timedelta(microseconds=1)


# The default context silently rounds at 28 digits; decimal(38) needs more, and an inexact result
# must be an error.
_EXACT: Final = Context(prec=60, traps=[Inexact, InvalidOperation])


_UUID_DIGITS: Final = struct.Struct("4sx24sx4sx4sx")


_DATES_MAX: Final = 16_384  # 45 years


_LENGTHS: Final = 8192  # lengths whose zigzag form is one look-up


def _integers(bits: int, optional: bool) -> ColumnEncoder:
    final = OPTIONAL_FINAL if optional else FINAL
    first = OPTIONAL_CONTINUED if optional else CONTINUED
    branch = PRESENT if optional else b""
    # The int type leaves the unrolled part early, so that its bounds are checked.
    third, fourth = (1 << 28, 1 << 28) if bits == 32 else (1 << 42, 1 << 56)

    def encode(column: Sequence[Any]) -> list[bytes]:
        return [
            NULL
            if value is None
            else final[n]
            if (n := (value << 1) ^ (value >> 63)) < 16384
            else first[n & DIGIT_MASK] + FINAL[n >> 14]
            if n < 268435456
            else first[n & DIGIT_MASK] + CONTINUED[(n >> 14) & DIGIT_MASK] + FINAL[n >> 28]
            if n < third
            else first[n & DIGIT_MASK]
            + CONTINUED[(n >> 14) & DIGIT_MASK]
            + CONTINUED[(n >> 28) & DIGIT_MASK]
            + FINAL[n >> 42]
            if n < fourth
            else branch + encode_long(value, bits)
            for value in column
        ]

    return encode


def _ints(optional: bool) -> ColumnEncoder:
    return _integers(32, optional)


def _longs(optional: bool) -> ColumnEncoder:
    return _integers(64, optional)


def _booleans(optional: bool) -> ColumnEncoder:
    branch = PRESENT if optional else b""
    table: dict[Any, bytes] = {None: NULL, False: branch + b"\x00", True: branch + b"\x01"}

    def encode(column: Sequence[Any]) -> list[bytes]:
        return [table[value] for value in column]

    return encode


def _floats(layout: str, optional: bool) -> ColumnEncoder:
    if not optional:
        required = struct.Struct(f"<{layout}").pack
        return lambda column: [NULL if value is None else required(value) for value in column]
    pack = struct.Struct(f"<B{layout}").pack

    def encode(column: Sequence[Any]) -> list[bytes]:
        return [NULL if value is None else pack(2, value) for value in column]

    return encode


def _singles(optional: bool) -> ColumnEncoder:
    return _floats("f", optional)


def _doubles(optional: bool) -> ColumnEncoder:
    return _floats("d", optional)


def _strings(optional: bool) -> ColumnEncoder:
    final = OPTIONAL_FINAL if optional else FINAL
    branch = PRESENT if optional else b""

    def encode(column: Sequence[Any]) -> list[bytes]:
        return [
            NULL
            if value is None
            else final[n << 1] + raw
            if (n := len(raw := value.encode())) < _LENGTHS
            else branch + encode_long(n) + raw
            for value in column
        ]

    return encode


def _binaries(optional: bool) -> ColumnEncoder:
    final = OPTIONAL_FINAL if optional else FINAL
    branch = PRESENT if optional else b""

    def encode(column: Sequence[Any]) -> list[bytes]:
        return [
            NULL
            if value is None
            else final[n << 1] + value
            if (n := len(value)) < _LENGTHS
            else branch + encode_long(n) + value
            for value in column
        ]

    return encode


def _uuids(optional: bool) -> ColumnEncoder:
    head = (PRESENT if optional else b"") + encode_long(36)

    def encode(column: Sequence[Any]) -> list[bytes]:
        # All digits at once, a hyphen after every four: xxxx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxx-,
        # of which the text form has the middle ones. Half the time of one format per value.
        raw = b"".join([value.int.to_bytes(16, "big") for value in column if value is not None])
        digits = raw.hex("-", -2).encode() + b"-" if raw else b""
        encoded = [head + a + b + c + d for a, b, c, d in _UUID_DIGITS.iter_unpack(digits)]
        return _with_nulls(column, encoded)

    return encode


class _Dates(dict[dt.date | None, bytes]):
    """The bytes of the dates seen: few different ones recur, and a look-up is half the work."""

    def __init__(self, optional: bool) -> None:
        super().__init__({None: NULL})
        self._encode = _integers(32, optional)

    def __missing__(self, value: dt.date) -> bytes:
        # A datetime here is a TypeError: its time would be lost.
        (encoded,) = self._encode(((value - _EPOCH_DATE).days,))
        if len(self) < _DATES_MAX:
            self[value] = encoded
        return encoded


_DATES: Final = {optional: _Dates(optional) for optional in (False, True)}
"""Shared by all columns, because a table per column would take a megabyte each."""


def _dates(optional: bool) -> ColumnEncoder:
    table = _DATES[optional]

    def encode(column: Sequence[Any]) -> list[bytes]:
        return [table[value] for value in column]

    return encode


def _datetimes(optional: bool) -> ColumnEncoder:
    longs = _integers(64, optional)
    first = OPTIONAL_CONTINUED if optional else CONTINUED

    def encode(column: Sequence[Any]) -> list[bytes]:
        # A datetime with a zone is a TypeError: SQL Server's have none. From February 1970 to the
        # year 3111 there are four digits; the zigzag form of a positive number is its double.
        return [
            NULL
            if value is None
            else first[(n := micros << 1) & DIGIT_MASK]
            + CONTINUED[(n >> 14) & DIGIT_MASK]
            + CONTINUED[(n >> 28) & DIGIT_MASK]
            + FINAL[n >> 42]
            if 1 << 41 <= (micros := (value - _EPOCH) // _MICROSECOND) < 1 << 55
            else longs((micros,))[0]
            for value in column
        ]

    return encode


def _times(optional: bool) -> ColumnEncoder:
    longs = _integers(64, optional)

    def encode(column: Sequence[Any]) -> list[bytes]:
        return longs(
            [
                None
                if value is None
                else ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000
                + value.microsecond
                for value in column
            ]
        )

    return encode


def decimals(precision: int, scale: int, optional: bool) -> ColumnEncoder:
    """Encode decimals without rounding."""
    final = OPTIONAL_FINAL if optional else FINAL
    limit = 10**precision

    def encode(column: Sequence[Decimal | None]) -> list[bytes]:
        present = [value.scaleb(scale, _EXACT) for value in column if value is not None]
        unscaled = [int(value) for value in present]
        if unscaled != present:
            raise ValueError(f"more than {scale} digits after the point")
        if unscaled and not -limit < min(unscaled) <= max(unscaled) < limit:
            raise OverflowError(f"more than {precision} digits")
        # The length is fastavro's: one byte more than Java's for -2**(8n-1); both read either.
        encoded = [
            final[(n := (value.bit_length() + 8) >> 3) << 1] + value.to_bytes(n, "big", signed=True)
            for value in unscaled
        ]
        return _with_nulls(column, encoded)

    return encode


def _with_nulls(column: Sequence[Any], encoded: list[bytes]) -> list[bytes]:
    """Insert NULL at its places in the column; ``encoded`` has the other values."""
    if len(encoded) == len(column):
        return encoded
    following = iter(encoded)
    return [NULL if value is None else next(following) for value in column]


PLAIN: Final[dict[str, Callable[[bool], ColumnEncoder]]] = {
    "boolean": _booleans,
    "int": _ints,
    "long": _longs,
    "float": _singles,
    "double": _doubles,
    "string": _strings,
    "bytes": _binaries,
}


LOGICAL: Final[dict[str, Callable[[bool], ColumnEncoder]]] = {
    "date": _dates,
    "time-micros": _times,
    "local-timestamp-micros": _datetimes,
    "uuid": _uuids,
}
