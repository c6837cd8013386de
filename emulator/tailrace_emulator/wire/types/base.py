"""TYPE_INFO and what a type family must offer.

The values are those that the whole embedded server keeps: plain ints, floats, str and bytes (see
each family). Decimals are scaled integers, times are counts of 100 ns, NULL is None.

A family encodes in two ways that must agree. ``encoder`` takes one value. Its other way,
``columns``, takes a whole column without NULLs as arguments of one ``struct`` format. So a row's
fixed parts become a single ``Struct.pack`` (row_encoder.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol

from tailrace_emulator.wire.errors import LocalProtocolError, WrongLengthError
from tailrace_emulator.wire.reader import Reader

Value = int | float | str | bytes | None
"""A value as the server keeps it."""

PLP: Final = 0xFFFF
"""Length in TYPE_INFO of a (max) type, whose values are partially length-prefixed."""

DEFAULT_COLLATION_BYTES: Final = bytes.fromhex("0904d00034")
"""SQL_Latin1_General_CP1_CI_AS: LCID 0x0409, ignore case, kana and width, sort id 52."""


class DataType(IntEnum):
    """Type tokens. MS-TDS 2.2.5.4."""

    NULL = 0x1F
    IMAGE = 0x22
    TEXT = 0x23
    GUID = 0x24
    VARBINARY_LEGACY = 0x25
    INTN = 0x26
    VARCHAR_LEGACY = 0x27
    DATEN = 0x28
    TIMEN = 0x29
    DATETIME2N = 0x2A
    DATETIMEOFFSETN = 0x2B
    BINARY_LEGACY = 0x2D
    CHAR_LEGACY = 0x2F
    INT1 = 0x30
    BIT = 0x32
    INT2 = 0x34
    DECIMAL_LEGACY = 0x37
    INT4 = 0x38
    DATETIM4 = 0x3A
    FLT4 = 0x3B
    MONEY = 0x3C
    DATETIME = 0x3D
    FLT8 = 0x3E
    NUMERIC_LEGACY = 0x3F
    SSVARIANT = 0x62
    NTEXT = 0x63
    BITN = 0x68
    DECIMALN = 0x6A
    NUMERICN = 0x6C
    FLTN = 0x6D
    MONEYN = 0x6E
    DATETIMEN = 0x6F
    MONEY4 = 0x7A
    INT8 = 0x7F
    BIGVARBINARY = 0xA5
    BIGVARCHAR = 0xA7
    BIGBINARY = 0xAD
    BIGCHAR = 0xAF
    NVARCHAR = 0xE7
    NCHAR = 0xEF
    UDT = 0xF0
    XML = 0xF1
    TVP = 0xF3


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """TYPE_INFO of a column or parameter.

    Attributes:
        length: the most bytes of a value; ``PLP`` for (max) types.
        precision: decimal digits, of decimals.
        scale: digits after the point, of decimals and times.
        collation: five bytes, of character types.
        type_name: of CLR types: database, schema and name, which may be empty.
        assembly_name: of CLR types as results name them: the class that they are.
    """

    token: DataType
    length: int = 0
    precision: int = 0
    scale: int = 0
    collation: bytes = b""
    type_name: tuple[str, str, str] = ("", "", "")
    assembly_name: str = ""

    @property
    def is_too_long(self) -> bool:
        """Whether its length is beyond that of any value outside of rows, and not (max)'s."""
        return BYTES_MAX < self.length < PLP and self.token in _BOUNDED


BYTES_MAX: Final = 8000
"""Of a value of (var)char, n(var)char and (var)binary that is not (max)."""

_BOUNDED: Final = frozenset(
    {
        DataType.BIGVARBINARY,
        DataType.BIGBINARY,
        DataType.BIGVARCHAR,
        DataType.BIGCHAR,
        DataType.NVARCHAR,
        DataType.NCHAR,
    }
)

Encoder = Callable[[Any], bytes]
Decoder = Callable[[Reader], Value]
Arguments = tuple[Iterable[Any], ...]


@dataclass(frozen=True, slots=True)
class PackPlan:
    """How a column without NULLs goes into a row's ``Struct.pack``.

    Attributes:
        format: struct format of the fixed part after ``prefix``, without byte order.
        arguments: from the column's values, one iterable per value that ``format`` takes, and the
            bytes that follow the fixed part (None where nothing follows). On NULL it, or the
            pack, raises TypeError or struct.error.
        null: the bytes of NULL.
        prefix: the constant bytes before the fixed part: the length, where it never varies.
        has_body: whether ``arguments`` gives bytes that follow the fixed part.
        equal_is_same: whether equal values have the same bytes (0.0 and -0.0 have not).
    """

    format: str
    arguments: Callable[[Sequence[Any]], tuple[Arguments, Sequence[bytes] | None]]
    null: bytes
    prefix: bytes = b""
    has_body: bool = False
    equal_is_same: bool = True


class TypeFamily(Protocol):
    """Types that are laid out alike."""

    @property
    def tokens(self) -> tuple[DataType, ...]:
        """The types of the family."""

    def encode_info(self, info: TypeInfo) -> bytes:
        """What follows the token in TYPE_INFO."""

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """TYPE_INFO after its token."""

    def encoder(self, info: TypeInfo) -> Encoder:
        """Encodes one value, NULL too."""

    def decoder(self, info: TypeInfo) -> Decoder:
        """Takes one value, NULL too."""

    def columns(self, info: TypeInfo) -> PackPlan:
        """The same encoding for whole columns without NULLs."""


def whole_values(
    encode: Encoder,
) -> Callable[[Sequence[Any]], tuple[Arguments, Sequence[bytes] | None]]:
    """Arguments of a column whose values go into the struct whole, length prefix and all.

    A NULL is refused as any other column's arguments refuse it: its bytes have another length.
    """

    def arguments(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
        if None in values:
            raise TypeError("NULL in a column that was said to hold none")
        return (map(encode, values),), None

    return arguments


def wrong_length(info: TypeInfo, length: int) -> WrongLengthError:
    """The error for a value whose length prefix, just taken, does not go with its type."""
    return WrongLengthError(
        f"{info.token.name}(length {info.length}, scale {info.scale}) value of {length} bytes",
        length,
    )


def out_of_range(info: TypeInfo, value: object) -> LocalProtocolError:
    """The error for a value that its column's type cannot hold: its producer is at fault."""
    shown = repr(value)
    return LocalProtocolError(
        f"value {shown[:60]} does not fit {info.token.name}"
        f"(length {info.length}, precision {info.precision}, scale {info.scale})"
    )
