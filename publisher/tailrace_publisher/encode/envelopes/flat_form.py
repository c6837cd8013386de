"""Flat events: the row's columns, and what tells of the change behind them.

They are made of fewer parts than envelopes::

    frame
    row     one image: of an update the after image, of a delete the before image
    kind    __op and __deleted: constant per kind
    commit  __commit_lsn, __source_ts_ms, and the length of the position: constant per transaction
    digits  of the position
    names   __unavailable: mostly none
    end     __ts_ms: constant per page
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final

from tailrace_publisher.encode.columns.varint import (
    NULL,
    PRESENT,
    encode_long,
    encode_string,
    encode_strings,
)
from tailrace_publisher.encode.envelopes.page_events import PageEvents
from tailrace_publisher.encode.event_kinds import DELETES, OP, Kind
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.change_position import POSITION_BYTES, ChangePosition
from tailrace_schemas.position.lsn import Lsn, lsn_text

POSITION_DIGITS: Final = 2 * POSITION_BYTES

FLAT_KINDS: Final[dict[int, bytes]] = {
    kind: encode_string(OP[kind]) + encode_string("true" if kind in DELETES else "false")
    for kind in Kind
}
"""``__op`` and ``__deleted``."""


def flat_commit(commit: bytes, ms: int) -> bytes:
    """``__commit_lsn``, ``__source_ts_ms``, and the length of ``__position``.

    Args:
        commit: commit LSN.
        ms: its time, milliseconds UTC.
    """
    length = encode_long(POSITION_DIGITS)
    return b"".join((encode_string(lsn_text(commit)), encode_long(ms), length))


def flat_end(processed_ms: int | None) -> bytes:
    """``__ts_ms``."""
    return NULL if processed_ms is None else PRESENT + encode_long(processed_ms)


class FlatForm:
    """Makes flat values; see ``page_events.ValueForm``.

    Args:
        schema_id: registry id of the flat schema.
    """

    def __init__(self, schema_id: int) -> None:
        self._frame = frame_header(schema_id)

    def values(self, events: PageEvents) -> list[bytes]:
        """See ``page_events.ValueForm``."""
        commits = {commit: flat_commit(commit, ms) for commit, ms in events.commit_ms.items()}
        parts = zip(
            repeat(self._frame, len(events)),
            map(events.images.__getitem__, events.rows),
            map(FLAT_KINDS.__getitem__, events.kinds),
            map(commits.__getitem__, events.commits),
            [position.hex().encode() for position in events.positions],
            map(_Names().__getitem__, events.unavailable),
            repeat(flat_end(events.processed_ms)),
            strict=False,
        )
        return list(map(b"".join, parts))

    def snapshot_values(
        self, images: Sequence[bytes], fence: Lsn, read_ms: int, last: bool
    ) -> list[bytes]:
        """See ``page_events.ValueForm``; nothing says which row is the last."""
        del last
        end = b"".join(
            (
                FLAT_KINDS[Kind.READ],
                flat_commit(fence.to_bytes(), read_ms),
                ChangePosition.of_snapshot(fence).to_bytes().hex().encode(),
                encode_strings(()),
                flat_end(read_ms),
            )
        )
        return [self._frame + image + end for image in images]


class _Names(dict[tuple[str, ...], bytes]):
    """Names of unavailable columns, encoded once per combination of a page."""

    def __missing__(self, names: tuple[str, ...]) -> bytes:
        encoded = self[names] = encode_strings(names)
        return encoded
