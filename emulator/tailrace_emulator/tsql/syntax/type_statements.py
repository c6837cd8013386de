"""CREATE TYPE, as parsed."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    Statement,
)
from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True, eq=False)
class CreateType(Statement):
    """CREATE TYPE: an alias of ``type``, or a table; ``text`` is the whole statement."""

    name: Name
    type: SqlType | None = None
    nullable: bool = True
    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[ConstraintDefinition, ...] = ()
    text: str = ""
