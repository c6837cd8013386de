"""Logins, users, roles and permissions as the catalog keeps them, and the DDL that changes them.

Users, roles, owners and database permissions belong to each database; logins, the members of the
server roles and server permissions are entries of master. What a permission means is decided in
emulator.security.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from emulator.storage.catalog_store import delete_entry, put_entry
from emulator.storage.ddl_scope import DdlTarget, ddl_scope

if TYPE_CHECKING:
    from emulator.storage.database import CatalogState, Database

DBO_ID: Final = 1
GUEST_ID: Final = 2
PUBLIC_ID: Final = 0
FIRST_FIXED_ROLE_ID: Final = 16_384
LAST_FIXED_ROLE_ID: Final = 16_399
FIRST_LOGIN_ID: Final = 256
"""Logins that somebody creates are numbered from here, as in SQL Server."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or role of a database.

    Attributes:
        principal_id: sys.database_principals.principal_id.
        name: as created.
        type: S (SQL user) or R (database role).
        members: of a role: names of users and roles.
        sid: hexadecimal; a user belongs to the login of the same sid.
        has_login: whether it was made for a login.
        default_schema: of a user; empty means dbo.
        owner: principal id of a role's owner.
        create_ticks: when it was made; 0 with its database.
        modify_ticks: when it was last altered.
    """

    principal_id: int
    name: str
    type: str
    members: tuple[str, ...] = ()
    sid: str = ""
    has_login: bool = False
    default_schema: str = ""
    owner: int = DBO_ID
    create_ticks: int = 0
    modify_ticks: int = 0


@dataclass(frozen=True, slots=True)
class Login:
    """A login of the server.

    Attributes:
        principal_id: sys.server_principals.principal_id.
        name: as created.
        sid: hexadecimal, 16 bytes.
        password: its hash (emulator.security.passwords); empty for the login whose password the
            server was started with.
        default_database: where a connection without a database goes.
        default_language: as given.
        is_disabled: it may not log in.
        must_change: its password must be changed before its first use.
        check_policy: CHECK_POLICY.
        check_expiration: CHECK_EXPIRATION.
        create_ticks: when it was made.
        modify_ticks: when it was last altered.
    """

    principal_id: int
    name: str
    sid: str
    password: str = ""
    default_database: str = "master"
    default_language: str = "us_english"
    is_disabled: bool = False
    must_change: bool = False
    check_policy: bool = True
    check_expiration: bool = False
    create_ticks: int = 0
    modify_ticks: int = 0


class PermissionKey(NamedTuple):
    """What a permission entry is about.

    Attributes:
        securable_class: 0 database, 1 object or column, 3 schema, 4 database principal, 100 server,
            101 server principal, as in sys.database_permissions.
        major_id: object id, schema id or principal id; 0 for database and server.
        minor_id: column id; 0 for the whole.
        grantee: principal id, of the server for classes 100 and 101.
        permission: SELECT, VIEW DEFINITION...
    """

    securable_class: int
    major_id: int
    minor_id: int
    grantee: int
    permission: str

    @property
    def text(self) -> str:
        """As a catalog key."""
        return ":".join(str(part) for part in self)


class PermissionEntry(NamedTuple):
    """Attributes: state G (grant), W (grant with grant option) or D (deny); grantor's id."""

    state: str
    grantor: int


def put_principal(target: DdlTarget, database: Database, principal: Principal) -> None:
    """Create or replace a user or role."""
    with ddl_scope(target, database) as connection:
        text = json.dumps(asdict(principal))
        put_entry(connection, database.database_id, "principal", principal.name, text)
        database.engine.write_path.will_change_catalog()
        database.state.principals[principal.name] = principal
        database.version += 1


def drop_principal(target: DdlTarget, database: Database, principal: Principal) -> None:
    """Remove a user or role, its memberships, and every permission given to it or on it."""
    with ddl_scope(target, database) as connection:
        delete_entry(connection, database.database_id, "principal", principal.name)
        database.engine.write_path.will_change_catalog()
        state = database.state
        state.principals.pop(principal.name, None)
        for role in list(state.principals.values()):
            if principal.name in role.members:
                kept = tuple(name for name in role.members if name != principal.name)
                values = {**asdict(role), "members": kept}
                put_principal(connection, database, Principal(**values))
        for key in [
            key
            for key in state.permissions
            if (key.grantee == principal.principal_id and key.securable_class < 100)
            or (key.securable_class == 4 and key.major_id == principal.principal_id)
        ]:
            set_permission(connection, database, key, None)
        database.version += 1


