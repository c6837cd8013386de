"""The tokens of a server's answer. MS-TDS 2.2.7.

Each is a dataclass with ``encode``. ROW tokens come in bulk from row_encoder.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import Final

from tailrace_emulator.wire.login7 import TDS_74
from tailrace_emulator.wire.reader import b_varchar, us_varchar
from tailrace_emulator.wire.types import (
    DEFAULT_COLLATION_BYTES,
    DataType,
    TypeInfo,
    Value,
    encode_type_info,
    encoder,
)
from tailrace_emulator.wire.types.base import Encoder

_DONE: Final = struct.Struct("<BHHQ")
_COLUMN: Final = struct.Struct("<IH")
_RETURN_VALUE: Final = struct.Struct("<BH")
_RETURN_STATUS: Final = struct.Struct("<Bi")
_UNNAMED_TABLE: Final = b"\x01\0\0"
"""The table of a text, ntext or image column: one part, which is empty. JDBC wants one at least."""


class TokenType(IntEnum):
    """First byte of a token."""

    RETURN_STATUS = 0x79
    COL_METADATA = 0x81
    ERROR = 0xAA
    INFO = 0xAB
    RETURN_VALUE = 0xAC
    LOGIN_ACK = 0xAD
    FEATURE_EXT_ACK = 0xAE
    ROW = 0xD1
    NBC_ROW = 0xD2
    ENV_CHANGE = 0xE3
    DONE = 0xFD
    DONE_PROC = 0xFE
    DONE_IN_PROC = 0xFF


class DoneStatus(IntFlag):
    """Status bits of the DONE family."""

    FINAL = 0
    MORE = 0x01
    ERROR = 0x02
    IN_TRANSACTION = 0x04
    COUNT = 0x10
    ATTENTION = 0x20
    SERVER_ERROR = 0x100


class Command(IntEnum):
    """CurCmd: what kind of statement was done."""

    NONE = 0x00
    SELECT = 0xC1
    INSERT = 0xC3
    DELETE = 0xC4
    UPDATE = 0xC5
    EXECUTE = 0xE0
    MERGE = 0x117


class EnvChangeType(IntEnum):
    """What changed for the client."""

    DATABASE = 1
    LANGUAGE = 2
    PACKET_SIZE = 4
    COLLATION = 7
    BEGIN_TRANSACTION = 8
    COMMIT_TRANSACTION = 9
    ROLLBACK_TRANSACTION = 10
    RESET_ACKNOWLEDGED = 18


class ColumnFlags(IntFlag):
    """Flags of a column in COLMETADATA."""

    NONE = 0
    NULLABLE = 0x0001
    CASE_SENSITIVE = 0x0002
    UPDATABLE_UNKNOWN = 0x0008
    IDENTITY = 0x0010
    COMPUTED = 0x0020


@dataclass(frozen=True, slots=True)
class Column:
    """A column of COLMETADATA. ``user_type`` is 80 for rowversion, else 0."""

    name: str
    type: TypeInfo
    flags: ColumnFlags = ColumnFlags.NULLABLE
    user_type: int = 0


@dataclass(frozen=True, slots=True)
class ColMetadata:
    """COLMETADATA: a result set begins."""

    columns: tuple[Column, ...]

    def encode(self) -> bytes:
        """The token."""
        parts = [bytes((TokenType.COL_METADATA,)), len(self.columns).to_bytes(2, "little")]
        for column in self.columns:
            parts.append(_COLUMN.pack(column.user_type, column.flags))
            parts.append(encode_type_info(column.type))
            if column.type.token in (DataType.TEXT, DataType.NTEXT, DataType.IMAGE):
                parts.append(_UNNAMED_TABLE)
            parts.append(b_varchar(column.name))
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Row:
    """ROW, one at a time; bulk goes through RowEncoder."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """DONE, DONEPROC or DONEINPROC by ``kind``; ``status`` consists of DoneStatus bits."""

    kind: TokenType = TokenType.DONE
    status: int = 0
    command: int = Command.NONE
    count: int = 0

    def encode(self) -> bytes:
        """The token."""
        return _DONE.pack(self.kind, self.status, self.command, self.count)


def done_token(kind: int, status: int, command: int, count: int) -> bytes:
    """DONE, DONEPROC or DONEINPROC without an object in between: each answer has several."""
    return _DONE.pack(kind, status, command, count)


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """ERROR (severity above 10) or INFO."""

    number: int
    state: int
    severity: int
    text: str
    server: str = ""
    procedure: str = ""
    line: int = 0

    def encode(self) -> bytes:
        """The token."""
        kind = TokenType.ERROR if self.severity > 10 else TokenType.INFO
        body = (
            struct.pack("<iBB", self.number, self.state & 0xFF, self.severity & 0xFF)
            + us_varchar(self.text[:30_000])
            + b_varchar(self.server)
            + b_varchar(self.procedure)
            + struct.pack("<i", self.line)
        )
        return _counted(kind, body)


@dataclass(frozen=True, slots=True)
class EnvChange:
    """ENVCHANGE. ``new`` and ``old`` are text or, for collation and transactions, bytes."""

    kind: EnvChangeType
    new: str | bytes = ""
    old: str | bytes = ""

    def encode(self) -> bytes:
        """The token."""
        body = bytes((self.kind,)) + _env_value(self.new) + _env_value(self.old)
        return _counted(TokenType.ENV_CHANGE, body)


def _env_value(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return bytes((len(value),)) + value
    return b_varchar(value)


def transaction_change(kind: EnvChangeType, descriptor: int) -> EnvChange:
    """ENVCHANGE of a transaction's begin (new value), commit or rollback (old value)."""
    raw = descriptor.to_bytes(8, "little")
    if kind is EnvChangeType.BEGIN_TRANSACTION:
        return EnvChange(kind, raw, b"")
    return EnvChange(kind, b"", raw)


