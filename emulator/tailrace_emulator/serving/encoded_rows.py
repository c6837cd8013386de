"""Encodes what tables keep for clients (storage/encoded_rows.py), by the wire's rules."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import apsw

from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.tds_types import column_to_wire
from tailrace_emulator.values.types import StorageValue
from tailrace_emulator.wire.errors import LocalProtocolError
from tailrace_emulator.wire.row_encoder import RowEncoder


class WireEncoding:
    """Encoders by layout; of every session, so that a layout once made is known to all."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[Column, ...], int] = {}
        self._encoders: dict[int, RowEncoder] = {}

    def layout(self, columns: Sequence[Column]) -> int:
        """See :class:`tailrace_emulator.storage.encoded_rows.RowEncoding`."""
        key = tuple(columns)
        layout = self._layouts.get(key)
        if layout is None:
            types = [column_to_wire(c.type, nullable=c.nullable) for c in key]
            layout = int.from_bytes(hashlib.sha256(repr(types).encode()).digest()[:7], "big")
            self._encoders[layout] = RowEncoder(types, token=b"")
            self._layouts[key] = layout
        return layout

    def encode(
        self, columns: Sequence[Column], rows: Sequence[tuple[StorageValue, ...]]
    ) -> list[bytes] | None:
        """See :class:`tailrace_emulator.storage.encoded_rows.RowEncoding`."""
        encoder = self._encoders[self.layout(columns)]
        try:
            return encoder.encode_each(rows)
        except LocalProtocolError:
            return None

    def encode_row(self, *arguments: Any) -> bytes:
        """Called by SQLite for a row that is not kept in the layout that comes first."""
        return self._encoders[arguments[0]].encode_each([arguments[1:]])[0]


def keep_encoded_rows(engine: Engine) -> None:
    """From here on, tables keep their rows encoded, and what is kept is read so."""
    encoding = WireEncoding()

    def register(connection: apsw.Connection) -> None:
        connection.create_scalar_function("encode_row", encoding.encode_row, -1)

    engine.connection_hooks.append(register)
    engine.row_encoding = encoding
