"""GRANT, DENY and REVOKE: what they check and what they record.

https://learn.microsoft.com/sql/t-sql/statements/grant-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.security.access import Securable, permits
from tailrace_emulator.security.database_principals import is_fixed
from tailrace_emulator.security.permissions import (
    ALL_OF_OBJECT,
    COLUMN_PERMISSIONS,
    DATABASE,
    DATABASE_PRINCIPAL,
    KINDS,
    OBJECT,
    SERVER,
    SERVER_PRINCIPAL,
)
from tailrace_emulator.security.tokens import (
    SA_ID,
    find_login,
    find_principal,
    server_permits,
)
from tailrace_emulator.storage.principal_model import (
    DBO_ID,
    PUBLIC_ID,
    PermissionEntry,
    PermissionKey,
)
from tailrace_emulator.storage.principals import set_permission

if TYPE_CHECKING:
    from tailrace_emulator.security.context import SecurityContext
    from tailrace_emulator.storage.ddl_scope import DdlTarget
    from tailrace_emulator.storage.engine import Database

_PROTECTED: Final = frozenset({"sa", "dbo", "sys", "information_schema"})
_ALL_OF_DATABASE: Final = (
    "BACKUP DATABASE", "BACKUP LOG", "CREATE DEFAULT", "CREATE FUNCTION", "CREATE PROCEDURE",
    "CREATE RULE", "CREATE TABLE", "CREATE VIEW",
)  # fmt: skip
_FOR_TABLES: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES"})

PROTECTED_PRINCIPAL: Final = 4624
ALL_DEPRECATED: Final = 4628


@dataclass(frozen=True, slots=True)
class Grant:
    """One GRANT, DENY or REVOKE whose securable has been found.

    Attributes:
        action: GRANT, DENY or REVOKE.
        permissions: pairs of name and columns.
        securable: on what; class SERVER for permissions of the server.
        columns: column ids of an object by casefolded name.
        kind: of an object: ``table`` (what rows are read from), ``procedure`` or ``function``.
        principals: names of the grantees.
        grant_option: WITH GRANT OPTION, or GRANT OPTION FOR.
        cascade: whether CASCADE is given.
    """

    action: str
    permissions: tuple[tuple[str, tuple[str, ...]], ...]
    securable: Securable
    columns: dict[str, int]
    kind: str
    principals: tuple[str, ...]
    grant_option: bool = False
    cascade: bool = False


def run_grant(security: SecurityContext, target: DdlTarget, grant: Grant) -> list[tuple[int, str]]:
    """Record it, wholly or not at all.

    Returns:
        Informational messages: number and text.

    Raises:
        SqlError: 15151, 102, 4606, 4611, 4613, 4615, 4617, 1020.
    """
    notices: list[tuple[int, str]] = []
    permissions = _expanded(grant, notices)
    for name, columns in permissions:
        _check_kind(grant, name, columns)
    grantees = []
    for name in grant.principals:
        number = _grantee(security, grant, name)
        if number is None:
            return [*notices, (PROTECTED_PRINCIPAL, messages.text(PROTECTED_PRINCIPAL))]
        grantees.append(number)
    _check_grantor(security, grant, [name for name, _ in permissions])
    database = grant.securable.database
    grantor = security.user(database).principal.principal_id
    if grant.securable.securable_class >= SERVER:
        login = security.login
        grantor = login.principal_id if login is not None else SA_ID
    keys = [
        (key, name, columns)
        for grantee in grantees
        for name, columns in permissions
        for key in _keys(grant, grantee, name, columns)
    ]
    state = database.state.permissions
    for key, _, _ in keys:
        known = state.get(key)
        takes_option = grant.action != "GRANT" and not grant.cascade
        if known is not None and known.state == "W" and takes_option:
            raise messages.error(4611)
    if grant.cascade:
        keys += [
            (key, key.permission, ("",)) for key in _given_on(database, [k for k, _, _ in keys])
        ]
    for key, name, columns in keys:
        if not columns and grant.securable.securable_class == OBJECT:
            _forget_columns(target, database, key, name)
        set_permission(target, database, key, _entry(grant, state.get(key), grantor))
    return notices


def _entry(grant: Grant, known: PermissionEntry | None, grantor: int) -> PermissionEntry | None:
    """What is recorded in the place of what is known."""
    if grant.action == "DENY":
        return PermissionEntry("D", grantor)
    if grant.action == "GRANT":
        keeps = known is not None and known.state == "W"
        return PermissionEntry("W" if grant.grant_option or keeps else "G", grantor)
    if grant.grant_option and known is not None:
        return PermissionEntry("G" if known.state == "W" else known.state, known.grantor)
    return None


def _expanded(grant: Grant, notices: list[tuple[int, str]]) -> list[tuple[str, tuple[str, ...]]]:
    """The permissions, ALL resolved."""
    if not any(name == "ALL" for name, _ in grant.permissions):
        return list(grant.permissions)
    if grant.securable.securable_class == DATABASE:
        names: tuple[str, ...] = _ALL_OF_DATABASE
    elif grant.securable.securable_class == OBJECT:
        names = ALL_OF_OBJECT.get(grant.kind, ("EXECUTE", "REFERENCES"))
    else:
        raise messages.error(4623)
    notices.append((ALL_DEPRECATED, messages.text(ALL_DEPRECATED)))
    return [(name, columns) for _, columns in grant.permissions for name in names]


def _check_kind(grant: Grant, name: str, columns: Sequence[str]) -> None:
    """Whether the securable has such a permission."""
    securable_class = grant.securable.securable_class
    if name not in KINDS[securable_class]:
        raise messages.error(102, name, aborts=Aborts.BATCH)
    if securable_class == OBJECT:
        executable = grant.kind in {"procedure", "function"}
        wrong = (name == "EXECUTE" and not executable) or (
            name in _FOR_TABLES - {"REFERENCES"} and grant.kind != "table"
        )
        if wrong:
            raise messages.error(4606, name)
    if columns and (securable_class != OBJECT or name not in COLUMN_PERMISSIONS):
        raise messages.error(1020)
    for column in columns:
        if column.casefold() not in grant.columns:
            raise messages.error(4615, column)


def _grantee(security: SecurityContext, grant: Grant, name: str) -> int | None:
    """The principal id of a grantee; None for one to whom nothing can be granted."""
    database = grant.securable.database
    if grant.securable.securable_class >= SERVER:
        if name.casefold() == "public":
            return 2
        login = find_login(database.engine, name)
        if login is None:
            raise messages.cannot_find("login", name)
        own = security.login
        is_own = own is not None and own.principal_id == login.principal_id
        return None if login.principal_id == SA_ID or is_own else login.principal_id
    if name.casefold() in _PROTECTED:
        return None
    principal = find_principal(database, name)
    if principal is None:
        raise messages.cannot_find("user", name)
    if is_fixed(principal) and principal.principal_id != PUBLIC_ID:
        raise messages.error(4617)
    own_user = security.user(database).principal
    if principal.principal_id in {own_user.principal_id, grant.securable.owner}:
        return None
    return principal.principal_id


def _check_grantor(security: SecurityContext, grant: Grant, names: list[str]) -> None:
    """Whether the session may give these permissions: CONTROL, or each with the grant option."""
    securable = grant.securable
    engine = securable.database.engine
    if securable.securable_class >= SERVER:
        server = security.server
        if server is None or not (
            security.is_sysadmin or server_permits(engine, server, "CONTROL SERVER")
        ):
            raise messages.error(4613)
        return
    token = security.user(securable.database)
    if permits(token, securable, "CONTROL") or "db_securityadmin" in token.roles:
        return
    if securable.securable_class == DATABASE and "db_accessadmin" in token.roles:
        names = [name for name in names if name != "CONNECT"]
    entries = securable.database.state.permissions
    for name in names:
        held = [
            entries.get(
                PermissionKey(securable.securable_class, securable.major_id, 0, principal, name)
            )
            for principal in token.principals
        ]
        if grant.action == "DENY" or not any(e is not None and e.state == "W" for e in held):
            raise _no_grantor(securable)


def _no_grantor(securable: Securable) -> SqlError:
    if securable.securable_class == DATABASE:
        return messages.error(4613)
    kinds = {OBJECT: "object", DATABASE_PRINCIPAL: "user", SERVER_PRINCIPAL: "login"}
    return messages.cannot_find(kinds.get(securable.securable_class, "schema"), securable.name)


def _keys(grant: Grant, grantee: int, name: str, columns: Sequence[str]) -> list[PermissionKey]:
    securable = grant.securable
    minors = [grant.columns[column.casefold()] for column in columns] or [0]
    return [
        PermissionKey(securable.securable_class, securable.major_id, minor, grantee, name)
        for minor in minors
    ]


def _given_on(database: Database, keys: Sequence[PermissionKey]) -> list[PermissionKey]:
    """What the grantees of some permissions gave on, and those in their turn."""
    found: list[PermissionKey] = []
    pending = list(keys)
    while pending:
        held = pending.pop()
        for key, entry in database.state.permissions.items():
            same = (*key[:3], key.permission) == (*held[:3], held.permission)
            if same and entry.grantor == held.grantee and key not in found and key not in keys:
                found.append(key)
                pending.append(key)
    return found


def _forget_columns(target: DdlTarget, database: Database, key: PermissionKey, name: str) -> None:
    """A permission on the whole takes the place of those on its columns."""
    stale = [
        known
        for known in database.state.permissions
        if known.securable_class == OBJECT
        and known.major_id == key.major_id
        and known.minor_id
        and known.grantee == key.grantee
        and known.permission == name
    ]
    for known in stale:
        set_permission(target, database, known, None)


__all__ = ["DBO_ID", "Grant", "run_grant"]