@dataclass(frozen=True, slots=True)
class LoginAck:
    """LOGINACK. The TDS version is big-endian here, against the rule (observed)."""

    program: str
    version: tuple[int, int, int] = (16, 0, 4135)
    tds_version: int = TDS_74

    def encode(self) -> bytes:
        """The token."""
        major, minor, build = self.version
        body = (
            b"\x01"
            + self.tds_version.to_bytes(4, "big")
            + b_varchar(self.program)
            + struct.pack(">BBH", major, minor, build)
        )
        return _counted(TokenType.LOGIN_ACK, body)


@dataclass(frozen=True, slots=True)
class FeatureExtAck:
    """FEATUREEXTACK: features that are acknowledged, with their data."""

    features: tuple[tuple[int, bytes], ...]

    def encode(self) -> bytes:
        """The token."""
        parts = [bytes((TokenType.FEATURE_EXT_ACK,))]
        for identifier, data in self.features:
            parts.append(bytes((identifier,)) + len(data).to_bytes(4, "little") + data)
        return b"".join(parts) + b"\xff"


@dataclass(frozen=True, slots=True)
class ReturnStatus:
    """RETURNSTATUS of a procedure."""

    value: int = 0

    def encode(self) -> bytes:
        """The token."""
        return return_status_token(self.value)


def return_status_token(value: int) -> bytes:
    """RETURNSTATUS, without an object in between."""
    return _RETURN_STATUS.pack(0x79, value)


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """RETURNVALUE of an output parameter."""

    ordinal: int
    name: str
    type: TypeInfo
    value: Value

    def encode(self) -> bytes:
        """The token."""
        return return_value_token(self.ordinal, self.name, self.type, self.value)


def return_value_token(ordinal: int, name: str, info: TypeInfo, value: Value) -> bytes:
    """RETURNVALUE, without an object in between."""
    head, encode = _return_value(name, info)
    return _RETURN_VALUE.pack(0xAC, ordinal) + head + encode(value)


@lru_cache(maxsize=256)
def _return_value(name: str, info: TypeInfo) -> tuple[bytes, Encoder]:
    """What stands before the value in RETURNVALUE, and the value's encoder."""
    column = _COLUMN.pack(0, ColumnFlags.NULLABLE)
    return b_varchar(name) + b"\x01" + column + encode_type_info(info), encoder(info)


def collation_change(new: bytes = DEFAULT_COLLATION_BYTES) -> EnvChange:
    """ENVCHANGE of the database's collation; JDBC needs it before its first prepared statement.

    The old value is always empty: with one, the ODBC driver breaks off the connection.
    """
    return EnvChange(EnvChangeType.COLLATION, new, b"")


def _counted(kind: TokenType, body: bytes) -> bytes:
    return struct.pack("<BH", kind, len(body)) + body


Token = (
    ColMetadata
    | Row
    | Done
    | ServerMessage
    | EnvChange
    | LoginAck
    | FeatureExtAck
    | ReturnStatus
    | ReturnValue
)
