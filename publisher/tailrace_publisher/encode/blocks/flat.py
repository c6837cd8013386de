"""The parts of flat events of blocks; the events are those of ``encode.flat_form``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import (
    Bytes,
    Longs,
    Pieces,
    as_bytes,
    binary,
    places,
    scalar,
)
from tailrace_publisher.encode.blocks.kernels import hexadecimal
from tailrace_publisher.encode.blocks.runs import by_kind, commit_runs, of_kinds
from tailrace_publisher.encode.columns.varint import encode_strings
from tailrace_publisher.encode.envelopes.flat_form import (
    FLAT_KINDS,
    POSITION_DIGITS,
    flat_commit,
    flat_end,
)
from tailrace_schemas.events.framing import frame_header


class FlatBlocks:
    """Makes the parts of flat values; no column of theirs is large.

    Args:
        schema_id: registry id of the flat schema.
    """

    def __init__(self, schema_id: int) -> None:
        self._frame = scalar(frame_header(schema_id))
        self._kinds = of_kinds(FLAT_KINDS)

    def parts(
        self,
        images: Any,
        events: Longs | None,
        kinds: Longs,
        positions: Bytes,
        commit_ms: Mapping[bytes, int],
        processed_ms: int | None,
    ) -> list[Any]:
        """What is joined to the values.

        Args:
            images: of all rows (Arrow).
            events: row of each event; None where each row is one.
            kinds: of each event.
            positions: packed position of each event, rows by bytes.
            commit_ms: commit time in milliseconds UTC of every commit LSN in the rows.
            processed_ms: ``__ts_ms``; null when it is not given.

        Raises:
            Declined: no commit time.
        """
        commits, times, lengths = commit_runs(positions, commit_ms)
        of_commits = binary(list(map(flat_commit, as_bytes(commits), times.tolist())))
        digits = hexadecimal(np.ascontiguousarray(positions))
        widths = np.full(len(positions), POSITION_DIGITS, np.int64)
        return [
            self._frame,
            images if events is None else images.take(places(events)),
            by_kind(self._kinds, kinds),
            of_commits.take(places(np.repeat(np.arange(len(commits)), lengths))),
            Pieces.of_lengths(digits.reshape(-1), widths).array(),
            scalar(encode_strings(()) + flat_end(processed_ms)),
        ]
