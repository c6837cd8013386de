"""Change rows to framed envelopes, a page at a time.

Theory of operation. Of an envelope only the row images, seqval and a few small numbers change from
row to row. So an event is a join of these parts::

    head    frame, and the branches of before and after that come before the first image
    before  image, or empty
    middle  branches between the images
    after   image, or empty
    commit  source up to change_lsn: constant per transaction
    seqval  text of the LSN
    commit  commit_lsn: constant per transaction
    serial  event_serial_no: constant per kind
    command id
    suffix  operation to op: constant per (kind, update mask, unavailable)
    end     ts_ms and the transaction branch: constant per page

and each part is a list made by one comprehension. What depends on few values is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from tailrace_publisher.encode.columns import VALUE_ERRORS, column_encoder
from tailrace_publisher.encode.half_pairs import HalfPairs
from tailrace_publisher.encode.kinds import (
    DELETES,
    HAS_AFTER,
    HAS_BEFORE,
    Kind,
    RawRow,
    UnpairedUpdate,
    events_of,
)
from tailrace_publisher.encode.rows import EncodedRows
from tailrace_publisher.encode.source_parts import SourceParts, command_ids, envelope_end, serials
from tailrace_publisher.encode.treatment import Treatment
from tailrace_publisher.encode.varint import NULL, PRESENT
from tailrace_publisher.errors import EncodeError
from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.framing import frame_header
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition, pack_position

_VALUE_CHARACTERS_MAX: Final = 60
_OPERATIONS: Final = frozenset({1, 2, 3, 4})


class EnvelopeEncoder:
    """Encodes the rows of one capture instance in one schema version.

    Args:
        server_name: logical name of the server, ``source.name``.
        schema: the version's columns.
        topic: topic of the events.
        value_schema_id: registry id of ``envelope_schema(prefix, schema)``.
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
        self._source = SourceParts(server_name, schema)
        frame = frame_header(value_schema_id)
        self._heads: dict[int, bytes] = {
            kind: frame + (PRESENT if kind in HAS_BEFORE else NULL + PRESENT) for kind in Kind
        }
        self._middles: dict[int, bytes] = {
            kind: (PRESENT if kind in HAS_AFTER else NULL) if kind in HAS_BEFORE else b""
            for kind in Kind
        }

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
            processed_ms: the envelope's ``ts_ms``; null when it is not given.
            is_whole: whether the snapshot of the table is out. Until then nothing is skipped: rows
                that the stream tells about are left out of the snapshot.

        Raises:
            EncodeError: a value does not fit its Avro type, an update lacks its other half, or a
                commit time is missing. Nothing of the page is encoded then.
        """
        if not rows:
            return EncodedRows(self.topic, self.schema_id)
        commits, commands, seqvals, operations, masks, *columns = zip(*rows, strict=True)
        encoded = self._encode_columns(columns, rows)
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
        if self._source.mask.has_large_columns:
            unavailable = self._source.mask.unavailable(columns, events, operations, masks)
        heads, middles = self._commit_parts(rows, set(commits), commit_ms)
        suffix_keys = zip(kinds, masks, unavailable, strict=False)
        parts = zip(
            *self._image_parts(kinds, events, images),
            map(heads.__getitem__, commits),
            [seqval.hex(":", -4).encode() for seqval in seqvals],
            map(middles.__getitem__, commits),
            serials(kinds),
            command_ids(commands),
            map(self._source.suffixes.__getitem__, suffix_keys),
            repeat(envelope_end(processed_ms)),
            strict=False,
        )
        return EncodedRows(
            self.topic,
            self.schema_id,
            list(map(pack_position, commits, commands, seqvals, operations)),
            keys,
            list(map(b"".join, parts)),
            [index for index, kind in enumerate(kinds) if kind in DELETES],
            str(self.schema.table),
            found - len(kinds),
            bool(self.treatment.skipped),
        )

    def encode_snapshot(
        self, rows: Sequence[Sequence[Any]], fence: Lsn, read_ms: int, last: bool
    ) -> EncodedRows:
        """Encode rows of the initial snapshot, all at the position of their fence.

        Args:
            rows: values in the schema's order.
            fence: LSN at which the rows are known to be current.
            read_ms: when they were read, milliseconds UTC.
            last: whether these end the table; its last event then says ``snapshot: last``.

        Raises:
            EncodeError: a value does not fit its Avro type.
        """
        images, keys = self.encode_images(rows, fence)
        return self.snapshot_events(images, keys, fence, read_ms, last)

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
            fence: see :meth:`encode_snapshot`, also for what follows.
            read_ms: when they were read.
            last: whether these end the table.
        """
        if not images:
            return EncodedRows(self.topic, self.schema_id)
        head = self._heads[Kind.READ]
        end = self._source.snapshot(fence, read_ms, "true")
        values = [head + image + end for image in images]
        if last:
            values[-1] = head + images[-1] + self._source.snapshot(fence, read_ms, "last")
        position = ChangePosition.of_snapshot(fence).to_bytes()
        return EncodedRows(self.topic, self.schema_id, [position] * len(images), keys, values)

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
        large = set(self._source.mask.large_places)
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
            is_large = self._source.mask.has_changed_large
            kept = [
                (row, kind)
                for row, kind in kept
                if kind != Kind.UPDATE or images[row - 1] != images[row] or is_large(masks[row])
            ]
        return [row for row, _ in kept], [kind for _, kind in kept]

    def _image_parts(
        self, kinds: Sequence[int], events: Sequence[int], images: list[bytes]
    ) -> tuple[Iterable[bytes], ...]:
        """Head, before, middle and after of every event; a page of one kind needs no look-ups."""
        distinct = set(kinds)
        if distinct == {Kind.INSERT}:
            is_all = len(events) == len(images)
            after = images if is_all else [images[row] for row in events]
            return repeat(self._heads[Kind.INSERT]), after
        if distinct == {Kind.UPDATE}:
            return (
                repeat(self._heads[Kind.UPDATE]),
                [images[row - 1] for row in events],
                repeat(self._middles[Kind.UPDATE]),
                [images[row] for row in events],
            )
        pairs = list(zip(kinds, events, strict=True))
        return (
            [self._heads[kind] for kind in kinds],
            [
                images[row - 1]
                if kind == Kind.UPDATE
                else images[row]
                if kind in HAS_BEFORE
                else b""
                for kind, row in pairs
            ],
            [self._middles[kind] for kind in kinds],
            [images[row] if kind in HAS_AFTER else b"" for kind, row in pairs],
        )

    def _commit_parts(
        self, rows: Sequence[RawRow], commits: set[bytes], commit_ms: Mapping[bytes, int]
    ) -> tuple[dict[bytes, bytes], ...]:
        missing = commits - commit_ms.keys()
        if missing:
            row = next(row for row in rows if row[0] in missing)
            reason = "cdc.lsn_time_mapping gave no commit time for this LSN"
            raise self._error("__$start_lsn", row, reason)
        return self._source.commits({commit: commit_ms[commit] for commit in commits})

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
                raise self._error(name, rows[row] if rows else snapshot, reason) from error
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
        """Row and reason of the first value that does not fit."""
        declared = self.schema.columns[index].type
        if self.schema.columns[index].transform is not None:
            return 0, f"what is read for it does not fit {declared}: {type(error).__name__}"
        for row, value in enumerate(values):
            try:
                self._columns[index]((value,))
            except VALUE_ERRORS as single:
                shown = repr(value)[:_VALUE_CHARACTERS_MAX]
                return row, f"{shown} ({type(value).__name__}) does not fit {declared}: {single}"
        return 0, f"a value does not fit {declared}: {error}"

    def _error(
        self, column: str, where: RawRow | ChangePosition | None, reason: str
    ) -> EncodeError:
        if where is None or isinstance(where, ChangePosition):
            position = str(where)
        else:
            commit, command_id, seqval, operation = where[:4]
            position = f"{commit.hex(':', -4)}/{command_id}/{seqval.hex(':', -4)}/{operation}"
        return EncodeError(str(self.schema.table), column, position, reason)
