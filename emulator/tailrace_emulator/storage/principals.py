"""Logins, users, roles and permissions as the catalog keeps them, and the DDL that changes them.

Users, roles, owners and database permissions belong to each database; logins, the members of the
server roles and server permissions are entries of master. What a permission means is decided in
tailrace_emulator.security.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from tailrace_emulator.storage.catalog_store import delete_entry, put_entry
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope
from tailrace_emulator.storage.principal_model import (
    Login,
    PermissionEntry,
    PermissionKey,
    Principal,
)

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database


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
