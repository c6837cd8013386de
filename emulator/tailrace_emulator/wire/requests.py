"""What a logged-in client sends: SQL batch, RPC, transaction manager request, attention.

Each has ``encode`` and ``decode`` of the message's payload. MS-TDS 2.2.6.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from tailrace_emulator.wire.bulk_load import BulkLoad
from tailrace_emulator.wire.errors import RemoteProtocolError, WrongLengthError
from tailrace_emulator.wire.reader import Reader, b_varchar
from tailrace_emulator.wire.table_values import TABLE_TYPE, TableValue
from tailrace_emulator.wire.types import TypeInfo, Value, encode_type_info, encoder
from tailrace_emulator.wire.types.base import DataType, Decoder
from tailrace_emulator.wire.types.clr import decode_parameter_info
from tailrace_emulator.wire.types.registry import decoder, typed_decoder

_HEADER_QUERY_NOTIFICATIONS: Final = 1
_HEADER_TRANSACTION: Final = 2
_CALL_SEPARATORS: Final = (0xFF, 0xFE)
_TRANSACTION_HEADER: Final = struct.Struct("<IHQI")
_ONLY_TRANSACTION: Final = struct.pack("<IIH", 22, 18, _HEADER_TRANSACTION)
"""How ALL_HEADERS begins when it holds the transaction's header and no other: nearly always."""
_DESCRIPTOR: Final = struct.Struct("<QI")


class AllHeaders(NamedTuple):
    """ALL_HEADERS: the transaction that the client believes to be in, 0 for none."""

    transaction_descriptor: int = 0
    outstanding_requests: int = 1

    def encode(self) -> bytes:
        """The total length, then the transaction descriptor header."""
        header = _TRANSACTION_HEADER.pack(
            _TRANSACTION_HEADER.size,
            _HEADER_TRANSACTION,
            self.transaction_descriptor,
            self.outstanding_requests,
        )
        return (4 + len(header)).to_bytes(4, "little") + header

    @classmethod
    def decode(cls, reader: Reader) -> AllHeaders:
        """Take them; headers other than the transaction's are skipped."""
        start = reader.position
        if reader.data.startswith(_ONLY_TRANSACTION, start) and reader.remaining >= 22:
            reader.position = start + 22
            return cls(*_DESCRIPTOR.unpack_from(reader.data, start + 10))
        total = reader.u32()
        if total < 4:
            raise RemoteProtocolError(f"ALL_HEADERS of {total} bytes")
        inner = Reader(reader.take(total - 4))
        found = cls()
        while inner.remaining:
            length = inner.u32()
            if length < 6:
                raise RemoteProtocolError(f"header of {length} bytes in ALL_HEADERS")
            kind = inner.u16()
            data = Reader(inner.take(length - 6))
            if kind == _HEADER_TRANSACTION:
                found = cls(data.u64(), data.u32())
        return found


