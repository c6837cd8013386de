"""Blocks of change rows to framed events, the same as those of ``envelopes.envelope``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace_publisher.encode.blocks.block_events import BlockEvents
from tailrace_publisher.encode.blocks.block_writer import BlockWriter
from tailrace_publisher.encode.blocks.byte_runs import (
    Bytes,
    Flags,
    Longs,
    as_bytes,
    as_list,
    flags_of,
    places,
)
from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.header import HEADER_CELLS, OPERATION_AT, Header
from tailrace_publisher.encode.blocks.images import ImageEncoder, Images
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.event_forms import parts_of_event
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import Operation

__all__ = ["BlockEncoder", "EncodedBlock", "Header"]

_DROPPED: Final = -1


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """A block whose columns are encoded; it holds nothing of the block's own memory.

    Attributes:
        images: the columns of every row, joined (Arrow).
        keys: the framed key of every row (Arrow); None in a keyless table.
    """

    header: Header
    images: Any
    keys: Any

    def __len__(self) -> int:
        return len(self.header)

    def first(self, rows: int) -> EncodedBlock:
        """Return its first rows."""
        return EncodedBlock(
            self.header.first(rows),
            self.images[:rows],
            None if self.keys is None else self.keys[:rows],
        )


class BlockEncoder:
    """Encodes blocks of one capture instance in one schema version; for one thread at a time.

    Args:
        server_name: logical name of the server, ``source.name``.
        value_schema_id: registry id of the schema of its events, in their form.
        key_schema_id: registry id of the key's schema; None for a keyless table.

    Attributes:
        cells: the layout of each column of a block.
        as_bytes: names of the columns of which a block has the bytes of char or varchar.

    Raises:
        Declined: no block can hold a column's type.
    """

    def __init__(
        self,
        server_name: str,
        schema: TableSchema,
        topic: str,
        value_schema_id: int,
        key_schema_id: int | None,
        treatment: Treatment | None = None,
    ) -> None:
        mask = UpdateMask(schema)
        if mask.has_large_columns:
            raise Declined("a value may be unavailable")
        self._treatment = treatment or Treatment()
        self._key_schema_id = key_schema_id
        self.schema = schema
        self._take(frozenset())
        self.topic = topic
        self._table = schema.table
        self.schema_id = value_schema_id
        self._writer = BlockWriter(
            parts_of_event(self._treatment.form, value_schema_id, server_name, schema, mask)
        )

    def relearned(self) -> BlockEncoder:
        """Return itself, or an encoder with wider cells for the columns that were not ASCII.

        Blocks that were fetched for this encoder have its cells, so it does not change.
        """
        if self._rows.not_ascii == self._told:
            return self
        other = copy(self)
        other._take(self._rows.not_ascii)  # noqa: SLF001 - of the same class
        return other

    def _take(self, not_ascii: Set[str]) -> None:
        self._told = not_ascii
        self._rows = ImageEncoder(
            self.schema, self._key_schema_id, hashes=self._treatment.hashes, not_ascii=not_ascii
        )
        self.cells = (*HEADER_CELLS, *self._rows.cells)
        self.as_bytes = self._rows.as_bytes

    def encode_columns(self, columns: Sequence[Cells]) -> EncodedBlock:
        """Encode a block's columns.

        Args:
            columns: in the form of ``cells``.

        Raises:
            Declined: only the reference knows what to do with the block.
            NotAscii: or the encoder that this one has become.
        """
        images = self.encode_values(columns)
        return EncodedBlock(self.header_of(columns), images.rows, images.keys)

    @staticmethod
    def header_of(columns: Sequence[Cells]) -> Header:
        """Encode position and update mask of a block's rows; see :meth:`encode_columns`."""
        return Header.of(columns[: len(HEADER_CELLS)])

    def encode_values(self, columns: Sequence[Cells]) -> Images:
        """Encode the values of a block's rows; see :meth:`encode_columns`."""
        return self._rows.encode(columns[len(HEADER_CELLS) :])

    def encode(
        self,
        blocks: Sequence[EncodedBlock],
        commit_ms: Mapping[bytes, int],
        processed_ms: int | None = None,
    ) -> EncodedRows:
        """Write the events of consecutive blocks, which together hold whole updates.

        Args:
            blocks: at least one row.
            commit_ms: commit time in milliseconds UTC of every commit LSN in the rows.
            processed_ms: the event's ``ts_ms``; null when it is not given.

        Raises:
            Declined: half an update, or no commit time.
        """
        whole = blocks[0] if len(blocks) == 1 else self._together(blocks)
        positions, masks = whole.header.positions, whole.header.masks
        images, keys = whole.images, whole.keys
        events, kinds = _events(positions, keys)
        found = len(kinds)
        if self._treatment.skips:
            events, kinds = self._without_skipped(images, events, kinds)
            if not len(kinds):
                return EncodedRows(
                    *(self.topic, self.schema_id),
                    table=self._table,
                    skipped=found,
                    lacks_operations=bool(self._treatment.skipped),
                )
        if events is not None:
            positions, masks = positions[events], masks[events]
            keys = keys if keys is None else keys.take(places(events))
        header = Header(positions, masks)
        page = BlockEvents(images, events, kinds, header, commit_ms, processed_ms)
        return EncodedRows(
            self.topic,
            self.schema_id,
            as_bytes(np.ascontiguousarray(positions)),
            [None] * len(kinds) if keys is None else list(as_list(keys)),
            as_list(self._writer.values(page)),
            page.deletes(),
            self._table,
            found - len(kinds),
            bool(self._treatment.skipped),
            self._treatment.serializer,
        )

    def _together(self, blocks: Sequence[EncodedBlock]) -> EncodedBlock:
        positions = np.concatenate([block.header.positions for block in blocks])
        keys = None
        if self._rows.has_keys:
            keys = pa.concat_arrays([block.keys for block in blocks])
        return EncodedBlock(
            Header(positions, _stacked([block.header.masks for block in blocks])),
            pa.concat_arrays([block.images for block in blocks]),
            keys,
        )

    def _without_skipped(
        self, images: Any, events: Longs | None, kinds: Longs
    ) -> tuple[Longs, Longs]:
        """Return row indexes and kinds of the events that are published."""
        rows = np.arange(len(kinds)) if events is None else events
        kept = np.isin(kinds, list(self._treatment.skipped), invert=True)
        if self._treatment.skips_unchanged:
            updates = np.flatnonzero(kinds == Kind.UPDATE)
            kept[updates] &= _differ(images, rows[updates] - 1)
        return rows[kept], kinds[kept]


