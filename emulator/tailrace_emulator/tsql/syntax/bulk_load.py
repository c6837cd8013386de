"""INSERT BULK: what announces a bulk load, and the load itself when its rows have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.statements import Statement, Target
from tailrace_emulator.values.types import SqlType, StorageValue


@dataclass(frozen=True, slots=True, eq=False)
class InsertBulk(Statement):
    """INSERT BULK: announces a bulk load; with its rows, when they have come, the load itself.

    ``options`` are those of its WITH that ask for more than rows (CHECK_CONSTRAINTS and so on).
    """

    target: Target
    columns: tuple[str, ...]
    options: frozenset[str]
    types: Sequence[SqlType] = ()
    rows: Sequence[tuple[StorageValue, ...]] | None = None
