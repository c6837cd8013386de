"""The system's own procedures and functions as objects: sys.system_objects, OBJECT_ID().

Whatever declares one registers it here, so that the catalog lists what can be called and nothing
else. Ids are negative, computed from the name, as those of system views are.

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
        "sp_set_session_context",
        "sp_unprepare",
    }
)
"""Procedures that are extended ones in SQL Server (type X). Those that no module declares, because
requests and EXEC run them directly, are here by their names alone."""

PROCEDURE_PREFIX: Final = "sp_"


@dataclass(frozen=True, slots=True)
class SystemRoutine:
    """A procedure or function of schema sys, or of msdb.

    Attributes:
        object_id: negative, as of all system objects.
        schema: sys, or dbo for those of msdb.
        name: as SQL Server spells it.
        type: P, X, FN, IF or TF, as in sys.system_objects.
    """

    object_id: int
    schema: str
    name: str
    type: str


def routine_id(name: str) -> int:
    """The id of a routine of schema sys."""
    return -(zlib.crc32(f"sys.{name}()".casefold().encode()) & 0x3FFF_FFFF) - 1


class SystemRoutines:
    """Routines that were declared together: the system's own, or those of an extension."""

    def __init__(self) -> None:
        self.by_name: dict[str, SystemRoutine] = {}
        """Those of schema sys, by casefolded name."""
        self.by_id: dict[int, SystemRoutine] = {}
        """Those of schema sys."""
        self.of_msdb: list[SystemRoutine] = []
        """Those that are objects of msdb, in its schema dbo."""

    def register(self, name: str, kind: str, *, in_msdb: bool = False) -> None:
        """Makes a procedure or function known to the catalog.

        Args:
            name: its name without the schema.
            kind: P for any procedure, X for one that is an extended one, FN, IF or TF for
                functions.
            in_msdb: whether it is an object of msdb.
        """
        if in_msdb:
            self.of_msdb.append(SystemRoutine(-routine_id(name), "dbo", name, kind))
            return
        folded = name.casefold()
        shown = "X" if folded in _EXTENDED else kind
        routine = SystemRoutine(routine_id(name), "sys", name, shown)
        self.by_name[folded] = self.by_id[routine.object_id] = routine


ROUTINES: Final = SystemRoutines()
"""The system's own."""
register_routine = ROUTINES.register

for _name in sorted(_EXTENDED):
    register_routine(_name, "X")
