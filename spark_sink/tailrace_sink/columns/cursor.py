"""Positions in the bytes of many Avro records, which all move over one field at a time.

A field of n records is a few vector operations of length n, whatever n is. Source of the binary
form: the Avro specification, "Binary encoding".

Each read is clipped to the buffer, and no length is negative. So positions only grow, and a record
whose last position is its end was read within its own bytes. ``require_at`` checks that.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
_GROUP_BITS: Final = 7
_LONG_BITS: Final = 64
_INT_MAX: Final = 2**31 - 1


class Undecodable(ValueError):
    """Some bytes are no record of their writer schema, or one that is not decoded by columns."""


class Cursor:
    """The present position of each record.

    Attributes:
        data: the bytes of all records.
        at: the position of each record in ``data``.
    """

    def __init__(self, data: Numbers, at: Numbers) -> None:
        self.data = data
        self.at = at

    def part(self, rows: Numbers) -> Cursor:
        """Create a cursor over some of the records; :meth:`take_back` returns its positions."""
        return Cursor(self.data, self.at[rows])

    def take_back(self, rows: Numbers, part: Cursor) -> None:
        """Continue where a part has ended."""
        self.at = self.at.copy()
        self.at[rows] = part.at

    def bytes(self) -> Numbers:
        """Read a byte of each record."""
        found = self._here()
        self.at = self.at + 1
        return found

    def longs(self) -> Numbers:
        """Read a zigzag number of up to 64 bits of each record."""
        groups = self.bytes()
        value = (groups & 0x7F).astype(np.uint64)
        more = groups >= 0x80
        shift = _GROUP_BITS
        while more.all() and len(more) and shift < _LONG_BITS:
            groups = self.bytes()
            value |= (groups & 0x7F).astype(np.uint64) << np.uint64(shift)
            more = groups >= 0x80
            shift += _GROUP_BITS
        if more.any():
            self._longer(value, np.flatnonzero(more), shift)
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def _longer(self, value: Numbers, rows: Numbers, shift: int) -> None:
        """Add further groups to the numbers of some records."""
        at = self.at
        while len(rows):
            if shift >= _LONG_BITS:
                raise Undecodable("a number has more than ten bytes")
            groups = self.data.take(at[rows], mode="clip")
            value[rows] |= (groups & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[rows] += 1
            rows = rows[groups >= 0x80]
            shift += _GROUP_BITS

    def ints(self) -> Numbers:
        """Read a zigzag number of up to 32 bits of each record."""
        found = self.longs()
        if len(found) and (found.max() > _INT_MAX or found.min() < -_INT_MAX - 1):
            raise Undecodable("an int has more than 32 bits")
        return found

    def spans(self) -> tuple[Numbers, Numbers]:
        """Read the place of a text or of bytes: first position and length in each record."""
        lengths = self.longs()
        self._require_lengths(lengths)
        first = self.at
        self.at = first + lengths
        return first, lengths

    def fixed(self, size: int) -> Numbers:
        """Read some bytes of each record: a row for each."""
        places = self.at[:, None] + np.arange(size)
        self.at = self.at + size
        return self.data.take(places, mode="clip")

    def flags(self) -> Numbers:
        """Read a boolean of each record."""
        found = self.bytes()
        if (found > 1).any():
            raise Undecodable("a boolean is neither 0 nor 1")
        return found.astype(bool)

    def branches(self, count: int) -> Numbers:
        """Read the branch of a union of less than 64 branches."""
        found = self.bytes()
        if (found & 1).any() or (found >= 2 * count).any():
            raise Undecodable("a union has no such branch")
        return found >> 1

    def require_at(self, ends: Numbers) -> None:
        """Refuse records that do not end where they should."""
        if not np.array_equal(self.at, ends):
            raise Undecodable("a record is shorter or longer than its schema says")

    def _require_lengths(self, lengths: Numbers) -> None:
        # A negative number is a great one without sign.
        if len(lengths) and lengths.view(np.uint64).max() > len(self.data):
            raise Undecodable("a length is negative, or greater than all bytes")

    def _here(self) -> Numbers:
        return self.data.take(self.at, mode="clip")
