"""Functions that return who one is and what one may do.

https://learn.microsoft.com/sql/t-sql/functions/security-functions-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.objects import find_object
from tailrace_emulator.catalog.principal_views import sid_of
from tailrace_emulator.catalog.registry import Row
from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.catalog.visibility import securable_of
from tailrace_emulator.security.access import Securable, of_schema
from tailrace_emulator.security.permissions import (
    CLASS_ABOVE,
    COLUMN_PERMISSIONS,
    DATABASE,
    DATABASE_PRINCIPAL,
    KINDS,
    OBJECT,
    SCHEMA,
    SERVER,
    SERVER_PRINCIPAL,
    SERVER_ROLES,
)
from tailrace_emulator.security.tokens import (
    find_login,
    find_principal,
    login_by_id,
    logins,
    principal_by_id,
    roles_of,
    server_token,
)
from tailrace_emulator.values.types import INT, SYSNAME, StorageValue, nvarchar, varbinary

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_SID: Final = varbinary(85)


@scalar("ORIGINAL_LOGIN", SYSNAME)
def _original_login(context: SessionContext) -> StorageValue:
    return context.security.original_login


@scalar("SYSTEM_USER", SYSNAME)
def _system_user(context: SessionContext) -> StorageValue:
    return context.security.login_name


def _suser_sname(context: SessionContext, *sid: StorageValue) -> StorageValue:
    if not sid:
        return context.security.login_name
    wanted = sid[0]
    if isinstance(wanted, int):
        login = login_by_id(context.engine, wanted)
        return login.name if login is not None else None
    if not isinstance(wanted, bytes):
        return None
    return next((k.name for k in logins(context.engine) if bytes.fromhex(k.sid) == wanted), None)


scalar("SUSER_SNAME", SYSNAME, _SID, required=0)(_suser_sname)
scalar("SUSER_NAME", SYSNAME, INT, required=0)(_suser_sname)


@scalar("SUSER_SID", _SID, SYSNAME, required=0)
def _suser_sid(context: SessionContext, *name: StorageValue) -> StorageValue:
    login = find_login(context.engine, str(name[0])) if name else context.security.login
    return bytes.fromhex(login.sid) if login is not None else None


@scalar("SUSER_ID", INT, SYSNAME, required=0)
def _suser_id(context: SessionContext, *name: StorageValue) -> StorageValue:
    login = find_login(context.engine, str(name[0])) if name else context.security.login
    return login.principal_id if login is not None else None


def _user(context: SessionContext) -> StorageValue:
    return context.user


for _name in ("CURRENT_USER", "SESSION_USER", "USER"):
    scalar(_name, SYSNAME)(_user)


@scalar("USER_NAME", SYSNAME, INT, required=0)
def _user_name(context: SessionContext, *number: StorageValue) -> StorageValue:
    if not number:
        return context.user
    wanted = number[0]
    found = principal_by_id(context.database, wanted) if isinstance(wanted, int) else None
    return found.name if found is not None else None


@scalar("USER_ID", INT, SYSNAME, required=0)
@scalar("DATABASE_PRINCIPAL_ID", INT, SYSNAME, required=0)
def _principal_id(context: SessionContext, *name: StorageValue) -> StorageValue:
    found = find_principal(context.database, str(name[0] if name else context.user))
    return found.principal_id if found is not None else None


@scalar("USER_SID", _SID, INT, required=0)
def _user_sid(context: SessionContext, *number: StorageValue) -> StorageValue:
    found = (
        principal_by_id(context.database, number[0])
        if number and isinstance(number[0], int)
        else find_principal(context.database, context.user)
    )
    return sid_of(context, context.database, found) if found is not None else None


@scalar("HAS_DBACCESS", INT, SYSNAME)
def _has_dbaccess(context: SessionContext, name: StorageValue) -> StorageValue:
    database = context.engine.databases.get(str(name or "").casefold())
    if database is None:
        return None
    return int(context.security.user_or_none(database) is not None)


# Roles --------------------------------------------------------------------------------------------


@scalar("IS_MEMBER", INT, SYSNAME)
@scalar("IS_ROLEMEMBER", INT, SYSNAME, SYSNAME, required=1)
def _is_member(
    context: SessionContext, role: StorageValue, *principal: StorageValue
) -> StorageValue:
    database = context.database
    found = find_principal(database, str(role or ""))
    if found is None or found.type != "R":
        return None
    member = find_principal(database, str(principal[0] if principal else context.user))
    if member is None:
        return None
    if member.name == "dbo" and found.name == "db_owner":
        return 1
    inside = roles_of(database, [member.name])
    return int(found.name in inside or found.principal_id == member.principal_id)


@scalar("IS_SRVROLEMEMBER", INT, SYSNAME, SYSNAME, required=1)
def _is_srvrolemember(
    context: SessionContext, role: StorageValue, *login: StorageValue
) -> StorageValue:
    number = SERVER_ROLES.get(str(role or "").casefold())
    if number is None:
        return None
    if not login:
        server = context.security.server
        return int(server is not None and number in server.principals)
    found = find_login(context.engine, str(login[0]))
    if found is None:
        return None
    return int(number in server_token(context.engine, found).principals)


# Permissions --------------------------------------------------------------------------------------

_CLASSES: Final = {
    "OBJECT": OBJECT,
    "SCHEMA": SCHEMA,
    "DATABASE": DATABASE,
    "USER": DATABASE_PRINCIPAL,
    "ROLE": DATABASE_PRINCIPAL,
    "LOGIN": SERVER_PRINCIPAL,
    "SERVER": SERVER,
}


def _find_securable(
    context: SessionContext, name: str | None, securable_class: int
) -> Securable | None:
    """What HAS_PERMS_BY_NAME and fn_my_permissions name; None when it is not there."""
    database = context.database
    if securable_class == DATABASE:
        found = context.engine.databases.get((name or database.name).strip("[]").casefold())
        return Securable(found) if found is not None else None
    if securable_class == SERVER:
        return Securable(database, SERVER)
    if name is None:
        return None
    plain = name.strip("[]")
    if securable_class == SCHEMA:
        schema = of_schema(database, plain)
        return schema if schema.major_id else None
    if securable_class == DATABASE_PRINCIPAL:
        principal = find_principal(database, plain)
        if principal is None:
            return None
        return Securable(database, DATABASE_PRINCIPAL, principal.principal_id)
    if securable_class == SERVER_PRINCIPAL:
        login = find_login(context.engine, plain)
        if login is None:
            return None
        return Securable(database, SERVER_PRINCIPAL, login.principal_id)
    parts = split_name(name)
    if parts is None:
        return None
    where = context.engine.databases.get((parts.database or database.name).casefold())
    if where is None:
        return None
    item = find_object(context, where, parts.schema or "dbo", parts.name)
    return securable_of(where, item) if item is not None else None


def _holds(context: SessionContext, securable: Securable, permission: str) -> bool:
    security = context.security
    if securable.securable_class == SERVER:
        return security.has_on_server(permission)
    if securable.securable_class == SERVER_PRINCIPAL:
        return security.has_on_server(KINDS[SERVER_PRINCIPAL][permission].above)
    return security.has(securable, permission)


@scalar("HAS_PERMS_BY_NAME", INT, SYSNAME, nvarchar(60), SYSNAME, SYSNAME, nvarchar(60), required=3)
def _has_perms_by_name(
    context: SessionContext,
    securable: StorageValue,
    securable_class: StorageValue,
    permission: StorageValue,
    *column: StorageValue,
) -> StorageValue:
    folded = str(securable_class or "").upper()
    if securable_class is None:
        folded = "SERVER" if securable is None else "DATABASE"
    number = _CLASSES.get(folded)
    name = str(permission or "").upper()
    if number is None or (name not in KINDS[number] and name != "ANY"):
        return None
    found = _find_securable(context, str(securable) if securable is not None else None, number)
    if found is None:
        return None
    if column and column[0] is not None and number == OBJECT:
        table = found.database.table_by_id(found.major_id)
        known = table.column(str(column[0])) if table is not None else None
        if known is None or name not in COLUMN_PERMISSIONS:
            return None
        found = found.column(known.column_id)
    names = list(KINDS[number]) if name == "ANY" else [name]
    return int(any(_holds(context, found, wanted) for wanted in names))


def my_permissions(
    context: SessionContext, securable: StorageValue, securable_class: StorageValue
) -> Iterator[Row]:
    """The rows of sys.fn_my_permissions: entity, column, permission."""
    folded = str(securable_class or "").upper()
    number = _CLASSES.get(folded)
    if number is None:
        return
    name = str(securable) if securable is not None else None
    found = _find_securable(context, name, number)
    if found is None:
        return
    shown = name if name is not None else folded.lower()
    for permission in sorted(KINDS[number]):
        if _holds(context, found, permission):
            yield shown, "", permission
    table = found.database.table_by_id(found.major_id) if number == OBJECT else None
    for column in table.columns if table is not None else ():
        for permission in sorted(COLUMN_PERMISSIONS):
            if _holds(context, found.column(column.column_id), permission):
                yield shown, column.name, permission


def builtin_permissions(_context: SessionContext, securable_class: StorageValue) -> Iterator[Row]:
    """The rows of sys.fn_builtin_permissions for the classes that are known here."""
    wanted = str(securable_class or "DEFAULT").upper()
    names = {OBJECT: "OBJECT", SCHEMA: "SCHEMA", DATABASE: "DATABASE", SERVER: "SERVER"}
    for number, name in names.items():
        if wanted not in {"DEFAULT", "", name}:
            continue
        above = CLASS_ABOVE.get(number)
        for kind in KINDS[number].values():
            yield (
                *(name, kind.name, kind.code.ljust(4), kind.covered_by),
                *(names.get(above, "") if above is not None else "", kind.above),
            )


TableRows = Callable[..., Iterator[Row]]
