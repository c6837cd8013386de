"""Rows to ROW tokens, a chunk of rows at a time, with a plan made once per column set.

A row-by-row encoder spends its time in Python byte code. Here a chunk is turned into columns; each
column says its fixed part (length prefix, number) as arguments of a ``struct`` format, and
neighbouring fixed parts are fused into one ``Struct.pack`` per row, driven by ``map`` without byte
code. Columns that are NULL throughout the chunk become constants of that pack, columns that are
NULL here and there are encoded value by value between two packs. The plan for a chunk depends only
on which columns are which, so it is kept per such pattern.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import chain, repeat
from typing import Any, Final

from emulator.wire.types import TypeInfo, encoder
from emulator.wire.types.base import PackPlan
from emulator.wire.types.registry import family

ROW_TOKEN: Final = b"\xd1"
FEW_ROWS: Final = 4
"""Up to so many rows the columnar way costs more than it saves."""

PATTERNS_MAX: Final = 256


class Nulls(IntEnum):
    """Where a column of a chunk holds NULL."""

    NOWHERE = 0
    EVERYWHERE = 1
    SOMEWHERE = 2


_Column = Callable[[Sequence[Any]], tuple[tuple[Iterable[Any], ...], Sequence[bytes] | None]]


class RowEncoder:
    """Encodes rows of one column set."""

    def __init__(self, columns: Sequence[TypeInfo]) -> None:
        self._encoders = [encoder(info) for info in columns]
        self._plans: list[PackPlan] = [family(info.token).columns(info) for info in columns]
        self._patterns: dict[tuple[Nulls, ...], _Pattern] = {}
        self._last: _Pattern | None = None

    def encode(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """ROW tokens of the rows.

        Raises:
            LocalProtocolError: a value does not fit its column's type.
        """
        if len(rows) > FEW_ROWS:
            columns = list(zip(*rows, strict=True))
            # NULLs mostly stay where they were, so the last pattern is tried before looking.
            encoded = self._last.encode(columns) if self._last else None
            if encoded is None:
                self._last = self._pattern(columns)
                encoded = self._last.encode(columns)
            if encoded is not None:
                return encoded
            # Some value is out of its type's range: the encoders of single values name it.
        encoders = self._encoders
        return b"".join(
            ROW_TOKEN + b"".join([encode(v) for encode, v in zip(encoders, row, strict=True)])
            for row in rows
        )

    def _pattern(self, columns: Sequence[Sequence[Any]]) -> _Pattern:
        key = tuple(
            Nulls.NOWHERE
            if None not in column
            else Nulls.EVERYWHERE
            if column.count(None) == len(column)
            else Nulls.SOMEWHERE
            for column in columns
        )
        pattern = self._patterns.get(key)
        if pattern is None:
            if len(self._patterns) >= PATTERNS_MAX:
                self._patterns.clear()
            pattern = self._patterns[key] = _Pattern(self._plans, self._encoders, key)
        return pattern


class _Pattern:
    """The fused steps for one pattern of NULLs."""

    def __init__(
        self,
        plans: Sequence[PackPlan],
        encoders: Sequence[Callable[[Any], bytes]],
        nulls: Sequence[Nulls],
    ) -> None:
        self._nulls = [index for index, where in enumerate(nulls) if where is Nulls.EVERYWHERE]
        self._runs: list[_Run | tuple[int, Callable[[Any], bytes], bytes]] = []
        run = _Run()
        run.add_constant(ROW_TOKEN)
        for index, (plan, encode, where) in enumerate(zip(plans, encoders, nulls, strict=True)):
            if where is Nulls.EVERYWHERE:
                run.add_constant(plan.null)
            elif where is Nulls.SOMEWHERE:
                self._runs.append(run.close())
                self._runs.append((index, encode, plan.null))
                run = _Run()
            else:
                has_body = run.add_column(index, plan)
                if has_body:
                    self._runs.append(run.close())
                    run = _Run()
        if not run.is_empty:
            self._runs.append(run.close())

    def encode(self, columns: Sequence[Sequence[Any]]) -> bytes | None:
        """The rows, or None when the columns do not have this pattern or a value does not fit."""
        count = len(columns[0])
        for index in self._nulls:
            if columns[index].count(None) != count:
                return None
        pieces: list[Iterable[bytes]] = []
        try:
            for step in self._runs:
                if isinstance(step, _Run):
                    step.append_to(pieces, columns)
                else:
                    index, encode, null = step
                    pieces.append([null if v is None else encode(v) for v in columns[index]])
            return b"".join(chain.from_iterable(zip(*pieces, strict=True)))
        except (TypeError, struct.error, OverflowError):
            return None


class _Run:
    """Neighbouring fixed parts that become one ``Struct.pack`` per row."""

    def __init__(self) -> None:
        self._format = "<"
        self._constant = b""
        self._sources: list[bytes | tuple[int, _Column]] = []
        self._pack: Callable[..., bytes] = struct.Struct("<").pack
        self._only_constant = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._sources and not self._constant

    def add_constant(self, data: bytes) -> None:
        """Bytes that are the same in every row; neighbouring ones become one argument."""
        self._constant += data

    def add_column(self, index: int, plan: PackPlan) -> bool:
        """A column's fixed part; returns whether bytes follow it, which ends the run."""
        self._constant += plan.prefix
        self._flush_constant()
        self._format += plan.format
        self._sources.append((index, plan.arguments))
        return plan.has_body

    def close(self) -> _Run:
        """Make the pack function; nothing is added afterwards."""
        if self._sources:
            self._flush_constant()
            self._pack = struct.Struct(self._format).pack
        else:
            self._only_constant = self._constant
        return self

    def append_to(self, pieces: list[Iterable[bytes]], columns: Sequence[Sequence[Any]]) -> None:
        """Append the run's bytes, then those that follow its last column."""
        if not self._sources:
            pieces.append([self._only_constant] * len(columns[0]))
            return
        arguments: list[Iterable[Any]] = []
        body: Sequence[bytes] | None = None
        for source in self._sources:
            if isinstance(source, bytes):
                arguments.append(repeat(source))
            else:
                index, arguments_of = source
                more, body = arguments_of(columns[index])
                arguments += more
        pieces.append(map(self._pack, *arguments))
        if body is not None:
            pieces.append(body)

    def _flush_constant(self) -> None:
        if self._constant:
            self._format += f"{len(self._constant)}s"
            self._sources.append(self._constant)
            self._constant = b""
