"""Who may run which procedure of change data capture: what its documents say of each.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/change-data-capture-stored-procedures-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_access import authorize_procedure
from tailrace_emulator.cdc.metadata_tables import CDC_SCHEMA
from tailrace_emulator.messages import denied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.values.types import StorageValue

_OF_SYSADMIN: Final = frozenset({"sp_cdc_enable_db", "sp_cdc_disable_db"})

_OF_DB_OWNER: Final = frozenset(
    {
        "sp_cdc_enable_table",
        "sp_cdc_disable_table",
        "sp_cdc_scan",
        "sp_cdc_cleanup_change_table",
        "sp_cdc_cleanup_change_tables",
        "sp_cdc_add_job",
        "sp_cdc_change_job",
        "sp_cdc_drop_job",
        "sp_cdc_start_job",
        "sp_cdc_stop_job",
        "sp_cdc_help_jobs",
        "sp_cdc_vupgrade",
        "sp_mscdc_capture_job",
        "sp_mscdc_cleanup_job",
    }
)

_OF_ALL: Final = frozenset(
    {
        "sp_cdc_generate_wrapper_function",
        "sp_cdc_get_captured_columns",
        "sp_cdc_get_ddl_history",
        "sp_cdc_help_change_data_capture",
    }
)
"""Each shows what its caller may see."""


def authorize_capture_procedure(
    context: SessionContext, schema: str, name: str, args: Mapping[str, StorageValue]
) -> None:
    """Check that the session may run a procedure of change data capture or of the Agent.

    Args:
        context: the calling session, in the procedure's database.

    Raises:
        SqlError: 22902, 22904, 229 or 15247.
    """
    if context.security.is_sysadmin:
        return
    folded = name.casefold()
    if folded in _OF_SYSADMIN:
        raise messages.error(22902, "Sysadmin", procedure=name)
    is_owner = context.security.owns(context.database)
    if folded in _OF_DB_OWNER and not is_owner:
        raise messages.error(22904, procedure=name)
    if schema == CDC_SCHEMA:
        if not is_owner:
            raise denied("EXECUTE", name, context.database.name, schema)
    elif folded not in _OF_ALL:
        authorize_procedure(context, schema, name, args)
