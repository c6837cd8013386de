"""The rows of a bulk load, as a client sends them after INSERT BULK. MS-TDS 2.2.6.1.

The message is what an answer is made of: COLMETADATA, ROW or NBCROW tokens and DONE. A text,
ntext or image value has a text pointer and a timestamp before its length, which mean nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.token_reader import column_metadata
from tailrace_emulator.wire.tokens import ColMetadata, TokenType
from tailrace_emulator.wire.types import TypeInfo, Value
from tailrace_emulator.wire.types.base import Decoder
from tailrace_emulator.wire.types.pointed import POINTED
from tailrace_emulator.wire.types.registry import decoder

_TIMESTAMP_BYTES: Final = 8
_ENDS: Final = (TokenType.DONE, TokenType.DONE_PROC, TokenType.DONE_IN_PROC)


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """Bulk Load BCP: the types of the columns, and the rows."""

    columns: tuple[TypeInfo, ...]
    rows: tuple[tuple[Value, ...], ...]

    def encode(self) -> bytes:
        """Refused: only clients send this message.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a server sends no bulk load")

    @classmethod
    def decode(cls, payload: bytes) -> BulkLoad:
        """Parse a payload; an empty one is a load without rows.

        Raises:
            RemoteProtocolError: it is no such stream.
            UnsupportedTypeError: a column is of a type that is not spoken here.
        """
        reader = Reader(payload)
        if not reader.remaining:
            return cls((), ())
        if reader.u8() != TokenType.COL_METADATA:
            raise RemoteProtocolError("a bulk load begins with COLMETADATA")
        metadata: ColMetadata = column_metadata(reader)
        types = tuple(column.type for column in metadata.columns)
        decoders = [_decoder(info) for info in types]
        rows: list[tuple[Value, ...]] = []
        while reader.remaining:
            kind = reader.u8()
            if kind == TokenType.ROW:
                rows.append(tuple([decode(reader) for decode in decoders]))
            elif kind == TokenType.NBC_ROW:
                nulls = int.from_bytes(reader.take((len(types) + 7) // 8), "little")
                rows.append(
                    tuple(
                        None if nulls >> index & 1 else decode(reader)
                        for index, decode in enumerate(decoders)
                    )
                )
            elif kind in _ENDS:
                break
            else:
                raise RemoteProtocolError(f"token 0x{kind:02x} in a bulk load")
        return cls(types, tuple(rows))


def _decoder(info: TypeInfo) -> Decoder:
    decode = decoder(info)
    if info.token not in POINTED:
        return decode

    def after_pointer(reader: Reader) -> Value:
        size = reader.u8()
        if size == 0:
            return None
        reader.take(size + _TIMESTAMP_BYTES)
        return decode(reader)

    return after_pointer
