"""PRELOGIN: versions and the choice of encryption, both directions. MS-TDS 2.2.6.5."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from tailrace_emulator.wire.errors import RemoteProtocolError

_ENTRY: Final = struct.Struct(">BHH")
_VERSION: Final = struct.Struct(">BBHH")
_TERMINATOR: Final = 0xFF


class PreloginOption(IntEnum):
    """Option tokens."""

    VERSION = 0
    ENCRYPTION = 1
    INSTANCE = 2
    THREAD_ID = 3
    MARS = 4
    TRACE_ID = 5
    FEDERATED_AUTHENTICATION_REQUIRED = 6
    NONCE = 7


class Encryption(IntEnum):
    """What a side says about TLS."""

    OFF = 0
    ON = 1
    NOT_SUPPORTED = 2
    REQUIRED = 3


@dataclass(frozen=True, slots=True)
class Prelogin:
    """A PRELOGIN message.

    Attributes:
        version: (major, minor, build, sub-build).
        encryption: the ENCRYPTION byte, None when it was not sent.
        mars: whether several requests on one connection are asked for.
        others: every other option as sent, by token.
    """

    version: tuple[int, int, int, int] = (16, 0, 4135, 0)
    encryption: int | None = None
    mars: bool = False
    others: dict[int, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The message's payload."""
        options: dict[int, bytes] = {PreloginOption.VERSION: _VERSION.pack(*self.version)}
        if self.encryption is not None:
            options[PreloginOption.ENCRYPTION] = bytes((self.encryption,))
        options[PreloginOption.MARS] = bytes((self.mars,))
        options |= self.others
        offset = len(options) * _ENTRY.size + 1
        head = b""
        body = b""
        for token in sorted(options):
            head += _ENTRY.pack(token, offset + len(body), len(options[token]))
            body += options[token]
        return head + bytes((_TERMINATOR,)) + body

    @classmethod
    def decode(cls, payload: bytes) -> Prelogin:
        """Parse a payload.

        Raises:
            RemoteProtocolError: an option lies outside the message or has a wrong length.
        """
        options: dict[int, bytes] = {}
        position = 0
        while True:
            if position >= len(payload):
                raise RemoteProtocolError("PRELOGIN has no terminator")
            if payload[position] == _TERMINATOR:
                break
            if position + _ENTRY.size > len(payload):
                raise RemoteProtocolError("PRELOGIN option table ends early")
            token, offset, length = _ENTRY.unpack_from(payload, position)
            if offset + length > len(payload):
                raise RemoteProtocolError(f"PRELOGIN option {token} lies outside the message")
            options[token] = payload[offset : offset + length]
            position += _ENTRY.size
        version = options.pop(PreloginOption.VERSION, None)
        if version is None or len(version) != _VERSION.size:
            raise RemoteProtocolError("PRELOGIN without a VERSION of six bytes")
        encryption = options.pop(PreloginOption.ENCRYPTION, b"")
        mars = options.pop(PreloginOption.MARS, b"")
        major, minor, build, sub_build = _VERSION.unpack(version)
        return cls(
            version=(major, minor, build, sub_build),
            encryption=encryption[0] if encryption else None,
            mars=mars[:1] == b"\x01",
            others=options,
        )


def choose_encryption(client: int | None) -> Encryption:
    """The answer to a client's ENCRYPTION byte.

    OFF is answered NOT_SUPPORTED: plain text throughout, which every driver accepts; the
    alternative, TLS for the LOGIN7 packet alone, protects the password and nothing else.
    Observed with the Microsoft ODBC driver, JDBC, FreeTDS and go-mssqldb.
    """
    if client in (Encryption.ON, Encryption.REQUIRED):
        return Encryption.ON
    return Encryption.NOT_SUPPORTED
