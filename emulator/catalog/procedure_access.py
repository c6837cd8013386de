"""Who may run which system procedure: what change data capture's documents say of each.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/change-data-capture-stored-procedures-transact-sql
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from emulator import messages
from emulator.catalog.instance_access import is_database_owner
from emulator.cdc.metadata_tables import CDC_SCHEMA
from emulator.messages import denied, not_allowed

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.types import StorageValue

_OF_SYSADMIN: Final = frozenset({"sp_cdc_enable_db", "sp_cdc_disable_db"})

_OF_DB_OWNER: Final = frozenset(
    {
        "sp_cdc_enable_table",
        "sp_cdc_disable_table",
        "sp_cdc_scan",
        "sp_cdc_cleanup_change_table",
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
        "sp_configure",
        "sp_getapplock",
        "sp_releaseapplock",
        "sp_set_session_context",
        "sp_sproc_columns",
        "sp_sproc_columns_90",
        "sp_sproc_columns_100",
        "sp_databases",
        "sp_refreshsqlmodule",
        "sp_refreshview",
        "sp_rename",
    }
)
"""With those that describe something (sp_help, sp_columns): each shows what its caller may see, or
checks by itself."""

_DESCRIBING: Final = (
    "sp_help",
    "sp_columns",
    "sp_datatype_info",
    "sp_fkeys",
    "sp_pkeys",
    "sp_server_info",
    "sp_spaceused",
    "sp_special_columns",
    "sp_statistics",
    "sp_stored_procedures",
    "sp_tables",
    "sp_who",
    "sp_describe",
)

_OF_PRINCIPALS: Final = (
    "sp_addlogin",
    "sp_addrole",
    "sp_addsrvrole",
    "sp_droplogin",
    "sp_droprole",
    "sp_dropsrvrole",
    "sp_dropuser",
)
"""They check as the statements do that they stand for."""

_CONFIGURES: Final = "sp_configure"


def authorize_procedure(
    context: SessionContext, schema: str, name: str, args: Mapping[str, StorageValue]
) -> None:
    """Check that the session may run a system procedure.

    Args:
        context: the calling session, in the procedure's database.
        schema: of the procedure.
        name: of the procedure.
        args: its arguments.

    Raises:
        SqlError: 22902, 22904, 229 or 15247.
    """
    if context.security.is_sysadmin:
        return
    folded = name.casefold()
    if folded in _OF_SYSADMIN:
        raise messages.error(22902, "Sysadmin", procedure=name)
    if folded in _OF_DB_OWNER and not is_database_owner(context, context.database):
        raise messages.error(22904, procedure=name)
    if schema == CDC_SCHEMA and not is_database_owner(context, context.database):
        raise denied("EXECUTE", name, context.database.name, schema)
    if schema not in {"sys", CDC_SCHEMA}:
        raise not_allowed()
    is_known = folded in _OF_ALL or folded.startswith(_DESCRIBING + _OF_PRINCIPALS)
    if not is_known and not is_database_owner(context, context.database):
        raise not_allowed()
    is_change = folded == _CONFIGURES and args.get("@configvalue") is not None
    if is_change and not context.security.has_on_server("ALTER SETTINGS"):
        raise not_allowed()
