"""CREATE, ALTER and DROP of users and roles, and who is in a role.

https://learn.microsoft.com/sql/t-sql/statements/create-user-transact-sql
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.security.access import Securable
from tailrace_emulator.security.permissions import DATABASE, DATABASE_PRINCIPAL
from tailrace_emulator.security.server_principals import special_principal
from tailrace_emulator.security.tokens import (
    SA_ID,
    find_login,
    find_principal,
    logins,
    roles_of,
    schema_owner,
)
from tailrace_emulator.storage.principal_model import (
    DBO_ID,
    FIRST_FIXED_ROLE_ID,
    PUBLIC_ID,
    Login,
    PermissionEntry,
    PermissionKey,
    Principal,
)
from tailrace_emulator.storage.principals import drop_principal, put_principal, set_permission

if TYPE_CHECKING:
    from tailrace_emulator.security.context import SecurityContext
    from tailrace_emulator.storage.ddl_scope import DdlTarget
    from tailrace_emulator.storage.engine import Database

_LAST_FIXED_USER_ID: Final = 4
"""dbo, guest, INFORMATION_SCHEMA and sys."""
NO_LOGIN_SID_PREFIX: Final = "010500000000000903000000"
"""S-1-9-3-...: the sids of users without a login."""


class DatabasePrincipals:
    """Users and roles of one database, as one session changes them."""

    def __init__(self, database: Database, security: SecurityContext, target: DdlTarget) -> None:
        """Act for a session: with its rights, in its transaction."""
        self._database = database
        self._security = security
        self._target = target

    def _has(self, permission: str) -> bool:
        return self._security.has(Securable(self._database), permission)

    # Users --------------------------------------------------------------------------------------

    def create_user(
        self, name: str, login: str | None, options: dict[str, str], *, without_login: bool
    ) -> None:
        """CREATE USER.

        Raises:
            SqlError: 15247, 15023, 15007, 15063, 15405, 33233; 50900 for other options.
        """
        if "PASSWORD" in options:
            raise messages.error(33233)
        if options.keys() - {"DEFAULT_SCHEMA"}:
            raise not_supported(f"CREATE USER ... WITH {min(options.keys() - {'DEFAULT_SCHEMA'})}")
        if not self._has("ALTER ANY USER"):
            raise messages.not_allowed()
        if find_principal(self._database, name) is not None:
            raise messages.user_exists(name)
        sid = NO_LOGIN_SID_PREFIX + os.urandom(16).hex()
        if not without_login:
            sid = self._login_for_user(login or name).sid
        now = self._database.engine.clock.now_ticks()
        principal = Principal(
            self.next_id(),
            name,
            "S",
            sid=sid,
            has_login=not without_login,
            default_schema=options.get("DEFAULT_SCHEMA", ""),
            create_ticks=now,
            modify_ticks=now,
        )
        put_principal(self._target, self._database, principal)
        connect = PermissionKey(DATABASE, 0, 0, principal.principal_id, "CONNECT")
        set_permission(self._target, self._database, connect, PermissionEntry("G", DBO_ID))

    def next_id(self) -> int:
        """The principal id of a new user or role."""
        taken = [p.principal_id for p in self._database.principals.values()]
        return max(i for i in taken if i < FIRST_FIXED_ROLE_ID) + 1

    def _login_for_user(self, name: str) -> Login:
        login = find_login(self._database.engine, name)
        if login is None:
            raise messages.invalid_login(name)
        if login.principal_id == SA_ID:
            raise special_principal(login.name)
        if any(p.has_login and p.sid == login.sid for p in self._database.principals.values()):
            raise messages.error(15063)
        return login

    def alter_user(self, name: str, options: dict[str, str]) -> None:
        """ALTER USER .. WITH NAME, DEFAULT_SCHEMA, LOGIN.

        Raises:
            SqlError: 15151 for an unknown user, 15023 for a name in use, 15007 for an unknown
                login.
        """
        principal = find_principal(self._database, name)
        if principal is None or principal.type != "S" or not self._has("ALTER ANY USER"):
            raise messages.cannot("alter", "user", name)
        unknown = options.keys() - {"NAME", "DEFAULT_SCHEMA", "LOGIN"}
        if unknown:
            raise not_supported(f"ALTER USER ... WITH {min(unknown)}")
        now = self._database.engine.clock.now_ticks()
        changed = replace(principal, modify_ticks=now)
        if "DEFAULT_SCHEMA" in options:
            changed = replace(changed, default_schema=options["DEFAULT_SCHEMA"])
        if "LOGIN" in options:
            login = self._login_for_user(options["LOGIN"])
            changed = replace(changed, sid=login.sid, has_login=True)
        self._replace(principal, replace(changed, name=options.get("NAME", principal.name)))

    def alter_role_name(self, name: str, options: dict[str, str]) -> None:
        """ALTER ROLE .. WITH NAME.

        Raises:
            SqlError: 15151, 15150 for a fixed role, 15023.
        """
        role = self._role(name)
        if role is None or not self._may_alter_role(role):
            raise messages.cannot("alter", "role", name)
        if options.keys() != {"NAME"}:
            raise not_supported(f"ALTER ROLE ... WITH {', '.join(sorted(options))}")
        if is_fixed(role):
            raise messages.error(15150, "alter", "role", role.name)
        self._replace(role, replace(role, name=options["NAME"]))

    def _replace(self, old: Principal, new: Principal) -> None:
        """Put a changed user or role in the place of the old one, under a new name perhaps."""
        if new.name == old.name:
            put_principal(self._target, self._database, new)
            return
        known = find_principal(self._database, new.name)
        if known is not None and known.principal_id != old.principal_id:
            raise messages.user_exists(new.name)
        permissions = dict(self._database.state.permissions)
        roles = [r for r in self._database.principals.values() if old.name in r.members]
        drop_principal(self._target, self._database, old)
        put_principal(self._target, self._database, new)
        for role in roles:
            members = tuple(new.name if m == old.name else m for m in role.members)
            put_principal(self._target, self._database, replace(role, members=members))
        for key in permissions.keys() - self._database.state.permissions.keys():
            set_permission(self._target, self._database, key, permissions[key])

    def drop_user(self, name: str) -> None:
        """DROP USER.

        Raises:
            SqlError: 15151, 15150 for dbo and its like, 15138 for the owner of a schema.
        """
        principal = find_principal(self._database, name)
        if principal is None or principal.type != "S" or not self._has("ALTER ANY USER"):
            raise messages.cannot("drop", "user", name)
        if principal.principal_id <= _LAST_FIXED_USER_ID:
            raise messages.error(15150, "drop", "user", principal.name)
        self._refuse_owner(principal)
        drop_principal(self._target, self._database, principal)

    def _refuse_owner(self, principal: Principal) -> None:
        owns = [
            schema
            for schema in self._database.schemas
            if schema_owner(self._database, schema) == principal.principal_id
        ]
        if owns:
            raise messages.error(15138, "schema")
        objects = [k for k in self._database.state.owners.items() if k[0].startswith("object:")]
        if any(owner == principal.principal_id for _, owner in objects):
            raise messages.error(15183)

    # Roles --------------------------------------------------------------------------------------

    def create_role(self, name: str, owner: str | None) -> None:
        """CREATE ROLE.

        Raises:
            SqlError: 15247, 15023, 15151 for an owner that is not there.
        """
        if not self._has("CREATE ROLE"):
            raise messages.not_allowed()
        if find_principal(self._database, name) is not None:
            raise messages.user_exists(name)
        owner_id = self._security.user(self._database).principal.principal_id
        if owner is not None:
            known = find_principal(self._database, owner)
            if known is None:
                raise messages.cannot_find("principal", owner)
            owner_id = known.principal_id
        now = self._database.engine.clock.now_ticks()
        role = Principal(
            self.next_id(), name, "R", owner=owner_id, create_ticks=now, modify_ticks=now
        )
        put_principal(self._target, self._database, role)

    def drop_role(self, name: str) -> None:
        """DROP ROLE.

        Raises:
            SqlError: 15151, 15150 for a fixed role, 15144 while it has members.
        """
        role = self._role(name)
        if role is None or not self._may_alter_role(role):
            raise messages.cannot("drop", "role", name)
        if is_fixed(role):
            raise messages.error(15150, "drop", "role", role.name)
        if role.members:
            raise messages.error(15144)
        self._refuse_owner(role)
        drop_principal(self._target, self._database, role)

    def _role(self, name: str) -> Principal | None:
        found = find_principal(self._database, name)
        return found if found is not None and found.type == "R" else None

    def _may_alter_role(self, role: Principal) -> bool:
        token = self._security.user(self._database)
        if token.is_dbo or "db_owner" in token.roles or role.owner in token.principals:
            return True
        if is_fixed(role):
            return False
        securable = Securable(self._database, DATABASE_PRINCIPAL, role.principal_id)
        return self._has("ALTER ANY ROLE") or self._security.has(securable, "CONTROL")

    def alter_role(self, name: str, action: str, member: str) -> None:
        """ALTER ROLE .. ADD|DROP MEMBER.

        Raises:
            SqlError: 15151, 15081, 15405, 15413.
        """
        role = self._role(name)
        if role is None or not self._may_alter_role(role):
            raise messages.cannot("alter", "role", name)
        if role.principal_id == PUBLIC_ID:
            raise messages.error(15081)
        principal = find_principal(self._database, member)
        if principal is None:
            raise messages.cannot("add" if action == "ADD" else "drop", "principal", member)
        if principal.principal_id <= _LAST_FIXED_USER_ID and principal.name != "guest":
            raise special_principal(principal.name)
        others = tuple(m for m in role.members if m.casefold() != principal.name.casefold())
        if action == "ADD":
            above = roles_of(self._database, [role.name])
            if principal.name == role.name or principal.name in above:
                raise messages.error(15413)
            others = (*others, principal.name)
        put_principal(self._target, self._database, replace(role, members=others))


def is_fixed(role: Principal) -> bool:
    """Whether a role is there in every database: public and db_owner to db_denydatawriter."""
    return role.type == "R" and (
        role.principal_id == PUBLIC_ID or role.principal_id >= FIRST_FIXED_ROLE_ID
    )


def login_of_user(database: Database, principal: Principal) -> Login | None:
    """The login of a user, or None."""
    if not principal.has_login:
        return None
    return next((k for k in logins(database.engine) if k.sid == principal.sid), None)
