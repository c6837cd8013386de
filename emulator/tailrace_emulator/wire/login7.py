"""LOGIN7: who logs in, from where, into which database. MS-TDS 2.2.6.4."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from tailrace_emulator.wire.errors import RemoteProtocolError

TDS_74: Final = 0x74000004
TDS_80: Final = 0x08000000

_FIXED: Final = struct.Struct("<IIIIIIBBBBiI")
_FIELDS: Final = 36
_FIELD: Final = struct.Struct("<HH")
_EXTENSION_FLAG: Final = 0x10
_CHANGE_PASSWORD: Final = 0x01
_READ_ONLY_INTENT: Final = 0x20
_LANGUAGE_FATAL: Final = 0x01
_ODBC: Final = 0x02
_HEAD_BYTES: Final = 94
_SWAPPED_NIBBLES: Final = bytes(((b & 0x0F) << 4 | b >> 4) for b in range(256))


class FeatureId(IntEnum):
    """FeatureExt identifiers that clients send."""

    SESSION_RECOVERY = 0x01
    FEDERATED_AUTHENTICATION = 0x02
    COLUMN_ENCRYPTION = 0x04
    GLOBAL_TRANSACTIONS = 0x05
    AZURE_SQL_SUPPORT = 0x08
    DATA_CLASSIFICATION = 0x09
    UTF8_SUPPORT = 0x0A
    AZURE_SQL_DNS_CACHING = 0x0B
    TERMINATOR = 0xFF


def scramble_password(password: str) -> bytes:
    """A password as LOGIN7 carries it: nibbles swapped, then XOR 0xA5. It hides, not protects."""
    raw = password.encode("utf-16-le", "surrogatepass").translate(_SWAPPED_NIBBLES)
    return bytes(b ^ 0xA5 for b in raw)


def unscramble_password(data: bytes) -> str:
    """The inverse of :func:`scramble_password`."""
    raw = bytes(b ^ 0xA5 for b in data).translate(_SWAPPED_NIBBLES)
    return raw.decode("utf-16-le", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Login7:
    """A LOGIN7 message.

    Attributes:
        packet_bytes: asked packet size; 0 leaves it to the server.
        password: never shown in repr.
        change_password: fChangePassword: the password that the login is to have from now on.
        is_odbc: fODBC of OptionFlags2: the session begins with ANSI_DEFAULTS and all of large
            values.
        insists_on_language: fLanguage: the login fails where its language is unknown.
        features: FeatureExt data by identifier, in the order sent.
    """

    tds_version: int = TDS_74
    packet_bytes: int = 4096
    client_version: int = 0
    client_pid: int = 0
    host: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    application: str = ""
    server: str = ""
    library: str = ""
    language: str = ""
    database: str = ""
    attach_file: str = ""
    change_password: str | None = field(default=None, repr=False)
    sspi: bytes = b""
    read_only_intent: bool = False
    is_odbc: bool = True
    insists_on_language: bool = True
    features: dict[int, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The message's payload."""
        head = b""
        body = b""

        def add(raw: bytes, count: int) -> None:
            nonlocal head, body
            head += _FIELD.pack(_HEAD_BYTES + len(body), count)
            body += raw

        def add_text(text: str) -> None:
            raw = text.encode("utf-16-le", "surrogatepass")
            add(raw, len(raw) // 2)

        add_text(self.host)
        add_text(self.user)
        raw_password = scramble_password(self.password)
        add(raw_password, len(raw_password) // 2)
        add_text(self.application)
        add_text(self.server)
        extension_at = len(body)
        add(b"\0\0\0\0" if self.features else b"", 4 if self.features else 0)
        add_text(self.library)
        add_text(self.language)
        add_text(self.database)
        head += bytes(6)  # ClientID, a MAC address that nobody reads
        add(self.sspi, len(self.sspi))
        add_text(self.attach_file)
        raw_change = scramble_password(self.change_password or "")
        add(raw_change, len(raw_change) // 2)
        head += bytes(4)  # cbSSPILong
        if self.features:
            offset = (_HEAD_BYTES + len(body)).to_bytes(4, "little")
            body = body[:extension_at] + offset + body[extension_at + 4 :]
            for identifier, data in self.features.items():
                body += bytes((identifier,)) + len(data).to_bytes(4, "little") + data
            body += bytes((FeatureId.TERMINATOR,))
        fixed = _FIXED.pack(
            _HEAD_BYTES + len(body),
            self.tds_version,
            self.packet_bytes,
            self.client_version,
            self.client_pid,
            0,
            0xE0,
            (_LANGUAGE_FATAL if self.insists_on_language else 0) | (_ODBC if self.is_odbc else 0),
            _READ_ONLY_INTENT if self.read_only_intent else 0,
            (_EXTENSION_FLAG if self.features else 0)
            | (0 if self.change_password is None else _CHANGE_PASSWORD),
            0,
            0x0409,
        )
        return fixed + head + body

    @classmethod
    def decode(cls, payload: bytes) -> Login7:
        """Parse a payload.

        Raises:
            RemoteProtocolError: a field lies outside the message.
        """
        if len(payload) < _HEAD_BYTES - 8:
            raise RemoteProtocolError("LOGIN7 is shorter than its fixed part")
        fixed = _FIXED.unpack_from(payload)

        def span(index: int, unit: int) -> bytes:
            at = _FIELDS + 4 * index + (6 if index > 8 else 0)
            if at + 4 > len(payload):
                return b""  # older layouts end before the last fields
            offset, count = _FIELD.unpack_from(payload, at)
            if offset + count * unit > len(payload):
                raise RemoteProtocolError(f"LOGIN7 field {index} lies outside the message")
            return payload[offset : offset + count * unit]

        def text(index: int) -> str:
            return span(index, 2).decode("utf-16-le", "surrogatepass")

        changes_password = fixed[9] & _CHANGE_PASSWORD
        features: dict[int, bytes] = {}
        if fixed[9] & _EXTENSION_FLAG:
            features = _decode_features(payload, span(5, 1))
        return cls(
            tds_version=fixed[1],
            packet_bytes=fixed[2],
            client_version=fixed[3],
            client_pid=fixed[4],
            host=text(0),
            user=text(1),
            password=unscramble_password(span(2, 2)),
            application=text(3),
            server=text(4),
            library=text(6),
            language=text(7),
            database=text(8),
            sspi=span(9, 1),
            attach_file=text(10),
            change_password=unscramble_password(span(11, 2)) if changes_password else None,
            read_only_intent=bool(fixed[8] & _READ_ONLY_INTENT),
            is_odbc=bool(fixed[7] & _ODBC),
            insists_on_language=bool(fixed[7] & _LANGUAGE_FATAL),
            features=features,
        )


def _decode_features(payload: bytes, pointer: bytes) -> dict[int, bytes]:
    if len(pointer) < 4:
        raise RemoteProtocolError("LOGIN7 extension holds no offset")
    position = int.from_bytes(pointer[:4], "little")
    features: dict[int, bytes] = {}
    while True:
        if position >= len(payload):
            raise RemoteProtocolError("LOGIN7 FeatureExt has no terminator")
        identifier = payload[position]
        if identifier == FeatureId.TERMINATOR:
            return features
        length = int.from_bytes(payload[position + 1 : position + 5], "little")
        start = position + 5
        if start + length > len(payload):
            raise RemoteProtocolError(f"LOGIN7 feature {identifier} lies outside the message")
        features[identifier] = payload[start : start + length]
        position = start + length
