"""Rows to ROW tokens, a chunk of rows at a time, with a plan made once per column set.

A row-by-row encoder spends its time in Python byte code. Here a chunk is turned into columns. Each
column says its fixed part (length prefix, number) as arguments of a ``struct`` format. Neighbouring
fixed parts are fused into one ``Struct.pack`` per row, driven by ``map`` without byte code. A
column whose value is the same throughout the chunk (NULL, a commit LSN, an update mask) is encoded
once. It becomes a constant of that pack. One that is NULL here and there is encoded value by value
between two packs. The steps depend only on which columns are which, so they are kept per such
pattern.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final

from tailrace_emulator.wire.types import TypeInfo, encoder
from tailrace_emulator.wire.types.base import Encoder, PackPlan
from tailrace_emulator.wire.types.pointed import POINTED, row_columns, row_encoder
from tailrace_emulator.wire.types.registry import family

ROW_TOKEN: Final = b"\xd1"
FEW_ROWS: Final = 4
"""Up to so many rows the columnar way costs more than it saves."""

PATTERNS_MAX: Final = 256

_VALUES: Final = -1
"""Kind of a column without NULLs. A constant's kind is the number of its bytes."""
_SOME_NULLS: Final = -2


def _encoder(info: TypeInfo) -> Encoder:
    return row_encoder(info) if info.token in POINTED else encoder(info)


def _plan(info: TypeInfo) -> PackPlan:
    return row_columns(info) if info.token in POINTED else family(info.token).columns(info)


