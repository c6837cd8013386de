"""What a plan depends on, and with it every answer that was found by compiling."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace_emulator.values.types import MAX, SqlType

if TYPE_CHECKING:
    from tailrace_emulator.messages.errors import SqlError
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.frames import Frame

_GENERIC_LENGTHS: Final = {"varchar": 8000, "nvarchar": 4000, "varbinary": 8000}
"""Not of char, nchar and binary: values next to longer ones are padded to their length."""


@lru_cache(maxsize=1024)
def generic_type(sql_type: SqlType) -> SqlType:
    """The type with its longest length: parameters' lengths follow their values."""
    length = _GENERIC_LENGTHS.get(sql_type.name)
    if length is None or sql_type.length == MAX:
        return sql_type
    return replace(sql_type, length=length)


@dataclass(slots=True)
class Guard:
    """What a plan depends on: it is used again only while all of it is unchanged."""

    databases: list[tuple[Database, int]] = field(default_factory=list)
    variables: list[tuple[str, SqlType, bool]] = field(default_factory=list)
    local_version: int = -1

    def holds(self, frame: Frame, local_version: int) -> bool:
        """Whether the plan still fits."""
        if self.local_version not in {-1, local_version}:
            return False
        for database, version in self.databases:
            known_now = database.engine.databases.get(database.name.casefold())
            if database.version != version or known_now is not database:
                return False
        types = frame.types
        for name, sql_type, generic in self.variables:
            known = types.get(name)
            if known is sql_type or known == sql_type:
                continue
            if not generic or known is None or generic_type(known) != sql_type:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Described:
    """An answer about undeclared parameters, or the error instead of it.

    It holds as long as no table changes anywhere.
    """

    question: tuple[object, ...]
    guard: Guard
    found: list[tuple[str, SqlType]] | SqlError
