"""ALTER AUTHORIZATION: who owns a database, a schema, a role or an object.

https://learn.microsoft.com/sql/t-sql/statements/alter-authorization-transact-sql
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.security.access import Securable, of_schema, permits
from tailrace_emulator.security.permissions import DATABASE_PRINCIPAL
from tailrace_emulator.security.tokens import find_login, find_principal
from tailrace_emulator.storage.principals import put_principal, set_owner

if TYPE_CHECKING:
    from tailrace_emulator.security.context import SecurityContext
    from tailrace_emulator.storage.database import Database, StorageEngine
    from tailrace_emulator.storage.ddl_scope import DdlTarget


def alter_authorization(
    security: SecurityContext,
    target: DdlTarget,
    kind: str,
    securable: Securable,
    owner: str | None,
) -> None:
    """Give something to another owner.

    Args:
        target: whose transaction makes the change.
        kind: OBJECT, SCHEMA, DATABASE or ROLE.
        securable: the object; for the other kinds only database and name count.
        owner: a user or role, a login for a database; None for SCHEMA OWNER.

    Raises:
        SqlError: 15151 when it, or the owner, is not there or not the session's to give, 15110.
    """
    database = securable.database
    if kind == "DATABASE":
        _give_database(security, target, database.engine, securable.name, owner or "")
        return
    if kind == "SCHEMA":
        securable = of_schema(database, securable.name)
        if not securable.major_id:
            raise messages.cannot_find("schema", securable.name)
    elif kind == "ROLE":
        role = find_principal(database, securable.name)
        if role is None or role.type != "R":
            raise messages.cannot_find("role", securable.name)
        securable = Securable(database, DATABASE_PRINCIPAL, role.principal_id, name=role.name)
    elif kind != "OBJECT":
        raise not_supported(f"ALTER AUTHORIZATION ON {kind}")
    if not permits(security.user(database), securable, "TAKE OWNERSHIP"):
        raise messages.cannot_find(kind.lower(), securable.name)
    number = None
    if owner is not None:
        principal = find_principal(database, owner)
        if principal is None:
            raise messages.cannot_find("principal", owner)
        number = principal.principal_id
    if kind == "ROLE":
        role = find_principal(database, securable.name)
        if role is not None and number is not None:
            put_principal(target, database, replace(role, owner=number))
        return
    what = f"{'schema' if kind == 'SCHEMA' else 'object'}:{securable.major_id}"
    set_owner(target, database, what, number)


def _give_database(
    security: SecurityContext, target: DdlTarget, engine: StorageEngine, name: str, owner: str
) -> None:
    database = engine.databases.get(name.casefold())
    if database is None or not security.has(Securable(database), "TAKE OWNERSHIP"):
        raise messages.cannot_find("database", name)
    login = find_login(engine, owner)
    if login is None:
        raise messages.cannot_find("principal", owner)
    if _has_user(database, login.sid):
        raise messages.error(15110)
    set_owner(target, database, "database", login.principal_id)


def _has_user(database: Database, sid: str) -> bool:
    return any(p.has_login and p.sid == sid for p in database.principals.values())