class SqlBatch(NamedTuple):
    """SQLBatch."""

    sql: str
    headers: AllHeaders = AllHeaders()

    def encode(self) -> bytes:
        """The message's payload."""
        return self.headers.encode() + self.sql.encode("utf-16-le", "surrogatepass")

    @classmethod
    def decode(cls, payload: bytes) -> SqlBatch:
        """Parse a payload."""
        reader = Reader(payload)
        headers = AllHeaders.decode(reader)
        if reader.remaining & 1:
            raise RemoteProtocolError("SQL text of an odd number of bytes")
        return cls(reader.utf16(reader.remaining // 2), headers)


class ProcedureId(IntEnum):
    """Procedures that clients may name by number."""

    CURSOR = 1
    CURSOR_OPEN = 2
    CURSOR_PREPARE = 3
    CURSOR_EXECUTE = 4
    CURSOR_PREPEXEC = 5
    CURSOR_UNPREPARE = 6
    CURSOR_FETCH = 7
    CURSOR_OPTION = 8
    CURSOR_CLOSE = 9
    EXECUTESQL = 10
    PREPARE = 11
    EXECUTE = 12
    PREPEXEC = 13
    PREPEXECRPC = 14
    UNPREPARE = 15


class ParameterStatus(IntFlag):
    """Status byte of an RPC parameter."""

    NONE = 0
    BY_REFERENCE = 0x01
    DEFAULT_VALUE = 0x02
    ENCRYPTED = 0x08
    WRONG_LENGTH = 0x100
    """Never on the wire: the value was longer than its type says, or not as long; it is None."""


_BY_REFERENCE: Final = int(ParameterStatus.BY_REFERENCE)
_WRONG_LENGTH: Final = int(ParameterStatus.WRONG_LENGTH)


_TVP: Final = int(DataType.TVP)
_UDT: Final = int(DataType.UDT)


class RpcParameter(NamedTuple):
    """A parameter: ``name`` with its @, or empty when it goes by position.

    ``status`` consists of ParameterStatus bits; an int, as calls come by the thousand.
    """

    name: str
    type: TypeInfo
    value: Value | TableValue
    status: int = 0

    @property
    def is_output(self) -> bool:
        """Whether the client wants its value back."""
        return bool(self.status & _BY_REFERENCE)

    @property
    def has_wrong_length(self) -> bool:
        """Whether its length, or that of its type, is none that the type may have."""
        return bool(self.status & _WRONG_LENGTH) or self.type.is_too_long


class RpcCall(NamedTuple):
    """One call: by name, or by number where ``procedure`` is an int."""

    procedure: str | int
    parameters: tuple[RpcParameter, ...] = ()
    flags: int = 0


class RpcRequest(NamedTuple):
    """RPC: one call or several, which are answered in one message."""

    calls: tuple[RpcCall, ...]
    headers: AllHeaders = AllHeaders()

    def encode(self) -> bytes:
        """The message's payload."""
        return self.headers.encode() + b"\xff".join(_encode_call(call) for call in self.calls)

    @classmethod
    def decode(cls, payload: bytes) -> RpcRequest:
        """Parse a payload.

        Raises:
            UnsupportedTypeError: a parameter is of a type that is not spoken here.
        """
        reader = Reader(payload)
        headers = AllHeaders.decode(reader)
        calls = []
        while True:
            calls.append(_decode_call(reader))
            if not reader.remaining:
                return cls(tuple(calls), headers)
            reader.u8()  # the separator, which ended the parameters
            if not reader.remaining:
                return cls(tuple(calls), headers)  # some clients end with a separator


def _encode_call(call: RpcCall) -> bytes:
    if isinstance(call.procedure, int):
        head = struct.pack("<HH", 0xFFFF, call.procedure)
    else:
        raw = call.procedure.encode("utf-16-le", "surrogatepass")
        head = struct.pack("<H", len(raw) // 2) + raw
    parts = [head, struct.pack("<H", call.flags)]
    for parameter in call.parameters:
        parts.append(b_varchar(parameter.name))
        parts.append(bytes((parameter.status,)))
        if isinstance(parameter.value, TableValue):
            parts.append(parameter.value.encode())
            continue
        if parameter.type.token is DataType.UDT:
            parts.append(bytes((_UDT,)) + b"".join(map(b_varchar, parameter.type.type_name)))
        else:
            parts.append(encode_type_info(parameter.type))
        parts.append(encoder(parameter.type)(parameter.value))
    return b"".join(parts)


def _decode_call(reader: Reader) -> RpcCall:
    length = reader.u16()
    procedure: str | int = reader.u16() if length == 0xFFFF else reader.utf16(length)
    flags = reader.u16()
    parameters: list[RpcParameter] = []
    data = reader.data
    end = len(data)
    # A separator is no name's length: names are at most 128 characters long.
    while (at := reader.position) < end and (following := data[at]) not in _CALL_SEPARATORS:
        reader.position = at + 1
        name = reader.utf16(following) if following else ""
        status = reader.u8()
        at = reader.position
        if at < end and data[at] == _TVP:
            reader.position = at + 1
            parameters.append(RpcParameter(name, TABLE_TYPE, TableValue.decode(reader), status))
            continue
        if at < end and data[at] == _UDT:
            reader.position = at + 1
            info = decode_parameter_info(reader)
            decode: Decoder = decoder(info)
        else:
            info, decode = typed_decoder(reader)
        try:
            parameters.append(RpcParameter(name, info, decode(reader), status))
        except WrongLengthError as error:
            reader.take(error.length)
            parameters.append(RpcParameter(name, info, None, status | _WRONG_LENGTH))
    return RpcCall(procedure, tuple(parameters), flags)


class TransactionRequestType(IntEnum):
    """What a transaction manager request wants."""

    GET_DTC_ADDRESS = 0
    PROPAGATE = 1
    BEGIN = 5
    PROMOTE = 6
    COMMIT = 7
    ROLLBACK = 8
    SAVE = 9


class IsolationLevel(IntEnum):
    """Isolation levels of a BEGIN request."""

    UNCHANGED = 0
    READ_UNCOMMITTED = 1
    READ_COMMITTED = 2
    REPEATABLE_READ = 3
    SERIALIZABLE = 4
    SNAPSHOT = 5


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A transaction manager request.

    Attributes:
        name: of the transaction or savepoint.
        next_name: of the transaction that begins at once after a COMMIT or ROLLBACK.
        isolation: of a BEGIN, and of the BEGIN that may follow a COMMIT or ROLLBACK.
        begin_again: whether a COMMIT or ROLLBACK begins the next transaction at once.
    """

    kind: TransactionRequestType
    name: str = ""
    isolation: int = 0
    begin_again: bool = False
    headers: AllHeaders = field(default=AllHeaders())
    next_name: str = ""

    def encode(self) -> bytes:
        """The message's payload."""
        name = _counted_bytes(self.name)
        body = struct.pack("<H", self.kind)
        if self.kind is TransactionRequestType.BEGIN:
            body += bytes((self.isolation,)) + name
        elif self.kind is TransactionRequestType.SAVE:
            body += name
        else:
            body += name + bytes((self.begin_again,))
            if self.begin_again:
                body += bytes((self.isolation,)) + _counted_bytes(self.next_name)
        return self.headers.encode() + body

    @classmethod
    def decode(cls, payload: bytes) -> TransactionRequest:
        """Parse a payload."""
        reader = Reader(payload)
        headers = AllHeaders.decode(reader)
        number = reader.u16()
        if number not in _TRANSACTION_TYPES:
            raise RemoteProtocolError(f"unknown transaction manager request {number}")
        kind = TransactionRequestType(number)
        if kind is TransactionRequestType.BEGIN:
            isolation = reader.u8()
            return cls(kind, _counted_name(reader), isolation, headers=headers)
        if kind is TransactionRequestType.SAVE:
            return cls(kind, _counted_name(reader), headers=headers)
        if kind in (TransactionRequestType.COMMIT, TransactionRequestType.ROLLBACK):
            name = _counted_name(reader)
            begin_again = bool(reader.u8() & 1)
            isolation = reader.u8() if begin_again else 0
            next_name = _counted_name(reader) if begin_again else ""
            return cls(kind, name, isolation, begin_again, headers, next_name)
        return cls(kind, headers=headers)


_TRANSACTION_TYPES: Final = frozenset(int(member) for member in TransactionRequestType)


def _counted_bytes(name: str) -> bytes:
    raw = name.encode("utf-16-le", "surrogatepass")
    return bytes((len(raw),)) + raw


def _counted_name(reader: Reader) -> str:
    """A name after its length in bytes, not characters: B_VARBYTE, unlike everywhere else."""
    length = reader.u8()
    if length & 1:
        raise RemoteProtocolError(f"transaction name of {length} bytes")
    return reader.utf16(length // 2)


@dataclass(frozen=True, slots=True)
class Attention:
    """Stop what you are doing."""

    def encode(self) -> bytes:
        """An empty payload."""
        return b""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A request that its sender gave up before it was whole. MS-TDS 2.2.1.7."""

    def encode(self) -> bytes:
        """An empty payload: what says it is the status of the last packet."""
        return b""


Request = SqlBatch | RpcRequest | BulkLoad | TransactionRequest | Attention | GivenUp