def put_login(target: DdlTarget, master: Database, login: Login) -> None:
    """Create or replace a login."""
    with ddl_scope(target, master) as connection:
        put_entry(connection, master.database_id, "login", login.name, json.dumps(asdict(login)))
        master.engine.write_path.will_change_catalog()
        master.state.logins[login.name] = login
        master.version += 1


def drop_login(target: DdlTarget, master: Database, login: Login) -> None:
    """Remove a login, its server roles and its server permissions."""
    with ddl_scope(target, master) as connection:
        delete_entry(connection, master.database_id, "login", login.name)
        master.engine.write_path.will_change_catalog()
        state = master.state
        state.logins.pop(login.name, None)
        for role, members in list(state.server_roles.items()):
            if login.principal_id in members:
                kept = tuple(m for m in members if m != login.principal_id)
                set_server_role_members(connection, master, role, kept)
        for key in [
            key
            for key in state.permissions
            if (key.grantee == login.principal_id and key.securable_class >= 100)
            or (key.securable_class == 101 and key.major_id == login.principal_id)
        ]:
            set_permission(connection, master, key, None)
        master.version += 1


def set_server_role_members(
    target: DdlTarget, master: Database, role: int, members: tuple[int, ...]
) -> None:
    """Replace the members of a fixed server role."""
    with ddl_scope(target, master) as connection:
        put_entry(connection, master.database_id, "server_role", str(role), json.dumps(members))
        master.engine.write_path.will_change_catalog()
        master.state.server_roles[role] = members
        master.version += 1


def set_permission(
    target: DdlTarget, database: Database, key: PermissionKey, entry: PermissionEntry | None
) -> None:
    """Record a permission, or forget it (None)."""
    with ddl_scope(target, database) as connection:
        if entry is None:
            delete_entry(connection, database.database_id, "permission", key.text)
        else:
            put_entry(connection, database.database_id, "permission", key.text, json.dumps(entry))
        database.engine.write_path.will_change_catalog()
        if entry is None:
            database.state.permissions.pop(key, None)
        else:
            database.state.permissions[key] = entry
        database.version += 1


def set_owner(target: DdlTarget, database: Database, what: str, owner: int | None) -> None:
    """Record who owns something, or that it has its ordinary owner (None).

    Args:
        target: see storage.ddl.
        database: where.
        what: ``schema:<id>``, ``object:<id>`` or ``database``.
        owner: principal id; of a login for the database.
    """
    with ddl_scope(target, database) as connection:
        if owner is None:
            delete_entry(connection, database.database_id, "owner", what)
        else:
            put_entry(connection, database.database_id, "owner", what, json.dumps(owner))
        database.engine.write_path.will_change_catalog()
        if owner is None:
            database.state.owners.pop(what, None)
        else:
            database.state.owners[what] = owner
        database.version += 1


def load_security_entry(state: CatalogState, kind: str, key: str, value: Any) -> bool:
    """Put one stored entry into the state; False for a kind that is not kept here."""
    if kind == "principal":
        # Older data directories keep a list of the first four fields.
        fields = value if isinstance(value, dict) else dict(zip(_FIRST_FIELDS, value, strict=True))
        state.principals[key] = Principal(**{**fields, "members": tuple(fields["members"])})
    elif kind == "login":
        state.logins[key] = Login(**value)
    elif kind == "server_role":
        state.server_roles[int(key)] = tuple(value)
    elif kind == "permission":
        parts = key.split(":", 4)
        securable_class, major_id, minor_id, grantee = (int(part) for part in parts[:4])
        known = PermissionKey(securable_class, major_id, minor_id, grantee, parts[4])
        state.permissions[known] = PermissionEntry(*value)
    elif kind == "owner":
        state.owners[key] = value
    else:
        return False
    return True


_FIRST_FIELDS: Final = ("principal_id", "name", "type", "members")
