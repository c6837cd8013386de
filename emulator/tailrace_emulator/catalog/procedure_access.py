"""Who may run which of the system's procedures.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/system-stored-procedures-transact-sql
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages import not_allowed

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.values.types import StorageValue

_OF_ALL: Final = frozenset(
    {
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
        "xp_msver",
    }
)
"""With those that describe something (sp_help, sp_columns): each shows what its caller may see, or
makes its own check."""

_DESCRIBING: Final = (
    "sp_help",
    "sp_column_privileges",
    "sp_columns",
    "sp_datatype_info",
    "sp_fkeys",
    "sp_pkeys",
    "sp_server_info",
    "sp_spaceused",
    "sp_special_columns",
    "sp_statistics",
    "sp_stored_procedures",
    "sp_table_privileges",
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

    Raises:
        SqlError: 15247 without the needed permission.
    """
    if context.security.is_sysadmin:
        return
    folded = name.casefold()
    if schema != "sys":
        raise not_allowed()
    is_known = folded in _OF_ALL or folded.startswith(_DESCRIBING + _OF_PRINCIPALS)
    if not is_known and not context.security.owns(context.database):
        raise not_allowed()
    is_change = folded == _CONFIGURES and args.get("@configvalue") is not None
    if is_change and not context.security.has_on_server("ALTER SETTINGS"):
        raise not_allowed()
