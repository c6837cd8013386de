"""Encoded row images, column by column: two of one version can be put together (pure)."""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any

import fastavro

from tailrace_schemas.events.column_types import avro_type
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema


class ImageColumns:
    """Takes row images apart, as :meth:`EnvelopeEncoder.encode_images` has made them.

    It is for the few rows of a snapshot that changed while they were read: each column is read to
    find its end.

    Args:
        schema: the version of the images.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._columns = [fastavro.parse_schema(_plain(column)) for column in schema.columns]

    def put_together(self, image: bytes, other: bytes, places: Collection[int]) -> bytes:
        """A row image with some of its columns taken from another one of the same version.

        Args:
            image: of the row.
            other: has the values of these columns.
            places: of the columns, from 0 on.
        """
        columns, others = self._apart(image), self._apart(other)
        for place in places:
            columns[place] = others[place]
        return b"".join(columns)

    def _apart(self, image: bytes) -> list[bytes]:
        stream = io.BytesIO(image)
        parts: list[bytes] = []
        for schema in self._columns:
            begin = stream.tell()
            fastavro.schemaless_reader(stream, schema, None)
            parts.append(image[begin : stream.tell()])
        return parts


def _plain(column: SchemaColumn) -> Any:
    """The column's type without what it means: years and decimals need not be made of it."""
    schema: Any = avro_type(column.type, lossless=column.lossless)
    if isinstance(schema, dict):
        schema = {name: value for name, value in schema.items() if name != "logicalType"}
    return schema if column.is_required else ["null", schema]
