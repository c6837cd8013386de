"""Which dynamic management views ask for a permission, and for which.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/system-dynamic-management-views
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages import database_denied, denied, server_denied
from tailrace_emulator.security.access import Securable
from tailrace_emulator.security.permissions import OBJECT

if TYPE_CHECKING:
    from tailrace_emulator.security.context import SecurityContext
    from tailrace_emulator.storage.engine import Database

DATABASE_PERFORMANCE: Final = "VIEW DATABASE PERFORMANCE STATE"
"""What the dynamic management views of a database need."""

_SERVER_VIEWS: Final = {
    "dm_server_services": "VIEW SERVER SECURITY STATE",
    "dm_exec_connections": "VIEW SERVER SECURITY STATE",
}
_OF_ALL: Final = frozenset({"dm_exec_sessions", "dm_exec_requests", "dm_os_host_info"})
"""They show a session itself, or what everybody may know."""

SERVER_PERFORMANCE: Final = "VIEW SERVER PERFORMANCE STATE"
"""What every other dynamic management view of the server needs."""


def authorize_view(
    security: SecurityContext, database: Database, schema: str, name: str, permission: str = ""
) -> None:
    """Check that a dynamic management view may be read.

    Args:
        database: from which database it is read.
        permission: what it declares that reading it needs in the database; empty for none.

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
    if permission:
        if not security.has(Securable(database), permission):
            raise database_denied(permission, database.name)
        return
    if not folded.startswith("dm_") or folded in _OF_ALL:
        return
    needed = _SERVER_VIEWS.get(folded, SERVER_PERFORMANCE)
    if not security.has_on_server(needed):
        raise server_denied(needed)