def _stacked(masks: Sequence[Bytes]) -> Bytes:
    """Masks of several blocks, whose widths may differ where some rows have none."""
    width = max(mask.shape[1] for mask in masks)
    return np.concatenate([np.pad(mask, ((0, 0), (0, width - mask.shape[1]))) for mask in masks])


def _events(positions: Bytes, keys: Any) -> tuple[Longs | None, Longs]:
    """Row of every event, None where each row is one; and its kind. See ``kinds.events_of``."""
    operations = positions[:, OPERATION_AT].astype(np.int64)
    is_before = operations == Operation.UPDATE_BEFORE
    is_after = operations == Operation.UPDATE_AFTER
    if not (is_before.any() or is_after.any()):
        return None, operations
    if is_before[-1] or is_after[0] or (is_before[:-1] != is_after[1:]).any():
        raise Declined("half an update")
    before = np.flatnonzero(is_before)
    changes = positions[:, :OPERATION_AT]
    if (changes[before] != changes[before + 1]).any():
        raise Declined("half an update")
    kinds = operations.copy()
    kinds[before] = _DROPPED
    if keys is not None:
        moved = _differ(keys, before)
        kinds[before[moved]] = Kind.KEY_DELETE
        kinds[before[moved] + 1] = Kind.KEY_INSERT
    events = np.flatnonzero(kinds != _DROPPED)
    return events, kinds[events]


def _differ(keys: Any, rows: Longs) -> Flags:
    """Whether the key, or image, of a row is another one than the next row's."""
    same = pc.equal(keys.take(places(rows)), keys.take(places(rows + 1)))
    return ~flags_of(same)
