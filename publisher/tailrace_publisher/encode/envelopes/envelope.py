"""Change rows to framed events, a page at a time.

A page is turned into columns, the columns into row images and keys, the rows into events.
``event_forms`` describes what surrounds the images of an event; ``row_writer`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from tailrace_publisher.encode.columns.column_encoders import VALUE_ERRORS, column_encoder
from tailrace_publisher.encode.columns.half_pairs import HalfPairs
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.event_forms import parts_of_event
from tailrace_publisher.encode.envelopes.page_events import PageEvents
from tailrace_publisher.encode.envelopes.row_writer import RowWriter
from tailrace_publisher.encode.event_kinds import DELETES, Kind, RawRow, UnpairedUpdate, events_of
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_publisher.errors import EncodeError
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.change_position import ChangePosition, pack_position
from tailrace_schemas.position.lsn import Lsn

_OPERATIONS: Final = frozenset({1, 2, 3, 4})


class EnvelopeEncoder:
    """Encodes the rows of one capture instance in one schema version.

    Args:
        server_name: logical name of the server, ``source.name``.
        schema: the version's columns.
        topic: topic of the events.
        value_schema_id: registry id of ``value_schema(treatment.form, prefix, schema)``.
        key_schema_id: registry id of ``key_schema(prefix, schema)``; None for a keyless table.
        treatment: what the options say of its events.

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
        if bool(schema.key_columns) != (key_schema_id is not None):
            raise ValueError(f"{schema.table}: key columns and key schema id do not agree")
        self.server_name = server_name
        self.schema = schema
        self.topic = topic
        self.key_schema_id = key_schema_id
        self.schema_id = value_schema_id
        self.treatment = treatment = treatment or Treatment()
        self._half_pairs = HalfPairs(treatment.surrogates, str(schema.table))
        self._columns = [column_encoder(column, treatment.hashes) for column in schema.columns]
        self._key_indexes = [schema.columns.index(column) for column in schema.key_columns]
        self._key_frame = frame_header(key_schema_id) if key_schema_id is not None else b""
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
        changes the event key gives two: delete of the old key at the position of the operation 3
        row, create of the new one at that of the operation 4 row.

        Args:
            rows: (commit_lsn, command_id, seqval, operation, update_mask, *values).
            commit_ms: commit time in milliseconds UTC of every commit LSN in the rows.
            processed_ms: the event's ``ts_ms``; null when it is not given.
            is_whole: whether the snapshot of the table is out. Until then nothing is skipped: rows
                that the stream tells about are left out of the snapshot.

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
        encoded = self._encode_columns(values, rows)
        images = list(map(b"".join, zip(*encoded, strict=True)))
        keys = self._keys(encoded, len(rows))
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
            str(self.schema.table),
            found - len(kinds),
            bool(self.treatment.skipped),
            self.treatment.serializer,
        )

    def encode_images(
        self, rows: Sequence[Sequence[Any]], read_at: Lsn
    ) -> tuple[list[bytes], list[bytes | None]]:
        """Row images and framed keys of the snapshot, which wait for their fence.

        Args:
            rows: values in the schema's order.
            read_at: LSN up to which everything was out when they were read, for errors.

        Raises:
            EncodeError: a value does not fit its Avro type.
        """
        if not rows:
            return [], []
        position = ChangePosition.of_snapshot(read_at)
        encoded = self._encode_columns(list(zip(*rows, strict=True)), None, position)
        return list(map(b"".join, zip(*encoded, strict=True))), self._keys(encoded, len(rows))

    def snapshot_events(
        self,
        images: Sequence[bytes],
        keys: list[bytes | None],
        fence: Lsn,
        read_ms: int,
        last: bool,
    ) -> EncodedRows:
        """The events of row images, all at the position of their fence.

        Args:
            images: from :meth:`encode_images`.
            keys: the same.
            fence: LSN at which the rows are known to be current.
            read_ms: when they were read, milliseconds UTC.
            last: whether these end the table; its last event then says ``snapshot: last``.
        """
        if not images:
            return EncodedRows(self.topic, self.schema_id)
        table = str(self.schema.table)
        values = self._writer.snapshot_values(images, fence, read_ms, last)
        position = ChangePosition.of_snapshot(fence).to_bytes()
        positions = [position] * len(images)
        return EncodedRows(
            *(self.topic, self.schema_id, positions, keys, values),
            table=table,
            serializer=self.treatment.serializer,
        )

    def twin(self) -> EnvelopeEncoder:
        """An encoder of the same version for another thread: what they remember is their own.

        What is told of half a surrogate pair is told once by both.
        """
        twin = EnvelopeEncoder(
            self.server_name,
            self.schema,
            self.topic,
            self.schema_id,
            self.key_schema_id,
            self.treatment,
        )
        twin._half_pairs = self._half_pairs
        return twin

    def _keys(self, encoded: list[list[bytes]], count: int) -> list[bytes | None]:
        """Framed keys: a key column's bytes are the same in the key as in the row."""
        if not self._key_indexes:
            return [None] * count
        parts = [encoded[index] for index in self._key_indexes]
        return list(map(b"".join, zip(repeat(self._key_frame), *parts, strict=False)))

    def _events(
        self, rows: Sequence[RawRow], operations: Sequence[int], keys: Sequence[bytes | None]
    ) -> tuple[Sequence[int], Sequence[int]]:
        if not _OPERATIONS.issuperset(operations):
            row = next(row for row in rows if row[3] not in _OPERATIONS)
            raise self._error("__$operation", row, f"{row[3]!r} is not an operation of 1 to 4")
        try:
            return events_of(rows, operations, keys)
        except UnpairedUpdate as error:
            raise self._error("__$operation", rows[error.row], str(error)) from error

    def _compared(self, encoded: list[list[bytes]]) -> list[bytes]:
        """Row images without large columns: before images may lack their values."""
        large = set(self._mask.large_places)
        kept = [values for place, values in enumerate(encoded) if place not in large]
        return list(map(b"".join, zip(*kept, strict=True)))

    def _without_skipped(
        self,
        events: Sequence[int],
        kinds: Sequence[int],
        images: Sequence[bytes],
        masks: Sequence[bytes | None],
    ) -> tuple[list[int], list[int]]:
        """The events that are published.

        Args:
            events: row index of each.
            kinds: of each.
            images: of the rows, without large columns.
            masks: of the rows: whether a large column changed only its bit tells.
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
            raise self._error("__$start_lsn", row, reason)
        return {commit: commit_ms[commit] for commit in commits}

    def _encode_columns(
        self,
        columns: Sequence[Sequence[Any]],
        rows: Sequence[RawRow] | None,
        snapshot: ChangePosition | None = None,
    ) -> list[list[bytes]]:
        if len(columns) != len(self._columns):
            raise self._error(
                "*",
                rows[0] if rows else snapshot,
                f"rows have {len(columns)} values, version {self.schema.schema_lsn} of capture"
                f" instance {self.schema.capture_instance} has {len(self._columns)} columns",
            )
        encoded: list[list[bytes]] = []
        for index, values in enumerate(columns):
            try:
                encoded.append(self._encode_column(index, values))
            except VALUE_ERRORS as error:
                row, reason = self._blame(index, values, error)
                name = self.schema.columns[index].name
                where = rows[row] if rows else snapshot
                raise self._error(name, where, reason, is_of_event=True) from error
        return encoded

    def _encode_column(self, index: int, values: Sequence[Any]) -> list[bytes]:
        try:
            return self._columns[index](values)
        except UnicodeEncodeError:
            whole = self._half_pairs.without(self.schema.columns[index], values)
            if whole is None:
                raise
            return self._columns[index](whole)

    def _blame(self, index: int, values: Sequence[Any], error: Exception) -> tuple[int, str]:
        """Row and reason of the first value that does not fit; no value is in the reason."""
        declared = self.schema.columns[index].type
        kind = type(error).__name__
        if self.schema.columns[index].transform is not None:
            return 0, f"what is read for it does not fit {declared}: {kind}"
        for row, value in enumerate(values):
            try:
                self._columns[index]((value,))
            except VALUE_ERRORS as single:
                why = str(single) if value is None else type(single).__name__
                return row, f"{_shape(value)} does not fit {declared}: {why}"
        return 0, f"a value does not fit {declared}: {kind}"

    def _error(
        self,
        column: str,
        where: RawRow | ChangePosition | None,
        reason: str,
        *,
        is_of_event: bool = False,
    ) -> EncodeError:
        if where is None or isinstance(where, ChangePosition):
            position = str(where)
        else:
            commit, command_id, seqval, operation = where[:4]
            position = f"{commit.hex(':', -4)}/{command_id}/{seqval.hex(':', -4)}/{operation}"
        table = str(self.schema.table)
        return EncodeError(table, column, position, reason, is_of_event=is_of_event)


def _shape(value: Any) -> str:
    """What a value is, without what is in it."""
    if value is None:
        return "NULL"
    kind = type(value).__name__
    return f"a {kind} of length {len(value)}" if isinstance(value, str | bytes) else f"a {kind}"
