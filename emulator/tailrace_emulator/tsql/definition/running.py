"""What definition statements, and triggers, may ask of what runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.workspace import Workspace
    from tailrace_emulator.tsql.syntax.nodes import Expression
    from tailrace_emulator.values.results import Event
    from tailrace_emulator.values.types import StorageValue


class Scopes(Protocol):
    """Runs text in a scope of its own: a module's, or dynamic text."""

    def frame(self, caller: Frame, procedure: str = "") -> Frame:
        """A frame below the caller's; 217 when that is too deep."""

    def inside(self, database: Database) -> AbstractContextManager[None]:
        """A database is the current one."""

    def run_body(self, body: Any, frame: Frame, module: Module | None = None) -> Iterator[Event]:
        """Statements in a scope, of a module or of dynamic text."""


class Runner(Protocol):
    """Runs statements of one session."""

    context: SessionContext
    workspace: Workspace

    @property
    def procedures(self) -> Scopes:
        """Runs modules."""

    def evaluate(self, node: Expression, frame: Frame, target: Any = None) -> StorageValue:
        """The value of an expression, converted to ``target`` as an assignment does."""
