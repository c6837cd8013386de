"""The rows of a bulk load, as a client sends them after INSERT BULK. MS-TDS 2.2.6.1.

The message has the parts of an answer: COLMETADATA, ROW or NBCROW tokens and DONE. A text, ntext or
image value has a text pointer and a timestamp before its length, which mean nothing here.

Before the name of such a column comes its table's. MS-TDS counts its parts first (NumParts); some
clients (tedious) send one text without a count, and SQL Server takes both. What makes columns with
names and a token after them is what was sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tailrace_emulator.wire.errors import RemoteProtocolError, WrongLengthError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.token_reader import column_metadata, table_parts
from tailrace_emulator.wire.tokens import ColMetadata, TokenType
from tailrace_emulator.wire.types import TypeInfo, Value
from tailrace_emulator.wire.types.base import Decoder
from tailrace_emulator.wire.types.pointed import POINTED
from tailrace_emulator.wire.types.registry import decoder
from tailrace_emulator.wire.wrong_lengths import take_anyway

_TIMESTAMP_BYTES: Final = 8
_ENDS: Final = (TokenType.DONE, TokenType.DONE_PROC, TokenType.DONE_IN_PROC)
_TOKENS: Final = (TokenType.ROW, TokenType.NBC_ROW, *_ENDS)


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """Bulk Load BCP: the types of the columns, and the rows.

    ``wrong_length`` is the column, counted from 1, of the first value whose length its type cannot
    have; the rows end before it.
    """

    columns: tuple[TypeInfo, ...]
    rows: tuple[tuple[Value, ...], ...]
    wrong_length: int = 0

    def encode(self) -> bytes:
        """Refused: only clients send this message."""
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
        metadata = _metadata(reader)
        types = tuple(column.type for column in metadata.columns)
        decoders = [_decoder(info) for info in types]
        rows: list[tuple[Value, ...]] = []
        while reader.remaining:
            kind = reader.u8()
            if kind in _ENDS:
                break
            if kind == TokenType.ROW:
                present: Sequence[Decoder | None] = decoders
            elif kind == TokenType.NBC_ROW:
                nulls = int.from_bytes(reader.take((len(types) + 7) // 8), "little")
                present = [None if nulls >> i & 1 else d for i, d in enumerate(decoders)]
            else:
                raise RemoteProtocolError(f"token 0x{kind:02x} in a bulk load")
            start = reader.position
            try:
                rows.append(tuple([None if d is None else d(reader) for d in present]))
            except WrongLengthError:
                reader.position = start
                return cls(types, tuple(rows), take_anyway(reader, present)[1])
        return cls(types, tuple(rows))


def _metadata(reader: Reader) -> ColMetadata:
    """COLMETADATA after its token, in either form.

    Raises:
        RemoteProtocolError: the bytes are in neither form.
        UnsupportedTypeError: a column is of a type that is not spoken here.
    """
    start = reader.position
    for take_table in (table_parts, Reader.us_varchar):
        reader.position = start
        with contextlib.suppress(RemoteProtocolError):
            metadata = column_metadata(reader, take_table)
            if all(column.name for column in metadata.columns) and _begins_token(reader):
                return metadata
    reader.position = start
    return column_metadata(reader)


def _begins_token(reader: Reader) -> bool:
    return not reader.remaining or reader.data[reader.position] in _TOKENS


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
