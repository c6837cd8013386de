"""A cursor over received bytes that never reads past their end."""

from __future__ import annotations

import struct

from tailrace_emulator.wire.errors import RemoteProtocolError

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I32 = struct.Struct("<i")


class Reader:
    """Takes little-endian values from ``data``; too few bytes are the peer's fault."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.position

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        start = self.position
        end = start + count
        if count < 0 or end > len(self.data):
            raise self._ended(count)
        self.position = end
        return self.data[start:end]

    def u8(self) -> int:
        """An unsigned byte."""
        try:
            value = self.data[self.position]
        except IndexError:
            raise self._ended(1) from None
        self.position += 1
        return value

    def u16(self) -> int:
        """An unsigned 16-bit integer."""
        return self._number(_U16, 2)

    def u32(self) -> int:
        """An unsigned 32-bit integer."""
        return self._number(_U32, 4)

    def u64(self) -> int:
        """An unsigned 64-bit integer."""
        return self._number(_U64, 8)

    def i32(self) -> int:
        """A signed 32-bit integer."""
        return self._number(_I32, 4)

    def utf16(self, characters: int) -> str:
        """So many UTF-16 code units; a lone surrogate is kept, as SQL Server keeps it."""
        return self.take(2 * characters).decode("utf-16-le", "surrogatepass")

    def b_varchar(self) -> str:
        """B_VARCHAR: a length byte in characters, then UTF-16."""
        return self.utf16(self.u8())

    def us_varchar(self) -> str:
        """US_VARCHAR: a 16-bit length in characters, then UTF-16."""
        return self.utf16(self.u16())

    def _number(self, layout: struct.Struct, size: int) -> int:
        try:
            value: int = layout.unpack_from(self.data, self.position)[0]
        except struct.error:
            raise self._ended(size) from None
        self.position += size
        return value

    def _ended(self, count: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"message ends early: {count} bytes wanted at {self.position} of {len(self.data)}"
        )


def b_varchar(text: str) -> bytes:
    """B_VARCHAR; a longer text is cut at 255 characters, the most the length byte can say."""
    raw = text.encode("utf-16-le", "surrogatepass")[:510]
    return bytes((len(raw) // 2,)) + raw


def us_varchar(text: str) -> bytes:
    """US_VARCHAR; a longer text is cut at 65,535 characters."""
    raw = text.encode("utf-16-le", "surrogatepass")[:131070]
    return _U16.pack(len(raw) // 2) + raw
