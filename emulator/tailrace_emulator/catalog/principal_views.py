"""Logins, users, roles, memberships and permissions as system views.

A session sees its own entries, those of its roles, and the fixed ones. It sees all with ALTER ANY
LOGIN, ALTER ANY USER or VIEW DEFINITION.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/security-catalog-views-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.security.access import Securable
from tailrace_emulator.security.database_principals import is_fixed, login_of_user
from tailrace_emulator.security.permissions import (
    CLASS_NAMES,
    KINDS,
    SERVER,
    SERVER_ROLES,
)
from tailrace_emulator.security.tokens import SA_ID, SYSADMIN, logins
from tailrace_emulator.storage.principal_model import (
    DBO_ID,
    Login,
    PermissionEntry,
    PermissionKey,
    Principal,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_LAST_FIXED_USER_ID: Final = 4
_STATES: Final = {
    "G": "GRANT",
    "W": "GRANT_WITH_GRANT_OPTION",
    "D": "DENY",
}
_CODE_WIDTH: Final = 4


def sid_of(context: SessionContext, database: Database, principal: Principal) -> bytes:
    """The sid of a user or role: its login's, where it has one."""
    if principal.principal_id == DBO_ID:
        owner = database.state.owners.get("database", SA_ID)
        found = next((k for k in logins(context.engine) if k.principal_id == owner), None)
        return bytes.fromhex(found.sid) if found is not None else b"\x01"
    if principal.sid:
        return bytes.fromhex(principal.sid)
    return principal.principal_id.to_bytes(16, "big")


def _sees_all(context: SessionContext, database: Database) -> bool:
    securable = Securable(database)
    return context.security.is_sysadmin or any(
        context.security.has(securable, permission)
        for permission in ("VIEW DEFINITION", "ALTER ANY USER")
    )


def visible_principals(context: SessionContext, database: Database) -> list[Principal]:
    """The users and roles that the session may know of."""
    known = sorted(database.principals.values(), key=lambda p: p.principal_id)
    if _sees_all(context, database):
        return known
    token = context.security.user_or_none(database)
    own = token.principals if token is not None else frozenset()
    return [
        p
        for p in known
        if p.principal_id in own or is_fixed(p) or p.principal_id <= _LAST_FIXED_USER_ID
    ]


_DATABASE_PRINCIPALS: Final = Columns(
    """name sysname!, principal_id int!, type char(1)!, type_desc nvarchar(60),
 default_schema_name sysname, create_date datetime!, modify_date datetime!,
 owning_principal_id int, sid varbinary(85), is_fixed_role bit!, authentication_type int!,
 authentication_type_desc nvarchar(60)"""
)


@view("sys.database_principals", _DATABASE_PRINCIPALS)
def _database_principals(context: SessionContext, database: Database) -> Iterator[Row]:
    for principal in visible_principals(context, database):
        role = principal.type == "R"
        created = datetime_of(principal.create_ticks or database.create_ticks)
        changed = datetime_of(principal.modify_ticks or database.create_ticks)
        instance = principal.has_login or principal.principal_id == DBO_ID
        yield _DATABASE_PRINCIPALS.row(
            name=principal.name,
            principal_id=principal.principal_id,
            type=principal.type,
            type_desc="DATABASE_ROLE" if role else "SQL_USER",
            default_schema_name=_default_schema(context, principal),
            create_date=created,
            modify_date=changed,
            owning_principal_id=principal.owner if role else None,
            sid=sid_of(context, database, principal),
            is_fixed_role=int(is_fixed(principal) and role),
            authentication_type=int(instance),
            authentication_type_desc="INSTANCE" if instance else "NONE",
        )


def _default_schema(context: SessionContext, principal: Principal) -> str | None:
    if principal.type == "R":
        return None
    if principal.principal_id <= _LAST_FIXED_USER_ID and principal.principal_id != DBO_ID:
        return principal.name if principal.name == "guest" else None
    is_schema = principal.name.casefold() in context.engine.extension.schemas
    return principal.default_schema or (principal.name if is_schema else "dbo")


@view("sys.database_role_members", "role_principal_id int!, member_principal_id int!")
def _role_members(context: SessionContext, database: Database) -> Iterator[Row]:
    visible = {p.name.casefold(): p for p in visible_principals(context, database)}
    for role in visible.values():
        for member in role.members:
            found = visible.get(member.casefold())
            if found is not None:
                yield role.principal_id, found.principal_id


@view("sys.sysusers", "uid smallint, status int, name sysname, sid varbinary(85), issqlrole int")
def _sysusers(context: SessionContext, database: Database) -> Iterator[Row]:
    for principal in visible_principals(context, database):
        sid = sid_of(context, database, principal)
        yield principal.principal_id, 0, principal.name, sid, int(principal.type == "R")


# The server ---------------------------------------------------------------------------------------

_LOGINS: Final = Columns(
    """name sysname!, principal_id int!, sid varbinary(85), type char(1)! = 'S',
 type_desc nvarchar(60) = 'SQL_LOGIN', is_disabled bit = 0, create_date datetime!,
 modify_date datetime!, default_database_name sysname, default_language_name sysname"""
)
_SERVER_PRINCIPALS: Final = _LOGINS.extended(
    "credential_id int, owning_principal_id int, is_fixed_role bit! = 0"
)
_SQL_LOGINS: Final = _LOGINS.extended(
    """credential_id int, is_policy_checked bit, is_expiration_checked bit,
 password_hash varbinary(256)"""
)


