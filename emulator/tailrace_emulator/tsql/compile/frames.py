"""Frames: the variables of a running batch or procedure, and the error that it is handling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.firing import Firing
    from tailrace_emulator.tsql.compile.local_tables import LocalTable


@dataclass(slots=True)
class Frame:
    """One batch, EXEC text or procedure call.

    Names are casefolded and have their @.
    """

    depth: int = 0
    """@@NESTLEVEL."""
    procedure: str = ""
    module_id: int = 0
    """@@PROCID."""
    types: dict[str, SqlType] = field(default_factory=dict)
    values: dict[str, StorageValue] = field(default_factory=dict)
    tables: dict[str, LocalTable] = field(default_factory=dict)
    read_only: set[str] = field(default_factory=set)
    """Tables that are parameters."""
    borrowed: set[str] = field(default_factory=set)
    """Tables that are the caller's."""
    handled: list[SqlError] = field(default_factory=list)
    """Errors of the CATCH blocks around, innermost last."""
    fetch_status: int = -1
    """@@FETCH_STATUS."""
    return_value: int = 0
    is_function: bool = False
    returns: SqlType | None = None
    """What RETURN of a scalar function converts to."""
    result: StorageValue = None
    trigger: Firing | None = None
    """Of a trigger's own statements: the change that it fires for."""
    chain: tuple[int, int] | None = None
    """Ownership chain of a module's text: see tailrace_emulator.tsql.compile.access."""
    impersonations: int = 0
    """How many were open when the frame began: REVERT in it ends none of those."""
    collation: str | None = None
    """What text has that is declared here: the collation of the database."""

    def declare(self, name: str, sql_type: SqlType, value: StorageValue = None) -> None:
        """Adds a variable."""
        folded = name.casefold()
        self.types[folded] = sql_type.collated(self.collation)
        self.values[folded] = value
