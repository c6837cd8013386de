"""The five bytes before every Avro payload in a topic: magic zero and the schema id.

Source: Confluent's wire format, which every registry client reads.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = 0
FRAME_BYTES: Final = 5
_LAYOUT: Final = struct.Struct(">BI")


def frame_header(schema_id: int) -> bytes:
    """The header of a payload written with that schema.

    Raises:
        ValueError: the id does not fit four bytes.
    """
    if not 0 <= schema_id <= 0xFFFFFFFF:
        raise ValueError(f"schema id {schema_id} does not fit the four bytes of a frame")
    return _LAYOUT.pack(MAGIC, schema_id)


def split_frame(raw: bytes) -> tuple[int, bytes]:
    """Schema id and Avro payload of a framed message.

    Raises:
        ValueError: shorter than a header, or another magic byte: not written with a registry.
    """
    if len(raw) < FRAME_BYTES:
        raise ValueError(f"a framed message has at least {FRAME_BYTES} bytes, not {len(raw)}")
    magic, schema_id = _LAYOUT.unpack_from(raw)
    if magic != MAGIC:
        raise ValueError(f"magic byte is {magic}, not {MAGIC}: not written with a schema registry")
    return schema_id, raw[FRAME_BYTES:]
