"""Compiles the description of events into kernels for blocks.

An event is a join of parts, as in ``row_writer``. Each group of parts is one array of byte strings.
A group that all events share is ``bytes``, and such neighbours become one scalar.

- By kind: frame and branch of ``before``; branch of ``after``; ``event_serial_no``.
- By event: both images, the commit's ``ts_ms``, ``command_id``.
- Matrix: texts of fixed length, as the LSNs, with the constants around them.
- By runs of one kind and update mask: ``operation`` to ``op``.
- Once per block: ``ts_ms`` and ``transaction``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tailrace_publisher.encode.blocks.block_events import BlockEvents
from tailrace_publisher.encode.blocks.byte_runs import (
    Bytes,
    Pieces,
    binary,
    joined,
    places,
    scalar,
    varints,
)
from tailrace_publisher.encode.blocks.header import COMMAND_AT, OPERATION_AT, SEQVAL_AT
from tailrace_publisher.encode.blocks.runs import commit_runs, starts_of
from tailrace_publisher.encode.blocks.text_kernels import hexadecimal
from tailrace_publisher.encode.columns.varint import encode_long
from tailrace_publisher.encode.envelopes.event_parts import (
    Fact,
    Facts,
    Part,
    grouped,
    needs_of,
    written,
)
from tailrace_publisher.encode.envelopes.remembered_parts import RememberedParts
from tailrace_publisher.encode.event_kinds import HAS_AFTER, HAS_BEFORE, Kind
from tailrace_schemas.position.lsn import LSN_BYTES

_Kernel = Callable[[BlockEvents], Any]
"""Makes an array of byte strings; ``bytes`` if all are equal."""
_OF_RUNS: Final = Fact.KIND | Fact.MASK
_OF_ONE_COMMIT: Final = Fact.PAGE | Fact.COMMIT_LSN
_FIXED: Final = Fact.PAGE | Fact.COMMIT_LSN | Fact.CHANGE_LSN | Fact.POSITION
_KINDS: Final = frozenset(Kind)
_KINDS_END: Final = max(Kind) + 1


class BlockWriter:
    """Writes the framed events of one schema version; for one thread at a time.

    Args:
        parts: the description, see ``event_forms``. No column is large, so no value is unavailable.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        known = [replace(part, needs=part.needs & ~Fact.UNAVAILABLE) for part in parts]
        self._kernels = [_kernel_of(group) for group in grouped(known, (_OF_RUNS, _FIXED))]

    def values(self, events: BlockEvents) -> Any:
        """Write the values of change events (Arrow).

        Raises:
            Declined: a commit has no time.
        """
        return joined(_with_scalars(kernel(events) for kernel in self._kernels))


def _with_scalars(columns: Iterable[Any]) -> list[Any]:
    """Neighbours that are the same in all events become one scalar."""
    arrays: list[Any] = []
    same = b""
    for column in columns:
        if isinstance(column, bytes):
            same += column
            continue
        arrays += [_scalar(same), column] if same else [column]
        same = b""
    return [*arrays, _scalar(same)] if same else arrays


# Most recur in every block, and making one takes longer than joining it to a hundred events.
_scalar: Final = lru_cache(maxsize=1024)(scalar)


def _kernel_of(group: list[Part]) -> _Kernel:
    needs = needs_of(group)
    if needs in _FIXED:
        return _fixed(group)
    if needs == Fact.KIND:
        return _by_kind(group)
    return _by_runs(group) if needs in _OF_RUNS else _BY_EVENT[needs]


def _by_kind(group: list[Part]) -> _Kernel:
    parts = [written(group, Facts(kind)) if kind in _KINDS else b"" for kind in range(_KINDS_END)]
    array = binary(parts)

    def column(events: BlockEvents) -> Any:
        if len(events.distinct_kinds) == 1:
            return parts[events.kinds[0]]
        return array.take(places(events.kinds))

    return column


