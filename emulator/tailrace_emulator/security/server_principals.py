"""CREATE, ALTER and DROP LOGIN, and the members of the fixed server roles.

https://learn.microsoft.com/sql/t-sql/statements/create-login-transact-sql
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.security.passwords import (
    POLICY_LENGTH_MIN,
    hash_password,
    is_password,
    is_strong,
)
from tailrace_emulator.security.permissions import SERVER_ROLES
from tailrace_emulator.security.sessions import has_sessions
from tailrace_emulator.security.tokens import (
    SA_ID,
    SYSADMIN,
    database_owner,
    find_login,
    login_by_id,
    logins,
    server_token,
)
from tailrace_emulator.storage.principal_model import FIRST_LOGIN_ID, Login
from tailrace_emulator.storage.principals import drop_login, put_login, set_server_role_members

if TYPE_CHECKING:
    from tailrace_emulator.security.context import SecurityContext
    from tailrace_emulator.storage.ddl_scope import DdlTarget
    from tailrace_emulator.storage.engine import Engine

_CREATE_OPTIONS: Final = frozenset(
    {"PASSWORD", "MUST_CHANGE", "SID", "DEFAULT_DATABASE", "DEFAULT_LANGUAGE", "CHECK_POLICY",
     "CHECK_EXPIRATION"}
)  # fmt: skip
_ALTER_OPTIONS: Final = _CREATE_OPTIONS - {"SID"} | {
    "OLD_PASSWORD", "NAME", "UNLOCK", "ENABLE", "DISABLE",
}  # fmt: skip
_OWN_OPTIONS: Final = frozenset({"PASSWORD", "OLD_PASSWORD"})
"""What a login may change of itself."""


class ServerPrincipals:
    """Logins and server roles, as one session changes them."""

    def __init__(self, engine: Engine, security: SecurityContext, target: DdlTarget) -> None:
        """Act for a session: with its rights, in its transaction."""
        self._engine = engine
        self._security = security
        self._target = target
        self._master = engine.databases["master"]

    # Logins -------------------------------------------------------------------------------------

    def create_login(self, name: str, options: dict[str, str]) -> None:
        """CREATE LOGIN.

        Raises:
            SqlError: 15247, 15025, 15116, 15118, 15122, 15128, 15010; 50900 for other options.
        """
        _refuse_unknown("CREATE LOGIN", options, _CREATE_OPTIONS)
        if not self._security.has_on_server("ALTER ANY LOGIN"):
            raise messages.not_allowed()
        if find_login(self._engine, name) is not None or name.casefold() in SERVER_ROLES:
            raise messages.login_exists(name)
        if "PASSWORD" not in options:
            raise messages.error(102, name, aborts=Aborts.BATCH)
        now = self._engine.clock.now_ticks()
        sid = options["SID"][2:].lower() if "SID" in options else os.urandom(16).hex()
        login = Login(self._next_id(), name, sid, create_ticks=now, modify_ticks=now)
        put_login(self._target, self._master, self._with_options(login, options))

    def _next_id(self) -> int:
        return max([FIRST_LOGIN_ID, *(k.principal_id for k in logins(self._engine))]) + 1

    def alter_login(self, name: str, options: dict[str, str]) -> None:
        """ALTER LOGIN.

        Raises:
            SqlError: 15151 for a login that is not there or may not be altered, or a wrong old
                password, and what CREATE LOGIN raises.
        """
        _refuse_unknown("ALTER LOGIN", options, _ALTER_OPTIONS)
        login = find_login(self._engine, name)
        if login is None or not self._may_alter(login, options):
            raise messages.cannot("alter", "login", name)
        if login.principal_id == SA_ID and options.keys() - {"DEFAULT_DATABASE"}:
            raise not_supported(
                f"ALTER LOGIN {login.name} with anything but DEFAULT_DATABASE (its password is the"
                " one that the server was started with)"
            )
        changed = self._with_options(login, options)
        changed = replace(changed, modify_ticks=self._engine.clock.now_ticks())
        if "NAME" in options:
            new_name = options["NAME"]
            known = find_login(self._engine, new_name)
            if known is not None and known.principal_id != login.principal_id:
                raise messages.login_exists(new_name)
            self._rename(login, replace(changed, name=new_name))
            return
        put_login(self._target, self._master, changed)

    def _rename(self, login: Login, changed: Login) -> None:
        memberships = {
            role: members
            for role, members in self._master.state.server_roles.items()
            if login.principal_id in members
        }
        permissions = dict(self._master.state.permissions)
        if permissions.keys() and any(
            key.grantee == login.principal_id and key.securable_class >= 100 for key in permissions
        ):
            raise not_supported("renaming a login that has permissions on the server")
        drop_login(self._target, self._master, login)
        put_login(self._target, self._master, changed)
        for role, members in memberships.items():
            set_server_role_members(self._target, self._master, role, members)

    def _may_alter(self, login: Login, options: dict[str, str]) -> bool:
        own = self._security.login
        if own is not None and own.principal_id == login.principal_id:
            old = options.get("OLD_PASSWORD")
            if old is not None:
                return bool(login.password) and is_password(login.password, old)
        if self._security.is_sysadmin:
            return True
        if server_token(self._engine, login).is_sysadmin:
            return False
        return self._security.has_on_server("ALTER ANY LOGIN")

    def _with_options(self, login: Login, options: dict[str, str]) -> Login:
        """A login changed by the options of CREATE or ALTER LOGIN."""
        changed = replace(
            login,
            check_policy=_switch(options, "CHECK_POLICY", default=login.check_policy),
            check_expiration=_switch(options, "CHECK_EXPIRATION", default=login.check_expiration),
            default_language=options.get("DEFAULT_LANGUAGE", login.default_language),
        )
        if changed.check_expiration and not changed.check_policy:
            raise messages.error(15122)
        if "MUST_CHANGE" in options and not changed.check_expiration:
            raise messages.error(15128)
        database = options.get("DEFAULT_DATABASE")
        if database is not None:
            if database.casefold() not in self._engine.databases:
                raise messages.error(15010, database)
            changed = replace(changed, default_database=database)
        if "ENABLE" in options or "DISABLE" in options:
            changed = replace(changed, is_disabled="DISABLE" in options)
        password = options.get("PASSWORD")
        if password is not None:
            if changed.check_policy and len(password) < POLICY_LENGTH_MIN:
                raise messages.short_password()
            if changed.check_policy and not is_strong(changed.name, password):
                raise messages.weak_password()
            changed = replace(
                changed, password=hash_password(password), must_change="MUST_CHANGE" in options
            )
        return changed

    def drop_login(self, name: str) -> None:
        """DROP LOGIN.

        Raises:
            SqlError: 15151, 15174 for the owner of a database, 15434 while it is connected.
        """
        login = find_login(self._engine, name)
        if login is None or not self._may_alter(login, {}):
            raise messages.cannot("drop", "login", name)
        if login.principal_id == SA_ID:
            raise special_principal(login.name)
        owned = [
            d.name for d in self._engine.databases.values()
            if database_owner(d) == login.principal_id
        ]  # fmt: skip
        if owned:
            raise messages.error(15174, login.name)
        if has_sessions(self._engine, login.principal_id):
            raise messages.error(15434, login.name)
        drop_login(self._target, self._master, login)

    # Server roles -------------------------------------------------------------------------------

    def alter_role(self, role: str, action: str, member: str) -> None:
        """ALTER SERVER ROLE .. ADD|DROP MEMBER.

        Raises:
            SqlError: 15151 for an unknown role or login, 15405 for a special principal.
        """
        number = SERVER_ROLES.get(role.casefold())
        server = self._security.server
        allowed = server is not None and (server.is_sysadmin or number in server.principals)
        if number is None or not allowed:
            raise messages.cannot("alter", "server role", role)
        if role.casefold() == "public":
            raise messages.error(15081)
        login = find_login(self._engine, member)
        if login is None:
            verb = "add" if action == "ADD" else "drop"
            raise messages.cannot(verb, "server principal", member)
        if login.principal_id == SA_ID and number == SYSADMIN:
            raise special_principal(login.name)
        members = self._master.state.server_roles.get(number, ())
        kept = tuple(m for m in members if m != login.principal_id)
        if action == "ADD":
            kept = (*kept, login.principal_id)
        set_server_role_members(self._target, self._master, number, kept)

    def role_member_names(self, role: int) -> list[str]:
        """Names of the logins in a fixed server role."""
        ids = self._master.state.server_roles.get(role, ())
        if role == SYSADMIN:
            ids = (SA_ID, *ids)
        found = (login_by_id(self._engine, number) for number in ids)
        return [login.name for login in found if login is not None]


def special_principal(name: str) -> SqlError:
    """15405."""
    return messages.error(15405, name)


def _switch(options: dict[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name)
    return default if value is None else value.upper() == "ON"


def _refuse_unknown(statement: str, options: dict[str, str], known: frozenset[str]) -> None:
    for name in options:
        if name not in known:
            raise not_supported(f"{statement} ... WITH {name}")
