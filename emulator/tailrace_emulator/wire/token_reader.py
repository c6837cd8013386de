"""Reads a server's answer back into tokens: the client's half of tokens.py."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.tokens import (
    ColMetadata,
    Column,
    ColumnFlags,
    Done,
    EnvChange,
    EnvChangeType,
    FeatureExtAck,
    LoginAck,
    ReturnStatus,
    ReturnValue,
    Row,
    ServerMessage,
    Token,
    TokenType,
)
from tailrace_emulator.wire.types import DataType, decode_type_info, decoder

_DONE = struct.Struct("<HHQ")
_BYTE_ENV_CHANGES = (
    EnvChangeType.COLLATION,
    EnvChangeType.BEGIN_TRANSACTION,
    EnvChangeType.COMMIT_TRANSACTION,
    EnvChangeType.ROLLBACK_TRANSACTION,
)
_TOKEN_TYPES = {int(member): member for member in TokenType}
_ENV_CHANGE_TYPES = {int(member): member for member in EnvChangeType}


def read_tokens(payload: bytes) -> Iterator[Token]:
    """The tokens of one message.

    Raises:
        RemoteProtocolError: the bytes are no token stream.
    """
    reader = Reader(payload)
    columns: tuple[Column, ...] | None = None
    while reader.remaining:
        byte = reader.u8()
        kind = _TOKEN_TYPES.get(byte)
        if kind is None:
            raise RemoteProtocolError(f"unknown token 0x{byte:02x}")
        if kind in (TokenType.ROW, TokenType.NBC_ROW):
            if columns is None:
                raise RemoteProtocolError("ROW before COLMETADATA")
            yield _row(reader, columns, compressed=kind is TokenType.NBC_ROW)
            continue
        token = _token(kind, reader)
        if isinstance(token, ColMetadata):
            columns = token.columns
        yield token


def _row(reader: Reader, columns: tuple[Column, ...], *, compressed: bool) -> Row:
    nulls = int.from_bytes(reader.take((len(columns) + 7) // 8), "little") if compressed else 0
    return Row(
        tuple(
            None if nulls >> index & 1 else decoder(column.type)(reader)
            for index, column in enumerate(columns)
        )
    )


def _token(kind: TokenType, reader: Reader) -> Token:
    match kind:
        case TokenType.COL_METADATA:
            return column_metadata(reader)
        case TokenType.DONE | TokenType.DONE_PROC | TokenType.DONE_IN_PROC:
            status, command, count = _DONE.unpack(reader.take(_DONE.size))
            return Done(kind, status, command, count)
        case TokenType.ERROR | TokenType.INFO:
            body = Reader(reader.take(reader.u16()))
            number, state, severity = body.i32(), body.u8(), body.u8()
            text = body.us_varchar()
            server, procedure = body.b_varchar(), body.b_varchar()
            return ServerMessage(number, state, severity, text, server, procedure, body.i32())
        case TokenType.ENV_CHANGE:
            return _env_change(Reader(reader.take(reader.u16())))
        case TokenType.LOGIN_ACK:
            body = Reader(reader.take(reader.u16()))
            body.u8()
            version = int.from_bytes(body.take(4), "big")
            program = body.b_varchar()
            major, minor, build = struct.unpack(">BBH", body.take(4))
            return LoginAck(program, (major, minor, build), version)
        case TokenType.FEATURE_EXT_ACK:
            features = []
            while (identifier := reader.u8()) != 0xFF:
                features.append((identifier, reader.take(reader.u32())))
            return FeatureExtAck(tuple(features))
        case TokenType.RETURN_STATUS:
            return ReturnStatus(reader.i32())
        case TokenType.RETURN_VALUE:
            ordinal, name = reader.u16(), reader.b_varchar()
            reader.take(7)
            info = decode_type_info(reader)
            return ReturnValue(ordinal, name, info, decoder(info)(reader))
        case _:
            raise RemoteProtocolError(f"token {kind.name} is not read here")


def table_parts(reader: Reader) -> None:
    """Takes the table's name of a text, ntext or image column: NumParts, and so many parts."""
    for _ in range(reader.u8()):
        reader.us_varchar()


def column_metadata(
    reader: Reader, take_table: Callable[[Reader], object] = table_parts
) -> ColMetadata:
    """COLMETADATA after its token.

    Args:
        reader: positioned right after the token.
        take_table: takes the table's name of a text, ntext or image column.
    """
    count = reader.u16()
    columns = []
    for _ in range(count if count != 0xFFFF else 0):
        user_type, flags = reader.u32(), reader.u16()
        info = decode_type_info(reader)
        if info.token in (DataType.TEXT, DataType.NTEXT, DataType.IMAGE):
            take_table(reader)
        columns.append(Column(reader.b_varchar(), info, ColumnFlags(flags & 0x3F), user_type))
    return ColMetadata(tuple(columns))


def _env_change(body: Reader) -> EnvChange:
    byte = body.u8()
    kind = _ENV_CHANGE_TYPES.get(byte)
    if kind is None:
        raise RemoteProtocolError(f"unknown ENVCHANGE type {byte}")
    if kind in _BYTE_ENV_CHANGES:
        return EnvChange(kind, body.take(body.u8()), body.take(body.u8()))
    return EnvChange(kind, body.b_varchar(), body.b_varchar())
