"""CREATE SEQUENCE and DBCC CHECKIDENT, as parsed."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.nodes import Expression, Name
from tailrace_emulator.tsql.syntax.statements import Statement
from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True, eq=False)
class DefineSequence(Statement):
    """CREATE or ALTER SEQUENCE; what was not said is None, a limit of "" is NO MINVALUE."""

    name: Name
    alter: bool
    type: SqlType | None = None
    start: int | None = None
    increment: int | None = None
    minimum: int | str | None = None
    maximum: int | str | None = None
    cycle: bool | None = None
    cache: int | str | None = None
    """A size, 0 for NO CACHE, "" for CACHE without a size."""
    restart: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CheckIdentity(Statement):
    """DBCC CHECKIDENT (table [, RESEED [, value] | NORESEED]) [WITH NO_INFOMSGS]."""

    table: Expression
    reseed: bool = True
    value: Expression | None = None
    silent: bool = False
