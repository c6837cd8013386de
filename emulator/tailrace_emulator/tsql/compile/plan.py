"""Compiled statements: SQLite text with holes for what only an execution knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.read_locks import NO_HINTS
from tailrace_emulator.values.results import ColumnMeta
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.workspace import Workspace

Made = TypeVar("Made")

_HOLE: Final = re.compile("\x01(\\d+)\x01")
_SLOT: Final = re.compile(r"\?(\d+)")


class Hole(Protocol):
    """A part of the text that each execution fills."""

    def text(self, execution: Execution) -> str:
        """SQLite text for FROM."""


Slot = Callable[["Execution"], StorageValue]
"""Yields the value of one bound parameter at execution."""


@dataclass(slots=True)
class Execution:
    """One run of a plan."""

    context: SessionContext
    workspace: Workspace
    frame: Frame
    row_sets: list[int] = field(default_factory=list)
    """Keys of the row sets that its holes made."""
    now: int | None = None
    bindings: list[StorageValue] = field(default_factory=list)
    """Values of the plan's slots; what its holes bind follows them."""
    extra: list[StorageValue] = field(default_factory=list)
    may_wait: bool = False
    """Reading may end in StatementRestart: nothing of it may be shown before its end."""

    def bind(self, value: StorageValue) -> str:
        """A parameter that only this execution knows."""
        self.extra.append(value)
        return f"?{len(self.bindings) + len(self.extra)}"

    def rows(self, rows: Sequence[Sequence[StorageValue]]) -> str:
        """SQLite text for FROM that yields these rows as v0, v1, ..."""
        key = self.workspace.row_sets.put(rows)
        self.row_sets.append(key)
        return f"rows_of({self.bind(key)})"

    def now_ticks(self) -> int:
        """UTC now: the same for the whole statement."""
        if self.now is None:
            self.now = self.context.engine.clock.now_ticks()
        return self.now


@dataclass(frozen=True, slots=True)
class TableHole:
    """A stored table, or its state in the session's transaction.

    Attributes:
        hints: its table hints, upper-cased; storage/read_locks.py knows what they mean.
    """

    table: Table
    hints: frozenset[str] = NO_HINTS

    def text(self, execution: Execution) -> str:
        """See :class:`Hole`."""
        text, may_wait = execution.context.store.reads.read(self.table, self.hints)
        execution.may_wait |= may_wait
        return text


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled query.

    Attributes:
        parts: text and holes, in turns.
        slots: values of ?1, ?2, ...
        twins: pairs of slots which, when equal at execution, allow ``fast_parts``.
        fast_parts: text that is equivalent then and seeks an index.
    """

    parts: tuple[str | Hole, ...]
    slots: tuple[Slot, ...]
    columns: tuple[ColumnMeta, ...] = ()
    twins: tuple[tuple[int, int], ...] = ()
    fast_parts: tuple[str | Hole, ...] = ()
    used: int = 0
    """How many of the slots the text names; those after them belong to text that was not needed."""
    fast_used: int = 0

    def prepare(self, execution: Execution) -> tuple[str, list[StorageValue]]:
        """The text and the bindings of one execution."""
        bindings = [slot(execution) for slot in self.slots]
        parts, used = self.parts, self.used
        if self.fast_parts and all(bindings[a] == bindings[b] for a, b in self.twins):
            parts, used = self.fast_parts, self.fast_used
        if len(parts) == 1 and isinstance(parts[0], str):
            return parts[0], bindings[:used]
        execution.bindings = bindings
        execution.extra = []
        text = "".join(p if isinstance(p, str) else p.text(execution) for p in parts)
        return text, bindings + execution.extra if execution.extra else bindings[:used]


def limited(execution: Execution, rows: Iterable[Made]) -> Iterable[Made]:
    """As many rows as SET ROWCOUNT lets a statement change."""
    limit = execution.context.options.rowcount
    return islice(rows, limit) if limit > 0 else rows


def found_rows(execution: Execution, plan: Plan) -> Iterator[tuple[Any, ...]]:
    """The rows of a plan as they are found: a statement may change more than memory should hold.

    The caller creates its TEMP tables before it takes the first: SQLite drops none while it reads.
    """
    text, bindings = plan.prepare(execution)
    cursor = execution.workspace.connection.cursor()
    try:
        cursor.execute(text, bindings)
        yield from cursor
    finally:
        cursor.close(True)


def used_slots(parts: Sequence[str | Hole]) -> int:
    """The highest parameter number in the fixed text of a plan."""
    numbers = [int(n) for p in parts if isinstance(p, str) for n in _SLOT.findall(p)]
    return max(numbers, default=0)


def split_holes(text: str, holes: Sequence[Hole]) -> tuple[str | Hole, ...]:
    """Text with marked holes, as the parts of a plan."""
    pieces = _HOLE.split(text)
    return tuple(
        holes[int(piece)] if position % 2 else piece
        for position, piece in enumerate(pieces)
        if position % 2 or piece
    )
