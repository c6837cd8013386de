"""The system procedures by name."""

from __future__ import annotations

from emulator.catalog import (
    cdc_admin_procedures,
    cdc_mapping_procedures,
    cdc_procedures,
    cdc_replication_procedures,
    cdc_wrapper_procedure,
    datatype_info,
    driver_procedures,
    extended_properties,
    help_procedures,
    job_procedures,
    maintenance_procedures,
    principal_procedures,
    sequence_objects,
    server_procedures,
    session_state,
    type_views,
)
from emulator.catalog.procedure_registry import (
    PROCEDURES,
    REQUIRED,
    Procedure,
    ProcedureParameter,
)
from emulator.cdc.metadata_tables import CDC_SCHEMA

__all__ = ["PROCEDURES", "REQUIRED", "Procedure", "ProcedureParameter", "find_procedure"]

_DECLARING_MODULES = (
    cdc_admin_procedures,
    cdc_mapping_procedures,
    cdc_procedures,
    cdc_replication_procedures,
    cdc_wrapper_procedure,
    datatype_info,
    driver_procedures,
    extended_properties,
    help_procedures,
    job_procedures,
    maintenance_procedures,
    principal_procedures,
    sequence_objects,
    server_procedures,
    session_state,
    type_views,
)
"""Importing them registers their procedures."""

_SCHEMAS = frozenset({"", "sys", "dbo"})


def find_procedure(schema: str | None, name: str) -> Procedure | None:
    """The system procedure of that name, or None.

    Args:
        schema: as written before the name; none, ``sys`` or ``dbo``, as SQL Server finds sp_
            procedures under each; ``cdc`` for the four of a database; ``tailrace`` for
            the embedded server's own.
        name: the procedure's name.
    """
    folded = (schema or "").casefold()
    if folded in {cdc_admin_procedures.SCHEMA, CDC_SCHEMA}:
        return PROCEDURES.get(f"{folded}.{name.casefold()}")
    if folded not in _SCHEMAS:
        return None
    return PROCEDURES.get(name.casefold())
