"""Tokens: a login or user with every role that it is in, as the permission checks need them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.security.permissions import (
    DATABASE,
    SERVER,
    SERVER_ROLE_GRANTS,
    SERVER_ROLES,
)
from tailrace_emulator.storage.principal_model import (
    DBO_ID,
    FIRST_FIXED_ROLE_ID,
    GUEST_ID,
    PUBLIC_ID,
    Login,
    PermissionKey,
    Principal,
)

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database, StorageEngine

SA_ID: Final = 1
SA_SID: Final = "01"
SYSADMIN: Final = SERVER_ROLES["sysadmin"]
SERVER_PUBLIC: Final = SERVER_ROLES["public"]

OPEN_TO_GUEST: Final = frozenset({"master", "tempdb", "msdb"})
"""Databases that every login may enter, because guest may."""

_NAMED_OWNERS: Final = frozenset({"guest", "information_schema", "sys"})
"""Schemas that belong to the user of their name, as those of an extension do."""


@dataclass(frozen=True, slots=True)
class ServerToken:
    """A login with its server roles.

    Attributes:
        principals: its id and those of its roles.
        is_sysadmin: whether no check applies to it.
    """

    login: Login
    principals: frozenset[int]
    is_sysadmin: bool


@dataclass(frozen=True, slots=True)
class UserToken:
    """A user of one database with its roles.

    Attributes:
        principals: its id and those of its roles.
        roles: names of the fixed roles among them.
        is_dbo: whether no check of this database applies to it.
        server: the login that it came from; None for an impersonated user.
    """

    principal: Principal
    principals: frozenset[int]
    roles: frozenset[str]
    is_dbo: bool
    server: ServerToken | None = None


def find_login(engine: StorageEngine, name: str) -> Login | None:
    """The login of that name, case-insensitively, or None."""
    folded = name.casefold()
    return next((login for login in logins(engine) if login.name.casefold() == folded), None)


def login_by_id(engine: StorageEngine, principal_id: int) -> Login | None:
    """The login of that principal id, or None."""
    return next((known for known in logins(engine) if known.principal_id == principal_id), None)


def logins(engine: StorageEngine) -> list[Login]:
    """Every login; sa first, which is there without anybody having made it."""
    master = engine.databases["master"]
    known = sorted(master.state.logins.values(), key=lambda login: login.principal_id)
    if not known or known[0].principal_id != SA_ID:
        known.insert(0, Login(SA_ID, "sa", SA_SID, create_ticks=master.create_ticks))
    return known


def server_token(engine: StorageEngine, login: Login) -> ServerToken:
    """The token of a login as the server's roles are now."""
    members = engine.databases["master"].state.server_roles
    roles = {role for role, ids in members.items() if login.principal_id in ids}
    if login.principal_id == SA_ID:
        roles.add(SYSADMIN)
    principals = frozenset({login.principal_id, SERVER_PUBLIC, *roles})
    return ServerToken(login, principals, SYSADMIN in roles)


def server_permits(engine: StorageEngine, token: ServerToken, permission: str) -> bool:
    """Whether a login has a permission of the server itself: not what implies it."""
    entries = engine.databases["master"].state.permissions
    states = [
        entry.state
        for principal in token.principals
        if (entry := entries.get(PermissionKey(SERVER, 0, 0, principal, permission))) is not None
    ]
    if "D" in states:
        return False
    return bool(states) or any(
        permission in SERVER_ROLE_GRANTS.get(principal, ()) for principal in token.principals
    )


def server_denies(engine: StorageEngine, token: ServerToken, permission: str) -> bool:
    """Whether a login is denied a permission of the server itself."""
    entries = engine.databases["master"].state.permissions
    return any(
        entry.state == "D"
        for principal in token.principals
        if (entry := entries.get(PermissionKey(SERVER, 0, 0, principal, permission))) is not None
    )


def find_principal(database: Database, name: str) -> Principal | None:
    """The user or role of that name, case-insensitively, or None."""
    folded = name.casefold()
    return next((p for n, p in database.principals.items() if n.casefold() == folded), None)


