"""The permission check: who may do what with a securable.

A permission is held when it, or what implies it, is granted to the user or one of its roles.
Neither may be denied to any of them. What implies it is found upwards: CONTROL of the same
securable, the schema, the database, the server. The owner of a securable has all of it. A grant on
a column stands above a denial on its table.

https://learn.microsoft.com/sql/relational-databases/security/permissions-database-engine#algorithm
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace_emulator.security.permissions import (
    CLASS_ABOVE,
    DATABASE,
    DATABASE_PRINCIPAL,
    KINDS,
    OBJECT,
    ROLE_DENIALS,
    ROLE_GRANTS,
    SCHEMA,
    SERVER,
)
from tailrace_emulator.security.tokens import (
    ServerToken,
    UserToken,
    object_owner,
    schema_owner,
    server_denies,
    server_permits,
)
from tailrace_emulator.storage.principal_model import PermissionKey

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.database import Database, StorageEngine
    from tailrace_emulator.storage.model import Sequence, Table


@dataclass(frozen=True, slots=True)
class Securable:
    """Something in a database that permissions are given on.

    Attributes:
        securable_class: one of the numbers of :mod:`tailrace_emulator.security.permissions`.
        major_id: object, schema or principal id.
        minor_id: column id, 0 for the whole.
    """

    database: Database
    securable_class: int = DATABASE
    major_id: int = 0
    minor_id: int = 0
    schema: str = ""
    name: str = ""

    def column(self, column_id: int) -> Securable:
        """A column of it."""
        return replace(self, minor_id=column_id)

    @property
    def owner(self) -> int:
        """Principal id of its owner; -1 where nobody but dbo owns it."""
        if self.securable_class == OBJECT:
            return object_owner(self.database, self.major_id, self.schema)
        if self.securable_class == SCHEMA:
            return schema_owner(self.database, self.name)
        return -1


def of_object(database: Database, item: Table | Module | Sequence) -> Securable:
    """A table, module or sequence as a securable."""
    return Securable(database, OBJECT, item.object_id, 0, item.schema, item.name)


def of_schema(database: Database, name: str) -> Securable:
    """A schema as a securable, case-insensitively; id 0 when there is none."""
    known = database.schema_name(name)
    number = database.schemas[known] if known is not None else 0
    return Securable(database, SCHEMA, number, 0, "", known or name)


def permits(token: UserToken, securable: Securable, permission: str) -> bool:
    """Whether a user has a permission on a securable."""
    if token.is_dbo or (
        securable.name.startswith("##") and securable.database.name.casefold() == "tempdb"
    ):
        return True
    for level in _upwards(securable):
        if level.securable_class != DATABASE and level.owner in token.principals:
            return True
    granted = False
    column_granted = False
    for level, name in _covering(securable, permission):
        state = _state(token, level, name)
        if state == "D" and not (column_granted and level.securable_class == OBJECT):
            return False
        if state == "G":
            granted = True
            column_granted = column_granted or level.minor_id > 0
    server = token.server
    if server is not None:
        engine = securable.database.engine
        for name in _server_covering(securable.securable_class, permission):
            if server_denies(engine, server, name):
                return False
            granted = granted or server_permits(engine, server, name)
    return granted


def server_has(engine: StorageEngine, token: ServerToken | None, permission: str) -> bool:
    """Whether a login has a permission on the server, or one that implies it."""
    if token is None:
        return False
    if token.is_sysadmin:
        return True
    names = list(_in_class(SERVER, permission))
    if any(server_denies(engine, token, name) for name in names):
        return False
    return any(server_permits(engine, token, name) for name in names)


def sees(token: UserToken, securable: Securable) -> bool:
    """Whether a user may know of a securable: it has any permission on it."""
    if token.is_dbo:
        return True
    for kind in KINDS[securable.securable_class]:
        # UNMASK alone discloses no metadata.
        if kind != "UNMASK" and permits(token, securable, kind):
            return True
    return securable.securable_class == OBJECT and _has_column(token, securable)


def columns_matter(token: UserToken, securable: Securable) -> bool:
    """Whether single columns of an object were granted or denied to a user."""
    if token.is_dbo:
        return False
    return any(
        key.minor_id and key.major_id == securable.major_id and key.grantee in token.principals
        for key in securable.database.state.permissions
        if key.securable_class == OBJECT
    )


def _has_column(token: UserToken, securable: Securable) -> bool:
    return any(
        key.minor_id
        and key.major_id == securable.major_id
        and key.grantee in token.principals
        and entry.state != "D"
        for key, entry in securable.database.state.permissions.items()
        if key.securable_class == OBJECT
    )


def _upwards(securable: Securable) -> Iterator[Securable]:
    """A securable and those that contain it, up to the database."""
    yield securable
    if securable.minor_id:
        yield replace(securable, minor_id=0)
    if securable.securable_class == OBJECT:
        yield of_schema(securable.database, securable.schema)
    if securable.securable_class != DATABASE:
        yield Securable(securable.database)


def _covering(securable: Securable, permission: str) -> Iterator[tuple[Securable, str]]:
    """Each permission in the database that implies one on a securable, the nearest first."""
    name = permission
    for level in _upwards(securable):
        names = list(_in_class(level.securable_class, name))
        for found in names:
            yield level, found
        if level.minor_id:
            continue
        if level.securable_class != DATABASE:
            kind = KINDS[level.securable_class].get(name)
            if kind is None:
                return
            name = kind.above


def _in_class(securable_class: int, permission: str) -> Iterator[str]:
    """A permission and those of the same class that imply it."""
    name = permission
    while name:
        yield name
        kind = KINDS[securable_class].get(name)
        name = kind.covered_by if kind is not None else ""


def _server_covering(securable_class: int, permission: str) -> list[str]:
    """Permissions of the server that imply one of a class below."""
    found: list[str] = []
    level, names = securable_class, {permission}
    while level != SERVER:
        wider = {n for name in names for n in _in_class(level, name)}
        names = {
            KINDS[level][n].above for n in wider if n in KINDS[level] and KINDS[level][n].above
        }
        level = CLASS_ABOVE[level]
    for name in names:
        found += [n for n in _in_class(SERVER, name) if n not in found]
    return found


def _state(token: UserToken, level: Securable, permission: str) -> str:
    """D when it is denied right there to any of a user's principals, G when granted, else empty."""
    entries = level.database.state.permissions
    found = ""
    for principal in token.principals:
        entry = entries.get(
            PermissionKey(
                level.securable_class, level.major_id, level.minor_id, principal, permission
            )
        )
        if entry is not None:
            if entry.state == "D":
                return "D"
            found = "G"
    if level.securable_class == DATABASE:
        if any(permission in ROLE_DENIALS.get(role, ()) for role in token.roles):
            return "D"
        if any(permission in ROLE_GRANTS.get(role, ()) for role in token.roles):
            found = "G"
    return found


__all__ = [
    "DATABASE",
    "DATABASE_PRINCIPAL",
    "OBJECT",
    "SCHEMA",
    "Securable",
    "columns_matter",
    "of_object",
    "of_schema",
    "permits",
    "sees",
    "server_has",
]
