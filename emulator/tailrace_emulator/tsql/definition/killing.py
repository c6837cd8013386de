"""KILL: one session ends another.

The other's request, if one runs, ends with 596; what it left open is rolled back by its own thread.

https://learn.microsoft.com/sql/t-sql/language-elements/kill-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.security.sessions import is_active, kill
from tailrace_emulator.tsql.syntax.maintenance_statements import Kill

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_SESSION_ID_MAX: Final = 32767
_SYSTEM_SESSION_MAX: Final = 50
"""Up to here session ids are the server's own."""


def kill_session(context: SessionContext, node: Kill) -> None:
    """Run KILL.

    Raises:
        SqlError: 6101 not a session id, 6102 without ALTER ANY CONNECTION, 6104 its own session,
            6106 no such session. Also 6107 a session of the server, 6115 in a transaction, 6120 a
            session that is not being rolled back.
    """
    number = node.session_id
    if not context.security.has_on_server("ALTER ANY CONNECTION"):
        raise messages.error(6102)
    if context.store.trancount:
        raise messages.error(6115)
    if not 0 < number <= _SESSION_ID_MAX:
        raise messages.error(6101, number)
    if number == context.session_id:
        raise messages.error(6104)
    if number <= _SYSTEM_SESSION_MAX:
        raise messages.error(6107)
    if node.status_only and is_active(context.engine, number):
        raise messages.error(6120, number)
    if node.status_only or not kill(context.engine, number):
        raise messages.error(6106, number)