def principal_by_id(database: Database, principal_id: int) -> Principal | None:
    """The user or role of that id, or None."""
    return next((p for p in database.principals.values() if p.principal_id == principal_id), None)


def roles_of(database: Database, names: Iterable[str]) -> dict[str, Principal]:
    """The roles that principals of these names are in, directly or through others; and public."""
    wanted = {name.casefold() for name in names}
    found: dict[str, Principal] = {}
    grown = True
    while grown:
        grown = False
        for role in database.principals.values():
            if role.type != "R" or role.name in found:
                continue
            if role.principal_id == PUBLIC_ID or any(m.casefold() in wanted for m in role.members):
                found[role.name] = role
                wanted.add(role.name.casefold())
                grown = True
    return found


def token_of_user(
    database: Database, principal: Principal, server: ServerToken | None = None
) -> UserToken:
    """The token of a user (or role) as the database's roles are now."""
    roles = roles_of(database, [principal.name])
    return UserToken(
        principal,
        frozenset({principal.principal_id, *(role.principal_id for role in roles.values())}),
        frozenset(n for n, role in roles.items() if role.principal_id >= FIRST_FIXED_ROLE_ID),
        principal.principal_id == DBO_ID,
        server,
    )


def token_of_login(
    engine: StorageEngine, database: Database, server: ServerToken
) -> UserToken | None:
    """The user that a login is in a database; None when it may not enter it."""
    dbo = principal_by_id(database, DBO_ID)
    if dbo is not None and (server.is_sysadmin or database_owner(database) == _id_of(server)):
        return token_of_user(database, dbo, server)
    user = next(
        (p for p in database.principals.values() if p.has_login and p.sid == server.login.sid),
        None,
    )
    if user is not None:
        token = token_of_user(database, user, server)
        return token if _may_connect(database, token) else None
    guest = principal_by_id(database, GUEST_ID)
    if guest is None:
        return None
    token = token_of_user(database, guest, server)
    enters = database.name.casefold() in OPEN_TO_GUEST or _may_connect(database, token)
    if enters or server_permits(engine, server, "CONNECT ANY DATABASE"):
        return token
    if server_permits(engine, server, "CONTROL SERVER"):
        return token
    return None


def _id_of(server: ServerToken) -> int:
    return server.login.principal_id


def _may_connect(database: Database, token: UserToken) -> bool:
    entries = database.state.permissions
    states = [
        entry.state
        for principal in token.principals
        if (entry := entries.get(PermissionKey(DATABASE, 0, 0, principal, "CONNECT"))) is not None
    ]
    return bool(states) and "D" not in states


def database_owner(database: Database) -> int:
    """Principal id of the login that owns a database."""
    return database.state.owners.get("database", SA_ID)


def schema_owner(database: Database, schema: str) -> int:
    """Principal id of a schema's owner."""
    folded = schema.casefold()
    for name, schema_id in database.schemas.items():
        if name.casefold() == folded:
            chosen = database.state.owners.get(f"schema:{schema_id}")
            if chosen is not None:
                return chosen
            break
    named_owners = _NAMED_OWNERS | database.engine.extension_schemas
    if folded in named_owners or folded.startswith("db_"):
        named = find_principal(database, schema)
        if named is not None:
            return named.principal_id
    return DBO_ID


def object_owner(database: Database, object_id: int, schema: str) -> int:
    """Principal id of an object's owner: its own, or its schema's."""
    chosen = database.state.owners.get(f"object:{object_id}")
    return schema_owner(database, schema) if chosen is None else chosen


__all__ = [
    "SA_ID",
    "SA_SID",
    "SERVER_PUBLIC",
    "SYSADMIN",
    "ServerToken",
    "UserToken",
    "database_owner",
    "find_login",
    "find_principal",
    "login_by_id",
    "logins",
    "object_owner",
    "principal_by_id",
    "roles_of",
    "schema_owner",
    "server_denies",
    "server_permits",
    "server_token",
    "token_of_login",
    "token_of_user",
]
