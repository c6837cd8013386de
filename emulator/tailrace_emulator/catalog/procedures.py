"""The system procedures by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.catalog import (
    datatype_info,
    driver_procedures,
    extended_properties,
    help_procedures,
    maintenance_procedures,
    principal_procedures,
    privilege_procedures,
    sequence_objects,
    server_procedures,
    session_state,
    type_views,
    version_procedure,
)
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.procedure_registry import (
    PROCEDURES,
    REQUIRED,
    Procedure,
    ProcedureParameter,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

__all__ = ["PROCEDURES", "REQUIRED", "Procedure", "ProcedureParameter", "find_procedure"]

_DECLARING_MODULES = (
    datatype_info,
    driver_procedures,
    extended_properties,
    help_procedures,
    maintenance_procedures,
    principal_procedures,
    privilege_procedures,
    sequence_objects,
    server_procedures,
    session_state,
    type_views,
    version_procedure,
)
"""Importing them registers their procedures."""

_SCHEMAS = frozenset({"", "sys", "dbo"})


def find_procedure(context: SessionContext, schema: str | None, name: str) -> Procedure | None:
    """The system procedure of that name, or None.

    Args:
        context: the session that calls it.
        schema: as written before the name; none, ``sys`` or ``dbo``, as SQL Server finds sp_
            procedures under each; or another for what an extension adds.
    """
    folded = (schema or "").casefold()
    key = name.casefold() if folded in _SCHEMAS else f"{folded}.{name.casefold()}"
    return PROCEDURES.get(key) or extension(context.engine).declared.procedures.by_name.get(key)
