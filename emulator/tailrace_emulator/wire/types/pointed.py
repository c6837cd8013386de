"""text, ntext and image in rows: a text pointer and a timestamp come before the length.

A parameter of these types has neither (characters.py, binaries.py). The pointer means nothing here,
but a client takes its absence for NULL. MS-TDS 2.2.5.2.2 and 2.2.7.17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tailrace_emulator.wire.code_pages import collation_code_page
from tailrace_emulator.wire.types.base import (
    Arguments,
    DataType,
    Encoder,
    PackPlan,
    TypeInfo,
    out_of_range,
)
from tailrace_emulator.wire.types.characters import encode_utf16

POINTED: Final = (DataType.TEXT, DataType.NTEXT, DataType.IMAGE)
LONG_BYTES: Final = 0x7FFFFFFF
"""Length of text and image in TYPE_INFO; ntext has one less, an even number."""

_POINTER: Final = b"\x10" + b"dummy textptr\0\0\0" + b"dummyTS\0"
_NULL: Final = b"\0"


def _to_bytes(info: TypeInfo) -> Callable[[Any], bytes]:
    if info.token is DataType.IMAGE:
        return bytes
    if info.token is DataType.NTEXT:
        return encode_utf16
    return collation_code_page(info.collation).encode


def row_encoder(info: TypeInfo) -> Encoder:
    """Encodes one value of a row."""
    to_bytes = _to_bytes(info)

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL
        raw = to_bytes(value)
        if len(raw) > info.length:
            raise out_of_range(info, value)
        return _POINTER + len(raw).to_bytes(4, "little") + raw

    return encode


def row_columns(info: TypeInfo) -> PackPlan:
    """The same for a column without NULLs."""
    to_bytes = _to_bytes(info)

    def lengths_and_bodies(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
        if None in values:
            raise TypeError("NULL in a column that was said to hold none")
        bodies = [to_bytes(value) for value in values]
        return (list(map(len, bodies)),), bodies

    return PackPlan("I", lengths_and_bodies, _NULL, prefix=_POINTER, has_body=True)
