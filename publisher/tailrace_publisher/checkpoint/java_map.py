"""Reads the file of Kafka Connect's FileOffsetBackingStore: a ``HashMap<byte[], byte[]>``.

Of Java's object serialisation it knows only this shape, so a file cannot cause it to build anything
else. https://docs.oracle.com/en/java/javase/21/docs/specs/serialization/protocol.html
"""

from __future__ import annotations

import struct
from typing import Final

_MAGIC: Final = bytes.fromhex("aced0005")
_MAP: Final = b"java.util.HashMap"
_BYTES: Final = b"[B"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _DATA, _END = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
_FIRST_HANDLE: Final = 0x7E0000


class NotAnOffsetsFile(ValueError):
    """The bytes are not a serialised ``HashMap<byte[], byte[]>``."""


def read_map(data: bytes) -> dict[bytes, bytes | None]:
    """Return the entries of the map; null keys are left out.

    Raises:
        NotAnOffsetsFile: it is something else, or it is truncated.
    """
    try:
        return _Reader(data).read_map()
    except struct.error as error:
        raise NotAnOffsetsFile("it ends too early") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._handles: list[bytes] = []
        """Class names and arrays that later parts may refer to, in the order of the stream."""

    def read_map(self) -> dict[bytes, bytes | None]:
        self._expect(self._data.startswith(_MAGIC), "it is no Java serialisation stream")
        self._at = len(_MAGIC)
        self._expect(self._byte() == _OBJECT, "it holds no object")
        self._expect(self._class() == _MAP, "it holds no java.util.HashMap")
        self._handles.append(b"")  # the map itself
        self._take(">fi")  # its fields: load factor and threshold
        self._expect(self._byte() == _DATA and self._byte() == 8, "its map has another form")
        _, size = self._take(">ii")
        found: dict[bytes, bytes | None] = {}
        for _ in range(size):
            key, value = self._array(), self._array()
            if key is not None:
                found[key] = value
        self._expect(self._byte() == _END, "its map does not end")
        return found

    def _array(self) -> bytes | None:
        tag = self._byte()
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._referred()
        self._expect(tag == _ARRAY, "its map holds something else than byte arrays")
        self._expect(self._class() == _BYTES, "its map holds something else than byte arrays")
        (length,) = self._take(">i")
        content = self._raw(length)
        self._handles.append(content)
        return content

    def _class(self) -> bytes:
        """Return the name of the class that is described, or referred to, here."""
        tag = self._byte()
        if tag == _REFERENCE:
            return self._referred()
        self._expect(tag == _CLASS, "a class is not described")
        (length,) = self._take(">H")
        name = self._raw(length)
        self._handles.append(name)
        _, _, fields = self._take(">qBH")  # serialVersionUID, flags
        for _ in range(fields):
            kind = self._byte()
            self._expect(kind in b"BCDFIJSZ", f"{name.decode('latin-1')} has fields of objects")
            (length,) = self._take(">H")
            self._raw(length)
        self._expect(self._byte() == _END and self._byte() == _NULL, "a class has a superclass")
        return name

    def _referred(self) -> bytes:
        (handle,) = self._take(">i")
        place = handle - _FIRST_HANDLE
        self._expect(0 <= place < len(self._handles), "it refers to what is not there")
        return self._handles[place]

    def _byte(self) -> int:
        (value,) = self._take(">B")
        return int(value)

    def _raw(self, length: int) -> bytes:
        self._expect(0 <= length <= len(self._data) - self._at, "it ends too early")
        self._at += length
        return self._data[self._at - length : self._at]

    def _take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _expect(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            raise NotAnOffsetsFile(f"{otherwise} (byte {self._at})")
