"""Entries of ``cdc.lsn_time_mapping`` read in blocks: no object for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar, cast, overload

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import Bytes, Flags, Longs
from tailrace_publisher.encode.blocks.cells import NULL_LENGTH, Cells
from tailrace_publisher.encode.blocks.commit_ms import CommitMilliseconds
from tailrace_publisher.encode.blocks.number_kernels import moments_of
from tailrace_publisher.encode.columns.column_forms import Cell, Form
from tailrace_publisher.source.blocks.block_cursor import BlockConnection
from tailrace_publisher.source.log.commit_times import EPOCH, Commits, commits_statement
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn

_BLOCK_ROWS: Final = 5_000
_CELLS: Final = (
    Cell(Form.BYTES, LSN_BYTES),
    Cell(Form.TIMESTAMP, 16),
    Cell(Form.BYTES, LSN_BYTES),
)
_OFFSET: Final = Cell(Form.LONG, 8)
_MINUTE_MS: Final = 60_000

_Value = TypeVar("_Value")


class _Column(Sequence[_Value], Generic[_Value]):
    """Values that are created on access."""

    @overload
    def __getitem__(self, index: int) -> _Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Value]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Return a value, or the column of some."""
        if isinstance(index, slice):
            return self._some(index)
        return self._value(index)

    def _some(self, rows: slice) -> Sequence[_Value]:
        raise NotImplementedError

    def _value(self, row: int) -> _Value:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Raw(_Column[bytes | None]):
    """Byte strings: cells, and the length of each."""

    cells: Bytes
    lengths: Longs

    def __len__(self) -> int:
        return len(self.lengths)

    def __contains__(self, value: object) -> bool:
        """Return whether some row has these bytes, without creating those of all rows."""
        if not isinstance(value, bytes):
            return False
        rows = self.cells[self.lengths == len(value), : len(value)]
        return bool((rows == np.frombuffer(value, np.uint8)).all(axis=1).any())

    def _some(self, rows: slice) -> Raw:
        return Raw(self.cells[rows], self.lengths[rows])

    def _value(self, row: int) -> bytes | None:
        length = int(self.lengths[row])
        return None if length == NULL_LENGTH else self.cells[row, :length].tobytes()


@dataclass(frozen=True, slots=True)
class Moments(_Column[datetime | None]):
    """Local times, in microseconds since 1970, and which are known."""

    micros: Longs
    is_known: Flags

    def __len__(self) -> int:
        return len(self.micros)

    def _some(self, rows: slice) -> Moments:
        return Moments(self.micros[rows], self.is_known[rows])

    def _value(self, row: int) -> datetime | None:
        if not self.is_known[row]:
            return None
        return EPOCH + timedelta(microseconds=int(self.micros[row]))


@dataclass(frozen=True, slots=True)
class Offsets(_Column[int | None]):
    """Minutes, and which are known."""

    minutes: Longs
    is_known: Flags

    def __len__(self) -> int:
        return len(self.minutes)

    def _some(self, rows: slice) -> Offsets:
        return Offsets(self.minutes[rows], self.is_known[rows])

    def _value(self, row: int) -> int | None:
        return int(self.minutes[row]) if self.is_known[row] else None


class BlockCommits(Commits):
    """Entries whose columns are arrays."""

    __slots__ = ()

    def milliseconds(self, utc_offset_minutes: int) -> CommitMilliseconds:
        """See :class:`Commits`."""
        lsns, moments = cast(Raw, self.lsns), cast(Moments, self.local_times)
        times = moments.micros // 1000
        if isinstance(self.offsets, Offsets):
            known = self.offsets.is_known
            minutes = np.where(known, self.offsets.minutes, utc_offset_minutes)
            times = times - minutes * _MINUTE_MS
        else:
            times = times - utc_offset_minutes * _MINUTE_MS
        if not moments.is_known.all():
            rows = np.maximum.accumulate(np.where(moments.is_known, np.arange(len(times)), -1))
            times = np.where(rows < 0, 0, times[rows])
        return CommitMilliseconds(lsns.cells, times)


def commits_in_blocks(
    connection: BlockConnection, first: Lsn, limit: int, zone: str | None
) -> Commits:
    """See :func:`commits_from`.

    Raises:
        OdbcError: the server or the driver failed.
    """
    zoned = zone is not None
    parameters = [limit, *([zone] if zone is not None else []), first.to_bytes()]
    connection.execute(commits_statement(with_offset=zoned), parameters)
    cells = (*_CELLS, _OFFSET) if zoned else _CELLS
    blocks = [_copied(columns) for columns in connection.blocks(cells, min(limit, _BLOCK_ROWS))]
    connection.end()
    return commits_of(blocks)


def commits_of(blocks: Sequence[Sequence[Cells]]) -> Commits:
    """Return the entries of consecutive blocks: LSN, local time, id and, if reported, offset."""
    if not blocks:
        return Commits()
    lsns, local_times, tran_ids, *offsets = (
        Cells(
            np.concatenate([cells.data for cells in column]),
            np.concatenate([cells.lengths for cells in column]),
        )
        for column in zip(*blocks, strict=True)
    )
    return BlockCommits(
        cast(Sequence[bytes], Raw(lsns.data, lsns.lengths)),
        Moments(moments_of(local_times.data), local_times.lengths != NULL_LENGTH),
        Raw(tran_ids.data, tran_ids.lengths),
        *[Offsets(cells.data.view("<i8")[:, 0], cells.lengths != NULL_LENGTH) for cells in offsets],
    )


def _copied(columns: Sequence[Cells]) -> list[Cells]:
    return [Cells(cells.data.copy(), cells.lengths.copy()) for cells in columns]
