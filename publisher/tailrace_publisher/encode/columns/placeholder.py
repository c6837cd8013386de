"""A text instead of values that a change table does not hold (``unavailable_values``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import TableSchema

_CLR: Final = frozenset({"hierarchyid", "geometry", "geography"})
_BYTES: Final = frozenset({"varbinary", "image"})


class Placeholder:
    """Fills the columns of a page; events still name the unavailable columns.

    Text columns get the text, and binary ones its UTF-8 bytes. Columns of CLR types stay NULL,
    because their bytes have a form of their own.
    """

    def __init__(self, schema: TableSchema, text: str) -> None:
        self._mask = UpdateMask(schema)
        self._fillings = {
            place: filling
            for place in self._mask.large_places
            if (filling := _filling(schema.columns[place].type, text)) is not None
        }

    def filled(
        self,
        columns: Sequence[Sequence[Any]],
        operations: Sequence[int],
        masks: Sequence[bytes | None],
    ) -> list[Sequence[Any]]:
        """Return the columns with the placeholder in each image that lacks a value.

        Operations and masks are those of the rows.
        """
        filled = list(columns)
        for place, filling in self._fillings.items():
            values = columns[place]
            if None in values:
                filled[place] = [
                    filling
                    if value is None and self._mask.is_untold(place, operation, mask)
                    else value
                    for value, operation, mask in zip(values, operations, masks, strict=True)
                ]
        return filled


def _filling(column_type: ColumnType, text: str) -> str | bytes | None:
    if column_type.name in _CLR:
        return None
    return text.encode() if column_type.name in _BYTES else text
