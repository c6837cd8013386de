"""TDS packets and the messages that they carry.

A packet is an eight-byte header and a payload; a message is the payloads of the packets up to the
one with END_OF_MESSAGE. MS-TDS 2.2.3.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from tailrace_emulator.wire.errors import LocalProtocolError, RemoteProtocolError

HEADER: Final = struct.Struct(">BBHHBB")
HEADER_BYTES: Final = 8
PACKET_BYTES_MIN: Final = 512
PACKET_BYTES_MAX: Final = 32_767
PACKET_BYTES_DEFAULT: Final = 4096


class PacketType(IntEnum):
    """First byte of a packet."""

    SQL_BATCH = 0x01
    RPC = 0x03
    TABULAR_RESULT = 0x04
    ATTENTION = 0x06
    BULK_LOAD = 0x07
    FEDERATED_AUTHENTICATION_TOKEN = 0x08
    TRANSACTION_MANAGER = 0x0E
    LOGIN7 = 0x10
    SSPI = 0x11
    PRELOGIN = 0x12


class PacketStatus(IntFlag):
    """Second byte of a packet."""

    NORMAL = 0
    END_OF_MESSAGE = 0x01
    IGNORE = 0x02
    RESET_CONNECTION = 0x08
    RESET_CONNECTION_SKIP_TRANSACTION = 0x10


class Message(NamedTuple):
    """A whole message. ``status`` is the first packet's, where the reset bits are.

    With IGNORE its sender gave it up in the middle; it has no payload then. It is a plain int, as
    everywhere on the path of each request: an IntFlag's operators cost more than the rest of the
    parsing.
    """

    type: PacketType
    payload: bytes
    status: int = 0

    @property
    def reset(self) -> bool:
        """Whether the session's state is to be reset before this request."""
        return bool(self.status & _RESET)

    @property
    def given_up(self) -> bool:
        """Whether its sender ended it before it was whole: it is to be ignored, but answered."""
        return bool(self.status & _IGNORE)


_END_OF_MESSAGE: Final = int(PacketStatus.END_OF_MESSAGE)
_IGNORE: Final = int(PacketStatus.IGNORE)
_RESET: Final = int(PacketStatus.RESET_CONNECTION | PacketStatus.RESET_CONNECTION_SKIP_TRANSACTION)
_ENDS: Final = _END_OF_MESSAGE | _IGNORE
_TYPES: Final = {int(member): member for member in PacketType}


class MessageReader:
    """Collects packets into messages.

    Attributes:
        message_bytes_max: a longer message is refused, so that a peer cannot fill our memory.
    """

    def __init__(self, message_bytes_max: int = 1 << 30) -> None:
        self.message_bytes_max = message_bytes_max
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._type: PacketType | None = None
        self._status = 0

    @property
    def buffered(self) -> bytes:
        """Bytes received that are not part of a message yet taken."""
        return bytes(self._buffer)

    def receive_data(self, data: bytes) -> None:
        """Append what the peer sent."""
        self._buffer += data

    def next_message(self) -> Message | None:
        """The next whole message, None when more bytes are needed.

        Raises:
            RemoteProtocolError: the bytes are no TDS packets.
        """
        buffer = self._buffer
        while True:
            if len(buffer) < HEADER_BYTES:
                return None
            type_byte, status_byte, length, _, _, _ = HEADER.unpack_from(buffer)
            kind = _TYPES.get(type_byte)
            if kind is None:
                raise RemoteProtocolError(f"unknown packet type 0x{type_byte:02x}")
            if not HEADER_BYTES <= length <= PACKET_BYTES_MAX:
                raise RemoteProtocolError(f"packet length {length} is out of bounds")
            if self._type is not None and kind is not self._type:
                raise RemoteProtocolError(f"{kind.name} packet inside a {self._type.name} message")
            if len(buffer) < length:
                return None
            if self._size + length - HEADER_BYTES > self.message_bytes_max:
                raise RemoteProtocolError(f"message is longer than {self.message_bytes_max} bytes")
            payload = bytes(buffer[HEADER_BYTES:length])
            del buffer[:length]
            if self._type is None and status_byte & _ENDS == _END_OF_MESSAGE:
                return Message(kind, payload, status_byte)  # in one packet: nearly all
            message = self._gather(kind, payload, status_byte)
            if message is not None:
                return message

    def _gather(self, kind: PacketType, payload: bytes, status: int) -> Message | None:
        """Add a packet of a message of several; returns the message when it is whole."""
        if self._type is None:
            self._type, self._status = kind, status
        if payload:  # else a client could make the list grow with empty packets
            self._parts.append(payload)
            self._size += len(payload)
        if not status & _END_OF_MESSAGE:
            return None
        gave_up = status & _IGNORE
        payload = b"" if gave_up else b"".join(self._parts)
        self._parts, self._size, self._type = [], 0, None
        return Message(kind, payload, self._status | gave_up)


class MessageWriter:
    """Cuts one message into packets while it is being made, so it need not fit in memory."""

    def __init__(
        self,
        kind: PacketType,
        packet_bytes: int = PACKET_BYTES_DEFAULT,
        spid: int = 0,
        status: int = 0,
    ) -> None:
        if not PACKET_BYTES_MIN <= packet_bytes <= PACKET_BYTES_MAX:
            raise LocalProtocolError(f"packet size {packet_bytes} is out of bounds")
        self._kind = kind
        self._payload_bytes = packet_bytes - HEADER_BYTES
        self._packet_bytes = packet_bytes
        self._spid = spid & 0xFFFF
        self._status = status & ~_END_OF_MESSAGE
        self._number = 0
        self._rest = b""

    def write(self, data: bytes) -> bytes:
        """The packets that ``data`` fills; at least one byte is kept for the last packet."""
        data = self._rest + data if self._rest else data
        size = self._payload_bytes
        whole = (len(data) - 1) // size if data else 0
        pieces: list[bytes] = []
        number = self._number
        for start in range(0, whole * size, size):
            number = number + 1 & 0xFF
            pieces.append(
                HEADER.pack(self._kind, self._status, self._packet_bytes, self._spid, number, 0)
            )
            pieces.append(data[start : start + size])
        self._number = number
        self._rest = data[whole * size :]
        return b"".join(pieces)

    def finish(self) -> bytes:
        """The last packet."""
        status = self._status | _END_OF_MESSAGE
        number = self._number + 1 & 0xFF
        length = HEADER_BYTES + len(self._rest)
        return HEADER.pack(self._kind, status, length, self._spid, number, 0) + self._rest


def frame(
    kind: PacketType,
    payload: bytes,
    packet_bytes: int = PACKET_BYTES_DEFAULT,
    spid: int = 0,
    status: int = 0,
) -> bytes:
    """A whole message as packets."""
    writer = MessageWriter(kind, packet_bytes, spid, status)
    return writer.write(payload) + writer.finish()