@dataclass(frozen=True, slots=True)
class _Same:
    """Bytes that are the same in every row: fixed ones, and numbers of the chunk's constants."""

    parts: tuple[bytes | int, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """The fixed part of a column."""

    index: int
    plan: PackPlan


def _as_it_is(value: Any) -> bytes:
    return bytes(value)


_ENCODED: Final = PackPlan("", lambda values: ((), values), b"", has_body=True, equal_is_same=False)
"""A column whose values are bytes of the row already."""


class RowEncoder:
    """Encodes rows of one column set."""

    def __init__(self, columns: Sequence[TypeInfo | None], token: bytes = ROW_TOKEN) -> None:
        """Prepare.

        Args:
            columns: types of the columns; None where rows hold a part that is encoded already.
            token: what each row begins with.
        """
        self._token = token
        self._encoders = [_as_it_is if info is None else _encoder(info) for info in columns]
        self._plans: list[PackPlan] = [
            _ENCODED if info is None else _plan(info) for info in columns
        ]
        self._patterns: dict[tuple[int, ...], _Pattern] = {}
        self._has_nulls = [False] * len(columns)

    def encode(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """ROW tokens of the rows.

        Raises:
            LocalProtocolError: a value does not fit its column's type.
        """
        return b"".join(self._encoded(rows, chain.from_iterable))

    def encode_each(self, rows: Sequence[tuple[Any, ...]]) -> list[bytes]:
        """The same, row by row.

        Raises:
            LocalProtocolError: a value does not fit its column's type.
        """
        return list(self._encoded(rows, lambda pieces: map(b"".join, pieces)))

    def _encoded(
        self,
        rows: Sequence[tuple[Any, ...]],
        gather: Callable[[Iterable[tuple[bytes, ...]]], Iterable[bytes]],
    ) -> Iterable[bytes]:
        """The rows' bytes, from tuples of pieces as ``gather`` wants them."""
        if len(rows) > FEW_ROWS:
            columns = list(zip(*rows, strict=True))
            # Columns without NULLs mostly stay so: that is tried before it is looked at.
            pieces = self._by_column(columns)
            if pieces is None:
                self._has_nulls = [None in column for column in columns]
                pieces = self._by_column(columns)
            if pieces is not None:
                return gather(pieces)
            # Some value is out of its type's range: the encoders of single values name it.
        encoders = self._encoders
        return [
            self._token + b"".join([encode(v) for encode, v in zip(encoders, row, strict=True)])
            for row in rows
        ]

    def _by_column(self, columns: Sequence[Sequence[Any]]) -> list[tuple[bytes, ...]] | None:
        """The rows' pieces; None when NULLs are where they were not, or a value does not fit."""
        count = len(columns[0])
        constants: list[bytes] = []
        kinds: list[int] = []
        for index, column in enumerate(columns):
            first = column[0]
            if (
                first == column[-1]
                and self._plans[index].equal_is_same
                and column.count(first) == count
            ):
                constants.append(self._encoders[index](first))
                kinds.append(len(constants[-1]))
            elif self._has_nulls[index] and None in column:
                kinds.append(_SOME_NULLS)
            else:
                kinds.append(_VALUES)
        key = tuple(kinds)
        pattern = self._patterns.get(key)
        if pattern is None:
            if len(self._patterns) >= PATTERNS_MAX:
                self._patterns.clear()
            pattern = self._patterns[key] = _Pattern(self._plans, self._encoders, key, self._token)
        try:
            return pattern.encode(columns, constants)
        except (TypeError, struct.error, OverflowError):
            return None


class _Pattern:
    """The fused steps for one pattern of constants and NULLs."""

    def __init__(
        self,
        plans: Sequence[PackPlan],
        encoders: Sequence[Encoder],
        kinds: Sequence[int],
        token: bytes,
    ) -> None:
        self._steps: list[_Run | tuple[int, Encoder, bytes]] = []
        constants = 0
        run = _Run()
        run.add_bytes(token)
        for index, (plan, encode, kind) in enumerate(zip(plans, encoders, kinds, strict=True)):
            if kind >= 0:
                run.add_constant(constants, kind)
                constants += 1
            elif kind == _SOME_NULLS:
                self._close(run)
                self._steps.append((index, encode, plan.null))
                run = _Run()
            else:
                run.add_column(index, plan)
                if plan.has_body:
                    self._close(run)
                    run = _Run()
        self._close(run)

    def encode(
        self, columns: Sequence[Sequence[Any]], constants: Sequence[bytes]
    ) -> list[tuple[bytes, ...]]:
        """The rows in pieces. On NULL in a column of values: TypeError or struct.error."""
        pieces: list[Iterable[bytes]] = []
        for step in self._steps:
            if isinstance(step, _Run):
                step.append_to(pieces, columns, constants)
            else:
                index, encode, null = step
                pieces.append([null if v is None else encode(v) for v in columns[index]])
        return list(zip(*pieces, strict=True))

    def _close(self, run: _Run) -> None:
        if not run.is_empty:
            run.close()
            self._steps.append(run)


class _Run:
    """Neighbouring fixed parts that become one ``Struct.pack`` per row."""

    def __init__(self) -> None:
        self._format = "<"
        self._same: list[bytes | int] = []
        self._same_bytes = 0
        self._sources: list[_Same | _Column] = []
        self._has_columns = False
        self._pack: Callable[..., bytes] = struct.Struct("<").pack

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._sources and not self._same

    def add_bytes(self, data: bytes) -> None:
        """Bytes that are the same in every row."""
        if data:
            self._same.append(data)
            self._same_bytes += len(data)

    def add_constant(self, number: int, size: int) -> None:
        """The chunk's constant of that number."""
        self._same.append(number)
        self._same_bytes += size

    def add_column(self, index: int, plan: PackPlan) -> None:
        """A column's fixed part; if bytes follow it, nothing may be added after it."""
        self.add_bytes(plan.prefix)
        self._flush_same()
        self._format += plan.format
        self._sources.append(_Column(index, plan))
        self._has_columns = True

    def close(self) -> None:
        """Make the pack function."""
        self._flush_same()
        self._pack = struct.Struct(self._format).pack

    def append_to(
        self,
        pieces: list[Iterable[bytes]],
        columns: Sequence[Sequence[Any]],
        constants: Sequence[bytes],
    ) -> None:
        """Append the run's bytes, then those that follow its last column."""
        arguments: list[Iterable[Any]] = []
        body: Sequence[bytes] | None = None
        for source in self._sources:
            if isinstance(source, _Column):
                more, body = source.plan.arguments(columns[source.index])
                arguments += more
            else:
                same = b"".join(
                    part if isinstance(part, bytes) else constants[part] for part in source.parts
                )
                arguments.append(repeat(same, len(columns[0])))
        pieces.append(map(self._pack, *arguments) if self._has_columns else arguments[0])
        if body is not None:
            pieces.append(body)

    def _flush_same(self) -> None:
        if self._same:
            self._format += f"{self._same_bytes}s"
            self._sources.append(_Same(tuple(self._same)))
            self._same, self._same_bytes = [], 0
