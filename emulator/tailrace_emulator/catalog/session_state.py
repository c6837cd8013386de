"""What a session keeps for its application: session context, context info, application locks.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-set-session-context-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql

Inferred: asking for a lock of the transaction outside of one returns -999 without a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    flag,
    integer,
    procedure,
    text,
)
from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.storage.application_locks import MODES
from tailrace_emulator.values.results import Event, ReturnStatus
from tailrace_emulator.values.types import (
    BIT,
    INT,
    SQL_VARIANT,
    SYSNAME,
    nvarchar,
    varbinary,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.values.types import StorageValue

_P = ProcedureParameter
_INVALID_CALL: Final = -999
_INTENTS: Final = frozenset({"intentshared", "intentexclusive"})
_OWNERS: Final = {"session": True, "transaction": False}
_RESOURCE: Final = nvarchar(255)


@procedure(
    "sp_set_session_context",
    _P("@key", SYSNAME),
    _P("@value", SQL_VARIANT),
    _P("@read_only", BIT, 0),
)
def _set_session_context(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from ()
    key = text(args["@key"])
    if not key:
        raise messages.error(15666)
    folded = key.casefold()
    known = context.session_values.get(folded)
    if known is not None and known[1]:
        raise messages.error(15664, key)
    context.session_values[folded] = (args["@value"], bool(flag(args["@read_only"])))


@scalar("SESSION_CONTEXT", SQL_VARIANT, SYSNAME)
def _session_context(context: SessionContext, key: StorageValue) -> StorageValue:
    found = context.session_values.get(str(key or "").casefold())
    return None if found is None else found[0]


@scalar("CONTEXT_INFO", varbinary(128))
def _context_info(context: SessionContext) -> StorageValue:
    return context.context_info


# Application locks ------------------------------------------------------------------------------


def _lock_name(context: SessionContext, resource: str, principal: str) -> str:
    """The name of a lock: it belongs to a database and a principal; case counts in the rest."""
    return f"{context.database.database_id}:{principal.casefold()}:{resource}"


@procedure(
    "sp_getapplock",
    _P("@Resource", _RESOURCE),
    _P("@LockMode", varchar(32)),
    _P("@LockOwner", varchar(32), "Transaction"),
    _P("@LockTimeout", INT, None),
    _P("@DbPrincipal", SYSNAME, "public"),
)
def _get_application_lock(context: SessionContext, args: Arguments) -> Iterator[Event]:
    resource, principal = text(args["@Resource"]), text(args["@DbPrincipal"])
    mode = (text(args["@LockMode"]) or "").casefold()
    owner = _OWNERS.get((text(args["@LockOwner"]) or "").casefold())
    if mode in _INTENTS:
        raise not_supported("sp_getapplock with an intent mode")
    outside = owner is False and context.store.trancount == 0
    if not resource or not principal or mode not in MODES or owner is None or outside:
        yield ReturnStatus(_INVALID_CALL)
        return
    given = integer(args["@LockTimeout"])
    timeout = context.options.lock_timeout_ms if given is None else given
    name = _lock_name(context, resource, principal)
    locks = context.store.application_locks
    yield ReturnStatus(locks.get(name, mode, timeout, of_session=owner))


@procedure(
    "sp_releaseapplock",
    _P("@Resource", _RESOURCE),
    _P("@LockOwner", varchar(32), "Transaction"),
    _P("@DbPrincipal", SYSNAME, "public"),
)
def _release_application_lock(context: SessionContext, args: Arguments) -> Iterator[Event]:
    resource, principal = text(args["@Resource"]) or "", text(args["@DbPrincipal"]) or ""
    owner = _OWNERS.get((text(args["@LockOwner"]) or "").casefold())
    name = _lock_name(context, resource, principal)
    if owner is None or not context.store.application_locks.release(name, of_session=owner):
        raise messages.error(1223, principal, resource)
    yield ReturnStatus(0)


@scalar("APPLOCK_MODE", nvarchar(32), SYSNAME, _RESOURCE, varchar(32), required=2)
def _applock_mode(
    context: SessionContext, principal: StorageValue, resource: StorageValue, *owner: StorageValue
) -> StorageValue:
    of_session = _OWNERS.get(str(owner[0] if owner else "Transaction").casefold())
    if of_session is None:
        return None
    name = _lock_name(context, str(resource or ""), str(principal or ""))
    return context.store.application_locks.mode(name, of_session=of_session)
