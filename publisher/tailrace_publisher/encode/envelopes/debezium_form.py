"""Envelopes: both row images, and ``source`` behind them.

Of an envelope only the row images, seqval and a few small numbers change from row to row. So an
event is a join of these parts::

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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from tailrace_publisher.encode.columns.varint import NULL, PRESENT
from tailrace_publisher.encode.envelopes.page_events import PageEvents
from tailrace_publisher.encode.envelopes.source_parts import (
    SourceParts,
    command_ids,
    envelope_end,
    serials,
)
from tailrace_publisher.encode.event_kinds import HAS_AFTER, HAS_BEFORE, Kind
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.lsn import Lsn

MIDDLES: Final[dict[int, bytes]] = {
    kind: (PRESENT if kind in HAS_AFTER else NULL) if kind in HAS_BEFORE else b"" for kind in Kind
}
"""The branches between the images."""


def heads_of(schema_id: int) -> dict[int, bytes]:
    """Frame, and the branches before the first image, of each kind."""
    frame = frame_header(schema_id)
    return {kind: frame + (PRESENT if kind in HAS_BEFORE else NULL + PRESENT) for kind in Kind}


class DebeziumForm:
    """Makes envelopes; see ``page_events.ValueForm``.

    Args:
        schema_id: registry id of the envelope's schema.
        source: parts of ``source``.
    """

    def __init__(self, schema_id: int, source: SourceParts) -> None:
        self._source = source
        self._heads = heads_of(schema_id)

    def values(self, events: PageEvents) -> list[bytes]:
        """See ``page_events.ValueForm``."""
        heads, middles = self._source.commits(events.commit_ms)
        parts = zip(
            *self._image_parts(events.kinds, events.rows, events.images),
            map(heads.__getitem__, events.commits),
            [seqval.hex(":", -4).encode() for seqval in events.seqvals],
            map(middles.__getitem__, events.commits),
            serials(events.kinds),
            command_ids(events.commands),
            map(
                self._source.suffixes.__getitem__,
                zip(events.kinds, events.masks, events.unavailable, strict=False),
            ),
            repeat(envelope_end(events.processed_ms)),
            strict=False,
        )
        return list(map(b"".join, parts))

    def snapshot_values(
        self, images: Sequence[bytes], fence: Lsn, read_ms: int, last: bool
    ) -> list[bytes]:
        """See ``page_events.ValueForm``; the last one says ``snapshot: last``."""
        head = self._heads[Kind.READ]
        end = self._source.snapshot(fence, read_ms, "true")
        values = [head + image + end for image in images]
        if last:
            values[-1] = head + images[-1] + self._source.snapshot(fence, read_ms, "last")
        return values

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
                repeat(MIDDLES[Kind.UPDATE]),
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
            [MIDDLES[kind] for kind in kinds],
            [images[row] if kind in HAS_AFTER else b"" for kind, row in pairs],
        )
