"""Encoded row images, column by column: combines two of one version (pure)."""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any

import fastavro

from tailrace_schemas.events.column_types import avro_type
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema


class ImageColumns:
    """Divides row images of :meth:`EnvelopeEncoder.encode_images` into columns.

    It serves the few rows of a snapshot that changed while they were read, because it must read
    each column to find its end.

    Args:
        schema: the version of the images.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._columns = [fastavro.parse_schema(_plain(column)) for column in schema.columns]

    def put_together(self, image: bytes, other: bytes, places: Collection[int]) -> bytes:
        """Return a row image with some columns replaced by those of another image of the version.

        Args:
            image: the image that is changed.
            other: the image with the new values.
            places: indexes of the columns to replace.
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
    """Return the column's type without its logical type, so that dates are not decoded."""
    schema: Any = avro_type(column.type, lossless=column.lossless)
    if isinstance(schema, dict):
        schema = {name: value for name, value in schema.items() if name != "logicalType"}
    return schema if column.is_required else ["null", schema]
