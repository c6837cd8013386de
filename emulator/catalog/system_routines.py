"""The system's own procedures and functions as objects: sys.system_objects, OBJECT_ID().

Whatever declares one registers it here, so that the catalog tells of what can be called and of
nothing else. Ids are negative, computed from the name, as those of system views are.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-system-objects-transact-sql
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

MSDB: Final = "msdb"

_EXTENDED: Final = frozenset(
    {
        "sp_cursorclose",
        "sp_cursorexecute",
        "sp_cursorfetch",
        "sp_cursoropen",
        "sp_cursoroption",
        "sp_cursorprepare",
        "sp_cursorprepexec",
        "sp_cursorunprepare",
        "sp_describe_first_result_set",
        "sp_describe_undeclared_parameters",
        "sp_execute",
        "sp_executesql",
        "sp_prepare",
        "sp_prepexec",
        "sp_prepexecrpc",
        "sp_replcmds",
        "sp_repldone",
        "sp_replflush",
        "sp_repltrans",
        "sp_set_session_context",
        "sp_unprepare",
    }
)
"""Procedures that are extended ones in SQL Server (type X). Those that no module declares, because
requests and EXEC run them directly, are here by their names alone."""

_OF_MSDB: Final = frozenset({"sp_start_job", "sp_stop_job", "sp_update_job"})
"""The Agent's procedures: objects of msdb, in its schema dbo."""

PROCEDURE_PREFIX: Final = "sp_"


@dataclass(frozen=True, slots=True)
class SystemRoutine:
    """A procedure or function of schema sys, or of the Agent.

    Attributes:
        object_id: negative.
        schema: sys, or dbo for those of msdb.
        name: as SQL Server spells it.
        type: P, X, FN, IF or TF, as sys.system_objects has it.
    """

    object_id: int
    schema: str
    name: str
    type: str


_BY_NAME: Final[dict[str, SystemRoutine]] = {}
_OF_AGENT: Final[dict[str, SystemRoutine]] = {}
_BY_ID: Final[dict[int, SystemRoutine]] = {}


def routine_id(name: str) -> int:
    """The id of a routine of schema sys."""
    return -(zlib.crc32(f"sys.{name}()".casefold().encode()) & 0x3FFF_FFFF) - 1


def register_routine(name: str, kind: str) -> None:
    """Makes a procedure or function known to the catalog.

    Args:
        name: without its schema.
        kind: P for any procedure, FN, IF or TF for functions.
    """
    folded = name.casefold()
    if folded in _OF_MSDB:
        _OF_AGENT[folded] = SystemRoutine(-routine_id(name), "dbo", name, kind)
        return
    shown = "X" if folded in _EXTENDED else kind
    routine = SystemRoutine(routine_id(name), "sys", name, shown)
    _BY_NAME[folded] = _BY_ID[routine.object_id] = routine


def system_routines() -> tuple[SystemRoutine, ...]:
    """Every procedure and function of schema sys."""
    return tuple(_BY_NAME.values())


def agent_routines() -> tuple[SystemRoutine, ...]:
    """The Agent's procedures, which msdb has."""
    return tuple(_OF_AGENT.values())


def system_routine(name: str) -> SystemRoutine | None:
    """The routine ``sys.name``, case-insensitively, or None."""
    return _BY_NAME.get(name.casefold())


def system_routine_by_id(object_id: int) -> SystemRoutine | None:
    """The routine of schema sys with that id, or None."""
    return _BY_ID.get(object_id)


for _name in sorted(_EXTENDED):
    register_routine(_name, "X")
