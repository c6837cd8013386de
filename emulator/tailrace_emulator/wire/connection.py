"""One connection's protocol, without I/O: bytes in, messages out.

The states and what may come in each are the table below. TLS is none of this class's business, with
one exception. Between PRELOGIN and LOGIN7, its handshake travels inside PRELOGIN packets
(``TlsHandshake``). Afterwards the caller feeds decrypted bytes.

Use: ``receive_data`` what the peer sent, then ``next_message`` until it gives ``NEED_DATA``. As a
server, call ``response_finished`` after the last packet of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from tailrace_emulator.wire.bulk_load import BulkLoad
from tailrace_emulator.wire.errors import LocalProtocolError, RemoteProtocolError
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import Message, MessageReader, PacketType
from tailrace_emulator.wire.prelogin import Prelogin
from tailrace_emulator.wire.requests import (
    Attention,
    GivenUp,
    Request,
    RpcRequest,
    SqlBatch,
    TransactionRequest,
)


class State(Enum):
    """Where a connection is."""

    INITIAL = auto()
    TLS_HANDSHAKE = auto()
    LOGIN = auto()
    READY = auto()
    EXECUTING = auto()


class NeedData(Enum):
    """Type of ``NEED_DATA``."""

    NEED_DATA = auto()


NEED_DATA: Final = NeedData.NEED_DATA

_REQUESTS: Final = frozenset(
    (
        PacketType.SQL_BATCH,
        PacketType.RPC,
        PacketType.BULK_LOAD,
        PacketType.TRANSACTION_MANAGER,
        PacketType.ATTENTION,
    )
)
_CLIENT_MAY_SEND: Final = {
    State.INITIAL: {PacketType.PRELOGIN},
    State.TLS_HANDSHAKE: {PacketType.PRELOGIN},
    State.LOGIN: {PacketType.LOGIN7},
    State.READY: _REQUESTS,
    State.EXECUTING: {PacketType.ATTENTION},
}
_PRE_LOGIN_BYTES_MAX: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class TlsHandshake:
    """A piece of the TLS handshake."""

    data: bytes


class Received(NamedTuple):
    """A request, and whether the session is to be reset before it."""

    request: Request
    reset: bool = False


ServerEvent = Prelogin | TlsHandshake | Login7 | Received


class ServerConnection:
    """The server's side of one connection.

    Attributes:
        message_bytes_max: longest request; before login the limit is 128 KiB.
    """

    def __init__(self, message_bytes_max: int = 1 << 30) -> None:
        self.state = State.INITIAL
        self.message_bytes_max = message_bytes_max
        self._reader = MessageReader(_PRE_LOGIN_BYTES_MAX)

    def receive_data(self, data: bytes) -> None:
        """Append what the client sent."""
        self._reader.receive_data(data)

    def next_message(self) -> ServerEvent | NeedData:
        """The next message.

        Raises:
            RemoteProtocolError: the client broke the protocol; nothing but closing is left.
            UnsupportedTypeError: a request holds a type that is not spoken here. Answer with an
                error and continue (the state is EXECUTING as for any request).
        """
        message = self._reader.next_message()
        while message is not None and message.given_up and self.state is not State.READY:
            message = self._reader.next_message()
        if message is None:
            return NEED_DATA
        if self.state is State.READY and message.type in _REQUESTS:
            return self._request(message)
        if message.type not in _CLIENT_MAY_SEND[self.state]:
            raise RemoteProtocolError(f"{message.type.name} message in state {self.state.name}")
        match self.state:
            case State.INITIAL:
                self.state = State.LOGIN
                return Prelogin.decode(message.payload)
            case State.TLS_HANDSHAKE:
                return TlsHandshake(message.payload)
            case State.LOGIN:
                return Login7.decode(message.payload)
            case State.READY | State.EXECUTING:
                return self._request(message)

    def begin_tls(self) -> None:
        """PRELOGIN was answered with encryption: the handshake comes next."""
        if self.state is not State.LOGIN:
            raise LocalProtocolError(f"TLS cannot begin in state {self.state.name}")
        self.state = State.TLS_HANDSHAKE

    def tls_established(self) -> bytes:
        """The handshake is done; returns bytes already received that are encrypted."""
        if self.state is not State.TLS_HANDSHAKE:
            raise LocalProtocolError(f"no TLS handshake in state {self.state.name}")
        self.state = State.LOGIN
        rest = self._reader.buffered
        self._reader = MessageReader(_PRE_LOGIN_BYTES_MAX)
        return rest

    def logged_in(self) -> None:
        """The login was accepted."""
        if self.state is not State.LOGIN:
            raise LocalProtocolError(f"no login in state {self.state.name}")
        self.state = State.READY
        self._reader.message_bytes_max = self.message_bytes_max

    def response_finished(self) -> None:
        """The answer to the last request is sent."""
        if self.state is not State.EXECUTING:
            raise LocalProtocolError(f"no request is open in state {self.state.name}")
        self.state = State.READY

    def _request(self, message: Message) -> Received:
        self.state = State.EXECUTING
        kind = message.type
        if kind is PacketType.ATTENTION:
            return Received(Attention())
        if message.given_up:
            return Received(GivenUp())
        request: Request
        if kind is PacketType.RPC:
            request = RpcRequest.decode(message.payload)
        elif kind is PacketType.SQL_BATCH:
            request = SqlBatch.decode(message.payload)
        elif kind is PacketType.BULK_LOAD:
            request = BulkLoad.decode(message.payload)
        else:
            request = TransactionRequest.decode(message.payload)
        return Received(request, message.reset)
