"""The parts of Debezium envelopes of blocks; the events are those of ``encode.debezium_form``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace_publisher.encode.blocks.byte_runs import (
    Bytes,
    Longs,
    Pieces,
    binary,
    places,
    scalar,
    varints,
)
from tailrace_publisher.encode.blocks.header import COMMAND_AT, OPERATION_AT, SEQVAL_AT, Header
from tailrace_publisher.encode.blocks.kernels import hexadecimal
from tailrace_publisher.encode.blocks.runs import (
    by_kind,
    commit_runs,
    is_inserts,
    of_kinds,
    starts_of,
)
from tailrace_publisher.encode.envelopes.debezium_form import MIDDLES, heads_of
from tailrace_publisher.encode.envelopes.source_parts import (
    BEFORE_COMMIT_LSN,
    SERIALS,
    SourceParts,
    envelope_end,
)
from tailrace_publisher.encode.event_kinds import HAS_AFTER, HAS_BEFORE, Kind
from tailrace_schemas.position.lsn import LSN_BYTES

_LSN_CHARACTERS: Final = 22
_SERIALS: Final = of_kinds(SERIALS)
_MIDDLES: Final = of_kinds(MIDDLES)
_NOTHING: Final = binary([b""])


class DebeziumBlocks:
    """Makes the parts of envelopes; no column of theirs is large.

    Args:
        schema_id: registry id of the envelope's schema.
        source: the parts of ``source`` that the table has.
    """

    def __init__(self, schema_id: int, source: SourceParts) -> None:
        self._heads = of_kinds(heads_of(schema_id))
        self._source = source

    def parts(
        self,
        images: Any,
        events: Longs | None,
        kinds: Longs,
        header: Header,
        commit_ms: Mapping[bytes, int],
        processed_ms: int | None,
    ) -> list[Any]:
        """What is joined to the values.

        Args:
            images: of all rows (Arrow).
            events: row of each event; None where each row is one.
            kinds: of each event.
            header: of each event.
            commit_ms: commit time in milliseconds UTC of every commit LSN in the rows.
            processed_ms: the event's ``ts_ms``; null when it is not given.

        Raises:
            Declined: no commit time.
        """
        return [
            *self._images(images, events, kinds),
            *self._commits(header.positions, commit_ms),
            by_kind(_SERIALS, kinds),
            varints(_commands(header.positions), None, b"").array(),
            self._suffixes(kinds, header.masks),
            scalar(envelope_end(processed_ms)),
        ]

    def _images(self, images: Any, events: Longs | None, kinds: Longs) -> list[Any]:
        """Head, before, middle and after of every event."""
        heads = by_kind(self._heads, kinds)
        if is_inserts(kinds):
            return [heads, images if events is None else images.take(places(events))]
        rows = np.arange(len(kinds)) if events is None else events
        none = len(images)
        images = pa.concat_arrays([images, _NOTHING])
        before = np.where(kinds == Kind.UPDATE, rows - 1, rows)
        before[np.isin(kinds, list(HAS_BEFORE), invert=True)] = none
        after = np.where(np.isin(kinds, list(HAS_AFTER)), rows, none)
        return [
            heads,
            images.take(places(before)),
            by_kind(_MIDDLES, kinds),
            images.take(places(after)),
        ]

    def _commits(self, positions: Bytes, commit_ms: Mapping[bytes, int]) -> list[Any]:
        """Source up to commit_lsn."""
        _, of_commits, lengths = commit_runs(positions, commit_ms)
        times = np.repeat(of_commits, lengths)
        before = self._source.before_seqval
        width = len(before) + 2 * _LSN_CHARACTERS + len(BEFORE_COMMIT_LSN)
        texts = np.empty((len(positions), width), np.uint8)
        at = len(before)
        texts[:, :at] = np.frombuffer(before, np.uint8)
        _lsn_texts(positions[:, SEQVAL_AT:OPERATION_AT], texts[:, at : at + _LSN_CHARACTERS])
        at += _LSN_CHARACTERS
        behind = at + len(BEFORE_COMMIT_LSN)
        texts[:, at:behind] = np.frombuffer(BEFORE_COMMIT_LSN, np.uint8)
        _lsn_texts(positions[:, :LSN_BYTES], texts[:, behind:])
        return [
            scalar(self._source.before_commit_ms),
            varints(times, None, b"").array(),
            Pieces.of_lengths(texts.reshape(-1), np.full(len(texts), width, np.int64)).array(),
        ]

    def _suffixes(self, kinds: Longs, masks: Bytes) -> Any:
        """Source from operation on, and op: by runs of one kind and update mask."""
        starts = starts_of(np.column_stack([kinds.astype(np.uint8), masks]))
        suffixes = self._source.suffixes
        found = [
            suffixes[kind, mask.tobytes(), ()]
            for kind, mask in zip(kinds[starts].tolist(), masks[starts], strict=True)
        ]
        if len(set(found)) == 1:
            return scalar(found[0])
        lengths = np.diff(starts, append=len(kinds))
        return binary(found).take(places(np.repeat(np.arange(len(found)), lengths)))


def _commands(positions: Bytes) -> Longs:
    raw = np.ascontiguousarray(positions[:, COMMAND_AT:SEQVAL_AT])
    return raw.view(">u4")[:, 0].astype(np.int64)


def _lsn_texts(lsns: Bytes, out: Bytes) -> None:
    """``xxxxxxxx:xxxxxxxx:xxxx`` of LSNs."""
    digits = hexadecimal(np.ascontiguousarray(lsns))
    out[:, 8] = out[:, 17] = ord(":")
    out[:, :8] = digits[:, :8]
    out[:, 9:17] = digits[:, 8:16]
    out[:, 18:] = digits[:, 16:]
