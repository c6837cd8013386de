"""A cursor over received bytes that never reads past their end."""

from __future__ import annotations

import struct

from emulator.wire.errors import RemoteProtocolError

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
            raise RemoteProtocolError(
                f"message ends early: {count} bytes wanted at {start} of {len(self.data)}"
            )
        self.position = end
        return self.data[start:end]

    def peek(self) -> int | None:
        """The next byte without taking it, None at the end."""
        return self.data[self.position] if self.position < len(self.data) else None

    def u8(self) -> int:
        """An unsigned byte."""
        return self.take(1)[0]

    def u16(self) -> int:
        """An unsigned 16-bit integer."""
        value: int = _U16.unpack(self.take(2))[0]
        return value

    def u32(self) -> int:
        """An unsigned 32-bit integer."""
        value: int = _U32.unpack(self.take(4))[0]
        return value

    def u64(self) -> int:
        """An unsigned 64-bit integer."""
        value: int = _U64.unpack(self.take(8))[0]
        return value

    def i32(self) -> int:
        """A signed 32-bit integer."""
        value: int = _I32.unpack(self.take(4))[0]
        return value

    def utf16(self, characters: int) -> str:
        """So many UTF-16 code units; a lone surrogate is kept, as SQL Server keeps it."""
        return self.take(2 * characters).decode("utf-16-le", "surrogatepass")

    def b_varchar(self) -> str:
        """B_VARCHAR: a length byte in characters, then UTF-16."""
        return self.utf16(self.u8())

    def us_varchar(self) -> str:
        """US_VARCHAR: a 16-bit length in characters, then UTF-16."""
        return self.utf16(self.u16())


def b_varchar(text: str) -> bytes:
    """B_VARCHAR; a longer text is cut at 255 characters, the most the length byte can say."""
    raw = text.encode("utf-16-le", "surrogatepass")[:510]
    return bytes((len(raw) // 2,)) + raw


def us_varchar(text: str) -> bytes:
    """US_VARCHAR; a longer text is cut at 65,535 characters."""
    raw = text.encode("utf-16-le", "surrogatepass")[:131070]
    return _U16.pack(len(raw) // 2) + raw