def _visible_logins(context: SessionContext) -> list[Login]:
    known = logins(context.engine)
    security = context.security
    if security.has_on_server("ALTER ANY LOGIN") or security.has_on_server("VIEW ANY DEFINITION"):
        return known
    own = security.login
    return [
        login
        for login in known
        if login.principal_id == SA_ID
        or (own is not None and login.principal_id == own.principal_id)
    ]


def _login_row(login: Login) -> Row:
    return _LOGINS.row(
        name=login.name,
        principal_id=login.principal_id,
        sid=bytes.fromhex(login.sid),
        is_disabled=int(login.is_disabled),
        create_date=datetime_of(login.create_ticks),
        modify_date=datetime_of(login.modify_ticks or login.create_ticks),
        default_database_name=login.default_database,
        default_language_name=login.default_language,
    )


def _server_role_row(name: str, number: int, created: int) -> Row:
    role = _LOGINS.row(
        name=name,
        principal_id=number,
        sid=number.to_bytes(1, "big"),
        type="R",
        type_desc="SERVER_ROLE",
        create_date=created,
        modify_date=created,
    )
    fixed = int(name != "public")
    return _SERVER_PRINCIPALS.row(role, owning_principal_id=SA_ID, is_fixed_role=fixed)


@view("sys.server_principals", _SERVER_PRINCIPALS)
def _server_principals(context: SessionContext, _database: Database) -> Iterator[Row]:
    created = datetime_of(context.engine.databases["master"].create_ticks)
    found = {
        login.principal_id: _SERVER_PRINCIPALS.row(_login_row(login))
        for login in _visible_logins(context)
    }
    for name, number in SERVER_ROLES.items():
        found[number] = _server_role_row(name, number, created)
    yield from (found[number] for number in sorted(found))


@view("sys.sql_logins", _SQL_LOGINS)
def _sql_logins(context: SessionContext, _database: Database) -> Iterator[Row]:
    """The hash is nobody's business."""
    for login in _visible_logins(context):
        yield _SQL_LOGINS.row(
            _login_row(login),
            is_policy_checked=int(login.check_policy),
            is_expiration_checked=int(login.check_expiration),
        )


@view("sys.server_role_members", "role_principal_id int!, member_principal_id int!")
def _server_role_members(context: SessionContext, _database: Database) -> Iterator[Row]:
    visible = {login.principal_id for login in _visible_logins(context)}
    yield SYSADMIN, SA_ID
    for role, members in sorted(context.engine.databases["master"].state.server_roles.items()):
        for member in members:
            if member in visible:
                yield role, member


# Permissions --------------------------------------------------------------------------------------

_PERMISSIONS: Final = Columns(
    """class tinyint!, class_desc nvarchar(60), major_id int!, minor_id int!,
 grantee_principal_id int!, grantor_principal_id int!, type char(4)!,
 permission_name nvarchar(128), state char(1)!, state_desc nvarchar(60)"""
)


def _permission_row(key: PermissionKey, entry: PermissionEntry) -> Row:
    return _PERMISSIONS.row(
        class_=key.securable_class,
        class_desc=CLASS_NAMES[key.securable_class],
        major_id=key.major_id,
        minor_id=key.minor_id,
        grantee_principal_id=key.grantee,
        grantor_principal_id=entry.grantor,
        type=KINDS[key.securable_class][key.permission].code.ljust(_CODE_WIDTH),
        permission_name=key.permission,
        state=entry.state,
        state_desc=_STATES[entry.state],
    )


@view("sys.database_permissions", _PERMISSIONS)
def _database_permissions(context: SessionContext, database: Database) -> Iterator[Row]:
    visible = {p.principal_id for p in visible_principals(context, database)}
    dbo = PermissionKey(0, 0, 0, DBO_ID, "CONNECT")
    yield _permission_row(dbo, PermissionEntry("G", DBO_ID))
    for key, entry in sorted(database.state.permissions.items()):
        if key.securable_class < SERVER and key.grantee in visible:
            yield _permission_row(key, entry)


@view("sys.server_permissions", _PERMISSIONS)
def _server_permissions(context: SessionContext, _database: Database) -> Iterator[Row]:
    visible = {login.principal_id for login in _visible_logins(context)} | {2}
    for login in _visible_logins(context):
        key = PermissionKey(SERVER, 0, 0, login.principal_id, "CONNECT SQL")
        yield _permission_row(key, PermissionEntry("G", SA_ID))
    key = PermissionKey(SERVER, 0, 0, SERVER_ROLES["public"], "VIEW ANY DATABASE")
    yield _permission_row(key, PermissionEntry("G", SA_ID))
    entries = context.engine.databases["master"].state.permissions
    for key, entry in sorted(entries.items()):
        is_connect = key.permission == "CONNECT SQL" and entry.state != "D"
        if key.securable_class >= SERVER and key.grantee in visible and not is_connect:
            yield _permission_row(key, entry)


def user_rows(context: SessionContext, database: Database) -> Iterator[Row]:
    """The rows of sp_helpuser: one for each user and role that it is in, or public."""
    roles = [p for p in database.principals.values() if p.type == "R"]
    for user in visible_principals(context, database):
        if user.type != "S":
            continue
        inside = [r.name for r in roles if user.name in r.members]
        if user.principal_id == DBO_ID:
            inside = ["db_owner"]
        login = login_of_user(database, user)
        name = "sa" if user.principal_id == DBO_ID else (login.name if login else None)
        for role in inside or ["public"]:
            yield (
                *(user.name, role, name, login.default_database if login else None),
                *(
                    _default_schema(context, user),
                    user.principal_id,
                    sid_of(context, database, user),
                ),
            )
