"""The meaning of ``__$update_mask``: one bit per captured column.

The bit of ordinal 1 is the lowest bit of the last byte (reference: cdc-walkthrough; observed with
sys.fn_cdc_is_bit_set). Inserts and deletes have all bits set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import Operation
from tailrace_schemas.topics.escaped_names import avro_name


@dataclass(frozen=True, slots=True)
class _LargeColumn:
    index: int
    bit: int
    name: str
    has_no_before: bool


class UpdateMask:
    """Finds the columns that changed, and large ones whose value the row does not hold.

    Names are the Avro field names, so that a reader finds them in the record.

    Args:
        schema: the published columns in the change table's order, which is that of ordinals.
    """

    def __init__(self, schema: TableSchema) -> None:
        bits = [(column.ordinal or place) - 1 for place, column in enumerate(schema.columns, 1)]
        self._names = tuple(
            (bit, avro_name(column.name)) for bit, column in zip(bits, schema.columns, strict=True)
        )
        self._large = tuple(
            _LargeColumn(
                index,
                bits[index],
                avro_name(column.name),
                column.type.name in {"text", "ntext", "image"},
            )
            for index, column in enumerate(schema.columns)
            if column.type.is_large
        )
        self._by_place = {large.index: large for large in self._large}

    @property
    def has_large_columns(self) -> bool:
        """Whether any column can be unavailable."""
        return bool(self._large)

    def changed(self, mask: bytes | None) -> tuple[str, ...]:
        """Return the names of the columns whose bit is set; empty without a mask."""
        bits = int.from_bytes(mask or b"", "big")
        return tuple(name for bit, name in self._names if bits >> bit & 1)

    def has_changed_large(self, mask: bytes | None) -> bool:
        """Return whether the bit of a large column is set."""
        bits = int.from_bytes(mask or b"", "big")
        return any(bits >> large.bit & 1 for large in self._large)

    @property
    def large_places(self) -> tuple[int, ...]:
        """Indexes of the columns that can be unavailable."""
        return tuple(large.index for large in self._large)

    def is_untold(self, place: int, operation: int, mask: bytes | None) -> bool:
        """Return whether NULL in a large column means that its value was not logged."""
        bits = int.from_bytes(mask or b"", "big")
        return _is_untold(self._by_place[place], operation, bits)

    def left_alone(self, values: Sequence[Any], mask: bytes | None) -> tuple[int, ...]:
        """Return the indexes of large columns that an update did not change, by its after image."""
        bits = int.from_bytes(mask or b"", "big")
        return tuple(
            large.index
            for large in self._large
            if values[large.index] is None and not bits >> large.bit & 1
        )

    def unavailable(
        self,
        columns: Sequence[Sequence[Any]],
        rows: Iterable[int],
        operations: Sequence[int],
        masks: Sequence[bytes | None],
    ) -> list[tuple[str, ...]]:
        """Return the names of large columns that are NULL because CDC did not log them, per event.

        Updates log a large value only if it changed. NULL with the bit off means "not known", NULL
        with the bit on means NULL. An update's event has the row of its after image. So it never
        names a column that only its before image lacks, of which readers would keep the old value.

        Args:
            rows: the row index of each event. The operations and masks are those of these rows.
        """
        found: list[tuple[str, ...]] = []
        for row, operation, mask in zip(rows, operations, masks, strict=True):
            empty = [large for large in self._large if columns[large.index][row] is None]
            bits = int.from_bytes(mask or b"", "big")
            found.append(tuple(lob.name for lob in empty if _is_untold(lob, operation, bits)))
        return found


def _is_untold(large: _LargeColumn, operation: int, bits: int) -> bool:
    """Return whether NULL means that the value was not logged.

    Text, ntext and image have no before image at all.

    See: cdc.<capture_instance>_CT (Transact-SQL), large object data types
    """
    match operation:
        case Operation.INSERT:
            return False
        case Operation.DELETE:
            return large.has_no_before
        case Operation.UPDATE_BEFORE if large.has_no_before:
            return True
        case _:
            return not bits >> large.bit & 1
