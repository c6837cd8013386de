"""The system procedures by name."""

from __future__ import annotations

from emulator.catalog import (
    cdc_procedures,
    datatype_info,
    driver_procedures,
    job_procedures,
    server_procedures,
)
from emulator.catalog.procedure_registry import (
    PROCEDURES,
    REQUIRED,
    Procedure,
    ProcedureParameter,
)

__all__ = ["PROCEDURES", "REQUIRED", "Procedure", "ProcedureParameter", "find_procedure"]

_DECLARING_MODULES = (
    cdc_procedures,
    datatype_info,
    driver_procedures,
    job_procedures,
    server_procedures,
)
"""Importing them registers their procedures."""

_SCHEMAS = frozenset({"", "sys", "dbo"})


def find_procedure(schema: str | None, name: str) -> Procedure | None:
    """The system procedure of that name, or None.

    Args:
        schema: as written before the name; none, ``sys`` or ``dbo``, as SQL Server finds sp_
            procedures under each.
        name: the procedure's name.
    """
    if (schema or "").casefold() not in _SCHEMAS:
        return None
    return PROCEDURES.get(name.casefold())
