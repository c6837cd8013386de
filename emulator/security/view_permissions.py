"""Which dynamic management views ask for a permission, and for which.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/system-dynamic-management-views
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emulator.messages import database_denied, denied, server_denied
from emulator.security.access import Securable
from emulator.security.permissions import OBJECT

if TYPE_CHECKING:
    from emulator.security.context import SecurityContext
    from emulator.storage.engine import Database

_DATABASE_VIEWS: Final = {
    "dm_cdc_log_scan_sessions": "VIEW DATABASE PERFORMANCE STATE",
    "dm_cdc_errors": "VIEW DATABASE PERFORMANCE STATE",
    "dm_db_partition_stats": "VIEW DATABASE PERFORMANCE STATE",
}
_SERVER_VIEWS: Final = {
    "dm_server_services": "VIEW SERVER SECURITY STATE",
    "dm_exec_connections": "VIEW SERVER SECURITY STATE",
}
_OF_ALL: Final = frozenset({"dm_exec_sessions", "dm_exec_requests", "dm_os_host_info"})
"""They show a session itself, or what everybody may know."""

_OTHER_VIEWS: Final = "VIEW SERVER PERFORMANCE STATE"
"""What every other dynamic management view of the server needs."""


def authorize_view(security: SecurityContext, database: Database, schema: str, name: str) -> None:
    """Check that a dynamic management view may be read.

    Args:
        security: who asks.
        database: from which database it is read.
        schema: of the view.
        name: of the view.

    Raises:
        SqlError: 262 or 300; 229 for the Agent's tables of msdb; 916.
    """
    if security.is_sysadmin:
        return
    _, is_of_msdb, plain = schema.partition("msdb:")
    if is_of_msdb and not security.has(Securable(database, OBJECT, 0, 0, plain, name), "SELECT"):
        raise denied("SELECT", name, database.name, plain)
    if schema.casefold() != "sys":
        return
    security.user(database)
    folded = name.casefold()
    permission = _DATABASE_VIEWS.get(folded)
    if permission is not None and not security.has(Securable(database), permission):
        raise database_denied(permission, database.name)
    if permission is None and folded.startswith("dm_") and folded not in _OF_ALL:
        permission = _SERVER_VIEWS.get(folded, _OTHER_VIEWS)
    else:
        permission = None
    if permission is not None and not security.has_on_server(permission):
        raise server_denied(permission)
