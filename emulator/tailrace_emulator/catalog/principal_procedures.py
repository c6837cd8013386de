"""sp_addrolemember and its like, sp_addlogin: the older names of today's statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.principal_views import user_rows
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.security.database_principals import DatabasePrincipals
from tailrace_emulator.security.permissions import SERVER_ROLES
from tailrace_emulator.security.server_principals import ServerPrincipals
from tailrace_emulator.security.tokens import find_principal
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import SYSNAME

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
_ROLE: Final = (_P("@rolename", SYSNAME), _P("@membername", SYSNAME))


def _principals(context: SessionContext) -> DatabasePrincipals:
    return DatabasePrincipals(context.database, context.security, context.store)


def _server(context: SessionContext) -> ServerPrincipals:
    return ServerPrincipals(context.engine, context.security, context.store)


def _change_members(context: SessionContext, args: Arguments, action: str) -> None:
    member = str(args["@membername"])
    if find_principal(context.database, member) is None:
        raise messages.error(15410, member)
    with context.store.ddl(()):
        _principals(context).alter_role(str(args["@rolename"]), action, member)


@procedure("sp_addrolemember", *_ROLE)
def _add_role_member(context: SessionContext, args: Arguments) -> Iterator[Event]:
    _change_members(context, args, "ADD")
    yield from ()


@procedure("sp_droprolemember", *_ROLE)
def _drop_role_member(context: SessionContext, args: Arguments) -> Iterator[Event]:
    _change_members(context, args, "DROP")
    yield from ()


@procedure("sp_addrole", _P("@rolename", SYSNAME), _P("@ownername", SYSNAME, None))
def _add_role(context: SessionContext, args: Arguments) -> Iterator[Event]:
    with context.store.ddl(()):
        _principals(context).create_role(str(args["@rolename"]), text(args["@ownername"]))
    yield from ()


@procedure("sp_droprole", _P("@rolename", SYSNAME))
def _drop_role(context: SessionContext, args: Arguments) -> Iterator[Event]:
    with context.store.ddl(()):
        _principals(context).drop_role(str(args["@rolename"]))
    yield from ()


@procedure("sp_dropuser", _P("@name_in_db", SYSNAME))
def _drop_user(context: SessionContext, args: Arguments) -> Iterator[Event]:
    with context.store.ddl(()):
        _principals(context).drop_user(str(args["@name_in_db"]))
    yield from ()


@procedure("sp_addsrvrolemember", _P("@loginame", SYSNAME), _P("@rolename", SYSNAME))
def _add_server_role_member(context: SessionContext, args: Arguments) -> Iterator[Event]:
    _change_server_members(context, args, "ADD")
    yield from ()


@procedure("sp_dropsrvrolemember", _P("@loginame", SYSNAME), _P("@rolename", SYSNAME, None))
def _drop_server_role_member(context: SessionContext, args: Arguments) -> Iterator[Event]:
    _change_server_members(context, args, "DROP")
    yield from ()


def _change_server_members(context: SessionContext, args: Arguments, action: str) -> None:
    with context.store.ddl(()):
        _server(context).alter_role(str(args["@rolename"] or ""), action, str(args["@loginame"]))


@procedure("sp_addlogin", _P("@loginame", SYSNAME), _P("@passwd", SYSNAME, None),
           _P("@defdb", SYSNAME, "master"))  # fmt: skip
def _add_login(context: SessionContext, args: Arguments) -> Iterator[Event]:
    options = {
        "PASSWORD": text(args["@passwd"]) or "",
        "DEFAULT_DATABASE": text(args["@defdb"]) or "master",
        "CHECK_POLICY": "OFF",
    }
    with context.store.ddl(()):
        _server(context).create_login(str(args["@loginame"]), options)
    yield from ()


@procedure("sp_droplogin", _P("@loginame", SYSNAME))
def _drop_login(context: SessionContext, args: Arguments) -> Iterator[Event]:
    with context.store.ddl(()):
        _server(context).drop_login(str(args["@loginame"]))
    yield from ()


@procedure("sp_helpuser", _P("@name_in_db", SYSNAME, None))
def _helpuser(context: SessionContext, args: Arguments) -> Iterator[Event]:
    wanted = text(args["@name_in_db"])
    yield from result_set(
        """UserName sysname, RoleName sysname, LoginName sysname, DefDBName sysname,
 DefSchemaName sysname, UserID int, SID varbinary(85)""",
        (
            row
            for row in user_rows(context, context.database)
            if wanted is None or str(row[0]).casefold() == wanted.casefold()
        ),
    )


@procedure("sp_helprolemember", _P("@rolename", SYSNAME, None))
def _helprolemember(context: SessionContext, args: Arguments) -> Iterator[Event]:
    wanted = text(args["@rolename"])
    rows = [
        (role.name, member)
        for role in context.database.principals.values()
        if role.type == "R" and (wanted is None or role.name.casefold() == wanted.casefold())
        for member in role.members
    ]
    yield from result_set("DbRole sysname, MemberName sysname", rows)


@procedure("sp_helpsrvrolemember", _P("@srvrolename", SYSNAME, None))
def _helpsrvrolemember(context: SessionContext, args: Arguments) -> Iterator[Event]:
    wanted = text(args["@srvrolename"])
    server = _server(context)
    rows = [
        (role, member)
        for role, number in SERVER_ROLES.items()
        if wanted is None or role.casefold() == wanted.casefold()
        for member in server.role_member_names(number)
    ]
    yield from result_set("ServerRole sysname, MemberName sysname", rows)
