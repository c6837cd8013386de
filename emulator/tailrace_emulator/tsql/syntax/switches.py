"""Statements that switch triggers and constraints on and off, and set what a session carries."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.nodes import Expression, Name
from tailrace_emulator.tsql.syntax.statements import Statement


@dataclass(frozen=True, slots=True, eq=False)
class SetContextInfo(Statement):
    """SET CONTEXT_INFO value."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class UserOptions(Statement):
    """DBCC USEROPTIONS [WITH NO_INFOMSGS]."""

    silent: bool


@dataclass(frozen=True, slots=True, eq=False)
class SwitchTrigger(Statement):
    """ENABLE or DISABLE TRIGGER; no names: ALL."""

    table: Name
    names: tuple[Name, ...]
    disable: bool


@dataclass(frozen=True, slots=True, eq=False)
class SwitchConstraints(Statement):
    """ALTER TABLE CHECK or NOCHECK CONSTRAINT; no names: ALL."""

    table: Name
    names: tuple[str, ...]
    disable: bool
    validate: bool
    text: str
