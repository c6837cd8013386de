"""READTEXT, WRITETEXT, UPDATETEXT and .WRITE(): what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator.tsql.syntax.nodes import Expression, Name
from tailrace_emulator.tsql.syntax.statements import Statement

WRITE: Final = "$WRITE"
"""Internal: the call that ``SET column.WRITE(..)`` is parsed to; it begins with the column."""


@dataclass(frozen=True, slots=True, eq=False)
class PointedColumn:
    """``table.column pointer``."""

    table: Name
    column: str
    pointer: Expression


@dataclass(frozen=True, slots=True, eq=False)
class ReadText(Statement):
    """READTEXT."""

    place: PointedColumn
    offset: Expression
    size: Expression
    is_locked: bool = False
    """HOLDLOCK."""


@dataclass(frozen=True, slots=True, eq=False)
class WriteText(Statement):
    """WRITETEXT."""

    place: PointedColumn
    data: Expression


@dataclass(frozen=True, slots=True, eq=False)
class UpdateText(Statement):
    """UPDATETEXT; of ``data`` and ``source`` at most one is given."""

    place: PointedColumn
    offset: Expression
    length: Expression
    data: Expression | None = None
    source: PointedColumn | None = None
