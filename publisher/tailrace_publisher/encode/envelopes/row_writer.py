"""Compiles the description of events into kernels for pages of rows.

An event is a join of parts. Each group of parts is a *column*: the bytes of every event, from one
comprehension or map. A column that all events share is one byte string. An envelope has eleven.

- By kind: frame and branch of ``before``; branch of ``after``; ``event_serial_no``.
- By event: both images, the digits of ``change_lsn``, ``command_id``.
- Once per transaction: ``source`` up to ``change_lsn``; ``commit_lsn``.
- Once per kind, update mask and unavailable columns: ``operation`` to ``op``.
- Once per page: ``ts_ms`` and ``transaction``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Final

from tailrace_publisher.encode.columns.varint import DIGITS, FINAL, encode_long
from tailrace_publisher.encode.envelopes.event_parts import (
    IMAGES,
    Fact,
    Facts,
    Part,
    grouped,
    needs_of,
    written,
)
from tailrace_publisher.encode.envelopes.page_events import PageEvents
from tailrace_publisher.encode.envelopes.remembered_parts import REMEMBERED, RememberedParts
from tailrace_publisher.encode.event_kinds import DELETES, HAS_AFTER, HAS_BEFORE, Kind
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

_Column = bytes | Iterable[bytes]
"""The bytes of every event; ``bytes`` if all are equal."""
_Kernel = Callable[[PageEvents], _Column]
_OF_COMMIT: Final = Fact.PAGE | Fact.COMMIT_MS | Fact.COMMIT_LSN


class RowWriter:
    """Writes the framed events of one schema version; for one thread at a time.

    Args:
        parts: the description, see ``event_forms``.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        groups = grouped(parts, (REMEMBERED, _OF_COMMIT))
        images = [n for n, group in enumerate(groups) if group[0].needs & IMAGES]
        self._head = [part for group in groups[: images[-1]] for part in group]
        self._end = [part for group in groups[images[-1] + 1 :] for part in group]
        self._kernels = [_kernel_of(group) for group in groups]

    def values(self, page: PageEvents) -> list[bytes]:
        """Write the values of change events."""
        columns = _joined_constants(kernel(page) for kernel in self._kernels)
        return list(_rows(columns, len(page)))

    def snapshot_values(
        self, images: Sequence[bytes], fence: Lsn, read_ms: int, last: bool, kind: Kind = Kind.READ
    ) -> list[bytes]:
        """Write the values of rows that were read, all at the position of their fence.

        Args:
            images: at least one image.
            fence: LSN at which they are known to be current.
            read_ms: time of the read, milliseconds UTC.
            last: whether they end the table.
            kind: READ for a snapshot, PATCH for a patch.
        """
        facts = Facts(
            kind,
            position=ChangePosition.of_snapshot(fence).to_bytes(),
            commit_ms=read_ms,
            processed_ms=read_ms,
            snapshot="true" if kind is Kind.READ else "patch",
        )
        head, end = written(self._head, facts), written(self._end, facts)
        values = [head + image + end for image in images]
        if last and kind is Kind.READ:
            values[-1] = head + images[-1] + written(self._end, facts._replace(snapshot="last"))
        return values


def _rows(columns: Iterable[_Column], count: int) -> Iterable[bytes]:
    """Join the columns of each of so many rows; other columns than constants may be endless."""
    each = (repeat(c, count) if isinstance(c, bytes) else c for c in columns)
    return map(b"".join, zip(*each, strict=False))


def _joined_constants(columns: Iterable[_Column]) -> list[_Column]:
    joined: list[_Column] = []
    for column in columns:
        if joined and isinstance(column, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += column
        else:
            joined.append(column)
    return joined


def _kernel_of(group: list[Part]) -> _Kernel:
    needs = needs_of(group)
    if needs in _OF_COMMIT:
        return _by_commit(group)
    if needs == Fact.KIND:
        return _by_kind(group)
    return _by_combination(group, needs) if needs in REMEMBERED else _BY_EVENT[needs]


def _by_kind(group: list[Part]) -> _Kernel:
    parts: dict[int, bytes] = {kind: written(group, Facts(kind)) for kind in Kind}

    def column(page: PageEvents) -> _Column:
        if len(page.distinct_kinds) == 1:
            return parts[page.kinds[0]]
        return [parts[kind] for kind in page.kinds]

    return column


def _by_combination(group: list[Part], needs: Fact) -> _Kernel:
    parts = RememberedParts(group)
    unneeded = Facts()

    def column(page: PageEvents) -> _Column:
        combinations = zip(
            page.kinds if Fact.KIND in needs else repeat(unneeded.kind),
            page.masks if Fact.MASK in needs else repeat(unneeded.mask),
            page.unavailable if Fact.UNAVAILABLE in needs else repeat(unneeded.unavailable),
            strict=False,
        )
        return map(parts.__getitem__, combinations)

    return column


def _by_commit(group: list[Part]) -> _Kernel:
    """The parts are columns of the page's commits, of which there may be as many as events."""

    def column(page: PageEvents) -> _Column:
        columns = _joined_constants(_of_commits(part, page) for part in group)
        if len(columns) == 1 and isinstance(columns[0], bytes):
            return columns[0]
        by_commit = dict(zip(page.commit_ms, _rows(columns, len(page.commit_ms)), strict=True))
        if len(by_commit) == 1:
            return by_commit[page.commits[0]]
        return map(by_commit.__getitem__, page.commits)

    return column


def _of_commits(part: Part, page: PageEvents) -> _Column:
    if part.needs == Fact.COMMIT_MS:
        return [encode_long(ms) for ms in page.commit_ms.values()]
    if part.needs == Fact.COMMIT_LSN:
        return [commit.hex(":", -4).encode() for commit in page.commit_ms]
    return part.write(Facts(processed_ms=page.processed_ms, snapshot=page.snapshot))


def _command_ids(page: PageEvents) -> _Column:
    # In a large transaction each event has another one.
    return [
        FINAL[number << 1] if 0 <= number < DIGITS >> 1 else encode_long(number, 32)
        for number in page.commands
    ]


def _before(page: PageEvents) -> _Column:
    images = page.images
    if page.distinct_kinds == {Kind.UPDATE}:
        return [images[row - 1] for row in page.rows]
    if page.distinct_kinds.isdisjoint(HAS_BEFORE):
        return b""
    return [
        images[row - 1] if kind == Kind.UPDATE else images[row] if kind in HAS_BEFORE else b""
        for kind, row in zip(page.kinds, page.rows, strict=True)
    ]


def _after(page: PageEvents) -> _Column:
    images = page.images
    if page.distinct_kinds <= HAS_AFTER:
        return _row(page)
    if page.distinct_kinds <= DELETES:
        return b""
    return [
        images[row] if kind in HAS_AFTER else b""
        for kind, row in zip(page.kinds, page.rows, strict=True)
    ]


def _row(page: PageEvents) -> _Column:
    if len(page.rows) == len(page.images):
        return page.images
    return [page.images[row] for row in page.rows]


_BY_EVENT: Final[dict[Fact, _Kernel]] = {
    Fact.BEFORE: _before,
    Fact.AFTER: _after,
    Fact.ROW: _row,
    Fact.CHANGE_LSN: lambda page: [seqval.hex(":", -4).encode() for seqval in page.seqvals],
    Fact.POSITION: lambda page: [position.hex().encode() for position in page.positions],
    Fact.COMMAND_ID: _command_ids,
}
