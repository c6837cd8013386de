"""One pass through the write path: what it holds until it commits or is undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import apsw

from tailrace_emulator.log.journal import Record
from tailrace_emulator.storage.catalog_state import CatalogState
from tailrace_emulator.storage.lock_state import LockOwner

Effect = Callable[[], None]
"""What is to happen outside of the database when a write commits."""


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """The schema objects of every database, by id, and how many effects there were, to go back."""

    states: dict[int, CatalogState]
    effect_count: int


@dataclass(slots=True)
class WriteScope:
    """One pass through the write path."""

    connection: apsw.Connection
    owner: LockOwner
    thread: int
    catalog: CatalogSnapshot | None = None
    """The schema objects as they were before the first DDL in this scope."""
    ddl_records: dict[int, list[Record]] = field(default_factory=dict)
    """Log records of DDL outside of a session, per database id."""
    effects: list[Effect] = field(default_factory=list)
    """In order, for when it has committed."""
