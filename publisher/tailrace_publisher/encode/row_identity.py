"""The bytes that identify a table row, in snapshot rows and in change rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace_publisher.encode.columns.column_encoders import column_encoder
from tailrace_publisher.encode.columns.value_encoders import ColumnEncoder
from tailrace_schemas.events.envelope import TableSchema


class RowIdentity:
    """Writes the columns that distinguish a table's rows as one byte string.

    Without such columns all rows have the same identity: any change counts for every row.

    Args:
        schema: the version of the rows.
        names: the columns of ``CaptureInstance.identity``.
    """

    def __init__(self, schema: TableSchema, names: Sequence[str]) -> None:
        places = {column.name: place for place, column in enumerate(schema.columns)}
        self.schema = schema
        self._is_known = all(name in places for name in names)
        self._columns = [
            (places[name], column_encoder(schema.columns[places[name]]))
            for name in names
            if name in places
        ]

    def of(self, rows: Sequence[Sequence[Any]], offset: int = 0) -> list[bytes] | None:
        """Return the identities of rows.

        Args:
            rows: values in the schema's order.
            offset: columns before the first value.

        Returns:
            None if the version does not have the columns.
        """
        if not self._is_known:
            return None
        parts = [
            _encoded(encode, [row[offset + place] for row in rows])
            for place, encode in self._columns
        ]
        return list(map(b"".join, zip(*parts, strict=True))) if parts else [b""] * len(rows)


def _encoded(encode: ColumnEncoder, values: Sequence[Any]) -> list[bytes]:
    """Return the Avro bytes of values; own bytes for text with half a surrogate pair."""
    try:
        return encode(values)
    except UnicodeEncodeError:
        return [_encoded_text(encode, value) for value in values]


def _encoded_text(encode: ColumnEncoder, value: str) -> bytes:
    try:
        return encode((value,))[0]
    except UnicodeEncodeError:
        return b"\xff" + value.encode("utf-16le", "surrogatepass")
