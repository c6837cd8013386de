"""KILL: one session ends another.

The other's request, if one runs, ends with 596; what it left open is rolled back by its own thread.

https://learn.microsoft.com/sql/t-sql/language-elements/kill-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emulator.errors import SqlError
from emulator.security.sessions import is_active, kill
from emulator.tsql.syntax.maintenance_statements import Kill

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext

_SESSION_ID_MAX: Final = 32767
_SYSTEM_SESSION_MAX: Final = 50
"""Up to here session ids are the server's own."""


def kill_session(context: SessionContext, node: Kill) -> None:
    """Run KILL.

    Raises:
        SqlError: 6101 not a session id, 6102 without ALTER ANY CONNECTION, 6104 its own session,
            6106 no such session, 6107 a session of the server, 6115 in a transaction, 6120 a
            session that is not being rolled back.
    """
    number = node.session_id
    if not context.security.has_on_server("ALTER ANY CONNECTION"):
        text = "User does not have permission to use the KILL statement."
        raise SqlError(6102, text, severity=14)
    if context.store.trancount:
        raise SqlError(6115, "KILL command cannot be used inside user transactions.")
    if not 0 < number <= _SESSION_ID_MAX:
        raise SqlError(6101, f"Session ID {number} is not valid.")
    if number == context.session_id:
        raise SqlError(6104, "Cannot use KILL to kill your own process.")
    if number <= _SYSTEM_SESSION_MAX:
        raise SqlError(6107, "Only user processes can be killed.", severity=14)
    if node.status_only and is_active(context.engine, number):
        raise SqlError(
            6120,
            "Status report cannot be obtained. Rollback operation for Process ID"
            f" {number} is not in progress.",
        )
    if node.status_only or not kill(context.engine, number):
        raise SqlError(6106, f"Process ID {number} is not an active process ID.", state=2)