def _by_runs(group: list[Part]) -> _Kernel:
    parts = RememberedParts(group)

    def column(events: BlockEvents) -> Any:
        kinds, masks = events.kinds, events.header.masks
        starts = starts_of(np.column_stack([kinds.astype(np.uint8), masks]))
        found = [
            parts[kind, mask.tobytes(), ()]
            for kind, mask in zip(kinds[starts].tolist(), masks[starts], strict=True)
        ]
        if len(set(found)) == 1:
            return found[0]
        lengths = np.diff(starts, append=len(kinds))
        return binary(found).take(places(np.repeat(np.arange(len(found)), lengths)))

    return column


def _fixed(group: list[Part]) -> _Kernel:
    """The text of the first event in every row of a matrix, and over it the digits that differ."""

    def column(events: BlockEvents) -> Any:
        positions = events.header.positions
        # Positions ascend, so in a large transaction all events have the first one's commit.
        is_of_one = (positions[0, :LSN_BYTES] == positions[-1, :LSN_BYTES]).all()
        same = _OF_ONE_COMMIT if is_of_one else Fact.PAGE
        first = Facts(position=positions[0].tobytes(), processed_ms=events.processed_ms)
        texts = [part.write(first) for part in group]
        row = b"".join(texts)
        if needs_of(group) in same:
            return row
        matrix = np.empty((len(positions), len(row)), np.uint8)
        matrix[:] = np.frombuffer(row, np.uint8)
        end = 0
        for part, text in zip(group, texts, strict=True):
            start, end = end, end + len(text)
            if part.needs not in same:
                _write_digits(part.needs, positions, matrix[:, start:end])
        widths = np.full(len(positions), len(row), np.int64)
        return Pieces.of_lengths(matrix.reshape(-1), widths).array()

    return column


def _write_digits(needs: Fact, positions: Bytes, out: Bytes) -> None:
    if needs == Fact.POSITION:
        out[:] = hexadecimal(np.ascontiguousarray(positions))
        return
    is_commit = needs == Fact.COMMIT_LSN
    lsns = positions[:, :LSN_BYTES] if is_commit else positions[:, SEQVAL_AT:OPERATION_AT]
    digits = hexadecimal(lsns)
    out[:, :8], out[:, 9:17], out[:, 18:] = digits[:, :8], digits[:, 8:16], digits[:, 16:]


def _commit_ms(events: BlockEvents) -> Any:
    _, times, lengths = commit_runs(events.header.positions, events.commit_ms)
    if len(times) == 1:
        return encode_long(int(times[0]))
    return varints(np.repeat(times, lengths), None, b"").array()


def _command_ids(events: BlockEvents) -> Any:
    packed = np.ascontiguousarray(events.header.positions[:, COMMAND_AT:SEQVAL_AT])
    return varints(packed.view(">u4")[:, 0].astype(np.int64), None, b"").array()


def _before(events: BlockEvents) -> Any:
    if events.distinct_kinds.isdisjoint(HAS_BEFORE):
        return b""
    rows = np.where(events.kinds == Kind.UPDATE, events.row_of_each - 1, events.row_of_each)
    if events.distinct_kinds <= HAS_BEFORE:
        return events.images.take(places(rows))
    return events.images_at(rows, np.isin(events.kinds, list(HAS_BEFORE)))


def _after(events: BlockEvents) -> Any:
    if events.distinct_kinds.isdisjoint(HAS_AFTER):
        return b""
    if events.distinct_kinds <= HAS_AFTER:
        return events.images_of_rows()
    return events.images_at(events.row_of_each, np.isin(events.kinds, list(HAS_AFTER)))


_BY_EVENT: Final[dict[Fact, _Kernel]] = {
    Fact.BEFORE: _before,
    Fact.AFTER: _after,
    Fact.ROW: BlockEvents.images_of_rows,
    Fact.COMMIT_MS: _commit_ms,
    Fact.COMMAND_ID: _command_ids,
}
