"""The row images of published events, cut out of their Avro as bytes.

The values of the images are not converted. So an image goes into another event of the same schema
version as it is, and two images are equal if their bytes are.
"""

from __future__ import annotations

import io
from typing import Any, Final

import fastavro

from tailrace_publisher.change.row_histories import RowChange
from tailrace_schemas.events.framing import split_frame

_BRANCH: Final = 1
"""Bytes of the number of a union's branch."""


class EventImages:
    """Cuts the images out of the events of one schema version, in Debezium's form.

    Args:
        schema_id: registry id of the schema of the events' values.
        envelope: as it is registered.
    """

    def __init__(self, schema_id: int, envelope: dict[str, Any]) -> None:
        image, _, *further = envelope["fields"]
        self._schema_id = schema_id
        self._image = fastavro.parse_schema(image["type"])
        self._further = fastavro.parse_schema(
            {"type": "record", "name": "tailrace.AfterImages", "fields": further}
        )

    def change_of(self, key: bytes | None, value: bytes) -> RowChange:
        """Return the change that an event describes, with the unframed key.

        Raises:
            ValueError: the event has another schema, no key, or is a row that was read.
        """
        schema_id, payload = split_frame(value)
        if schema_id != self._schema_id:
            raise ValueError("an event has another schema")
        if key is None:
            raise ValueError("an event has no key")
        stream = io.BytesIO(payload)
        images: list[bytes | None] = []
        for _ in range(2):
            begin = stream.tell()
            found = fastavro.schemaless_reader(stream, self._image, None)
            end = stream.tell()
            images.append(None if found is None else payload[begin + _BRANCH : end])
        rest = fastavro.schemaless_reader(stream, self._further, None)
        if not isinstance(rest, dict) or not rest["source"]["operation"]:
            raise ValueError("an event is a row that was read, not a change")
        return RowChange(split_frame(key)[1], *images)
