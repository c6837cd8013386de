"""Change rows to framed events, a page at a time.

``row_columns`` encodes a page by column into row images and keys. This module pairs the rows to
events. ``event_forms`` describes what surrounds the images; ``row_writer`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import repeat
from typing import Any, Final

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.event_forms import parts_of_event
from tailrace_publisher.encode.envelopes.page_events import PageEvents
from tailrace_publisher.encode.envelopes.row_columns import EncodedColumns, RowColumns, images_of
from tailrace_publisher.encode.envelopes.row_writer import RowWriter
from tailrace_publisher.encode.event_kinds import DELETES, Kind, RawRow, UnpairedUpdate, events_of
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition, pack_position
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn

_OPERATIONS: Final = frozenset({1, 2, 3, 4})
_AFTER_ALL: Final = 0x7FFFFFFF
"""A command id after all of a commit."""


class EnvelopeEncoder:
    """Encodes the rows of one capture instance in one schema version.

    Args:
        server_name: logical name of the server, ``source.name``.
        value_schema_id: registry id of ``value_schema(treatment.form, prefix, schema)``.
        key_schema_id: registry id of ``key_schema(prefix, schema)``; None for a keyless table.

    Raises:
        UnsupportedType: a column has no Avro form.
        ValueError: the key schema id is missing though the table has a key, or the reverse.
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
        self.server_name = server_name
        self.schema = schema
        self.topic = topic
        self.key_schema_id = key_schema_id
        self.schema_id = value_schema_id
        self.treatment = treatment = treatment or Treatment()
        self._columns = RowColumns(schema, key_schema_id, treatment)
        self._mask = UpdateMask(schema)
        self._placeholder = treatment.placeholder_of(schema)
        self._writer = RowWriter(
            parts_of_event(treatment.form, value_schema_id, server_name, schema, self._mask)
        )

    def encode(
        self,
        rows: Sequence[RawRow],
        commit_ms: Mapping[bytes, int],
        processed_ms: int | None = None,
        *,
        is_whole: bool = True,
    ) -> EncodedRows:
        """Encode a page of change rows in clustered order; 500 to 2000 rows are fastest.

        Inserts, deletes and updates (operation 3 with its 4) give one event each. An update that
        changes the event key gives two. The delete of the old key is at the position of operation
        3. The create of the new key is at the position of operation 4.

        Args:
            rows: (commit_lsn, command_id, seqval, operation, update_mask, *values).
            commit_ms: commit time in milliseconds UTC of every commit LSN in the rows.
            is_whole: whether the snapshot of the table is published. Until then nothing is
                skipped, because the snapshot leaves out the rows that the stream has.

        Raises:
            EncodeError: a value does not fit its Avro type, an update lacks its other half, or a
                commit time is missing. Nothing of the page is encoded then.
        """
        if not rows:
            return EncodedRows(self.topic, self.schema_id)
        commits, commands, seqvals, operations, masks, *columns = zip(*rows, strict=True)
        values: list[Sequence[Any]] = list(columns)
        if self._placeholder is not None and self._mask.has_large_columns:
            values = self._placeholder.filled(columns, operations, masks)
        encoded = self._columns.encode(values, rows)
        images = images_of(encoded)
        keys = self._columns.keys(encoded, len(rows))
        events, kinds = self._events(rows, operations, keys)
        found = len(events)
        if is_whole and self.treatment.skips:
            events, kinds = self._without_skipped(events, kinds, self._compared(encoded), masks)
        if len(events) != len(rows):
            commits, commands, seqvals, operations, masks = (
                tuple(map(values.__getitem__, events))
                for values in (commits, commands, seqvals, operations, masks)
            )
            keys = [keys[row] for row in events]
        unavailable: Iterable[tuple[str, ...]] = repeat(())
        if self._mask.has_large_columns:
            unavailable = self._mask.unavailable(columns, events, operations, masks)
        times = self._commit_times(rows, set(commits), commit_ms)
        positions = list(map(pack_position, commits, commands, seqvals, operations))
        page = PageEvents(
            kinds,
            events,
            images,
            positions,
            commits,
            commands,
            seqvals,
            masks,
            unavailable,
            times,
            processed_ms,
        )
        return EncodedRows(
            self.topic,
            self.schema_id,
            positions,
            keys,
            self._writer.values(page),
            [index for index, kind in enumerate(kinds) if kind in DELETES],
            self.schema.table,
            found - len(kinds),
            bool(self.treatment.skipped),
            self.treatment.serializer,
        )

    def encode_images(
        self, rows: Sequence[Sequence[Any]], read_at: Lsn
    ) -> tuple[list[bytes], list[bytes | None]]:
        """Encode row images and framed keys of a snapshot, which wait for their fence.

        Args:
            rows: values in the schema's order.
            read_at: LSN up to which everything was published at the read; for errors.

        Raises:
            EncodeError: a value does not fit its Avro type.
        """
        if not rows:
            return [], []
        position = ChangePosition.of_snapshot(read_at)
        encoded = self._columns.encode(list(zip(*rows, strict=True)), position)
        return images_of(encoded), self._columns.keys(encoded, len(rows))

    def snapshot_events(
        self,
        images: Sequence[bytes],
        keys: list[bytes | None],
        fence: Lsn,
        read_ms: int,
        last: bool,
        kind: Kind = Kind.READ,
    ) -> EncodedRows:
        """Write the events of :meth:`encode_images`, all at the position of their fence.

        Args:
            fence: LSN at which the rows are known to be current.
            read_ms: time of the read, milliseconds UTC.
            last: whether these end the table; its last event then says ``snapshot: last``.
            kind: READ for a snapshot, PATCH for a patch.
        """
        if not images:
            return EncodedRows(self.topic, self.schema_id)
        values = self._writer.snapshot_values(images, fence, read_ms, last, kind)
        position = ChangePosition.of_snapshot(fence).to_bytes()
        positions = [position] * len(images)
        return EncodedRows(
            *(self.topic, self.schema_id, positions, keys, values),
            table=self.schema.table,
            serializer=self.treatment.serializer,
        )

    def repair_events(
        self,
        images: Sequence[bytes],
        keys: list[bytes | None],
        absent: Set[int],
        lsn: Lsn,
        first: int,
        read_ms: int,
    ) -> EncodedRows:
        """Write rows as they are, whatever a reader has, after every change of a commit.

        Args:
            images: of :meth:`encode_images`; of an absent row with the key alone.
            absent: indexes of the keys without a row.
            lsn: commit at which the rows are known to be current.
            first: number of the first event. Events that are to win need higher numbers.
            read_ms: time of the read, milliseconds UTC.
        """
        if not images or self.key_schema_id is None:
            return EncodedRows(self.topic, self.schema_id)
        count, commit = len(images), lsn.to_bytes()
        kinds = [Kind.DELETE if place in absent else Kind.UPDATE for place in range(count)]
        seqvals = [(first + place).to_bytes(LSN_BYTES, "big") for place in range(count)]
        places = zip(seqvals, kinds, strict=True)
        positions = [pack_position(commit, _AFTER_ALL, seqval, kind) for seqval, kind in places]
        page = PageEvents(
            kinds,
            range(1, 2 * count, 2),  # an image twice: before and after
            [image for image in images for _ in range(2)],
            positions,
            [commit] * count,
            [_AFTER_ALL] * count,
            seqvals,
            [None] * count,
            repeat(()),
            {commit: read_ms},
            read_ms,
            "repair",
        )
        return EncodedRows(
            self.topic,
            self.schema_id,
            positions,
            keys,
            self._writer.values(page),
            sorted(absent),
            self.schema.table,
            serializer=self.treatment.serializer,
        )

    def twin(self) -> EnvelopeEncoder:
        """Return an encoder of the same version for another thread.

        Both remember on their own, but log half a surrogate pair once.
        """
        twin = EnvelopeEncoder(
            self.server_name,
            self.schema,
            self.topic,
            self.schema_id,
            self.key_schema_id,
            self.treatment,
        )
        twin._columns.half_pairs = self._columns.half_pairs
        return twin

    def _events(
        self, rows: Sequence[RawRow], operations: Sequence[int], keys: Sequence[bytes | None]
    ) -> tuple[Sequence[int], Sequence[int]]:
        if not _OPERATIONS.issuperset(operations):
            row = next(row for row in rows if row[3] not in _OPERATIONS)
            raise self._columns.error(
                "__$operation", row, f"{row[3]!r} is not an operation of 1 to 4"
            )
        try:
            return events_of(rows, operations, keys)
        except UnpairedUpdate as error:
            raise self._columns.error("__$operation", rows[error.row], str(error)) from error

    def _compared(self, encoded: EncodedColumns) -> list[bytes]:
        """Row images without large columns: before images may lack their values."""
        large = set(self._mask.large_places)
        kept = [values for place, values in enumerate(encoded) if place not in large]
        return images_of(kept)

    def _without_skipped(
        self,
        events: Sequence[int],
        kinds: Sequence[int],
        images: Sequence[bytes],
        masks: Sequence[bytes | None],
    ) -> tuple[list[int], list[int]]:
        """Return row indexes and kinds of the events that are published.

        Args:
            images: of all rows, without large columns.
            masks: of all rows. Only its bit shows whether a large column changed.
        """
        skipped = self.treatment.skipped
        kept = [pair for pair in zip(events, kinds, strict=True) if pair[1] not in skipped]
        if self.treatment.skips_unchanged:
            is_large = self._mask.has_changed_large
            kept = [
                (row, kind)
                for row, kind in kept
                if kind != Kind.UPDATE or images[row - 1] != images[row] or is_large(masks[row])
            ]
        return [row for row, _ in kept], [kind for _, kind in kept]

    def _commit_times(
        self, rows: Sequence[RawRow], commits: set[bytes], commit_ms: Mapping[bytes, int]
    ) -> dict[bytes, int]:
        missing = commits - commit_ms.keys()
        if missing:
            row = next(row for row in rows if row[0] in missing)
            reason = "cdc.lsn_time_mapping gave no commit time for this LSN"
            raise self._columns.error("__$start_lsn", row, reason)
        return {commit: commit_ms[commit] for commit in commits}
