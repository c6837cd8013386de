"""Whole numbers for the JVM, sent in one transfer: Py4J takes one for each element of a list."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Final, Self

_IS_BIG_ENDIAN: Final = array("H", b"\x00\x01")[0] == 1


@dataclass(frozen=True, slots=True)
class LongSequences:
    """The classes of Java and Scala that it needs, looked up once."""

    byte_buffer: Any
    little_endian: Any
    long_buffer: Any
    sequence: Any

    @classmethod
    def of(cls, jvm: Any) -> Self:
        """Look the classes up in a session's JVM."""
        nio, scala = jvm.java.nio, jvm.scala.collection.immutable
        return cls(nio.ByteBuffer, nio.ByteOrder.LITTLE_ENDIAN, nio.LongBuffer, scala.ArraySeq)

    def sent(self, numbers: array[int]) -> Any:
        """Send numbers, and return Scala's sequence of them."""
        packed = array("q", numbers)
        if _IS_BIG_ENDIAN:
            packed.byteswap()
        buffer = self.byte_buffer.wrap(packed.tobytes()).order(self.little_endian).asLongBuffer()
        longs = self.long_buffer.allocate(len(packed)).put(buffer)
        return self.sequence.unsafeWrapArray(longs.array())
