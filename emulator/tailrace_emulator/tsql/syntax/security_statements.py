"""Trees of the statements about logins, users, roles and permissions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_emulator.tsql.syntax.nodes import Expression, Name
from tailrace_emulator.tsql.syntax.statements import Statement


@dataclass(frozen=True, slots=True, eq=False)
class CreatePrincipal(Statement):
    """CREATE USER, ROLE or LOGIN.

    Attributes:
        kind: USER, ROLE or LOGIN.
        login: of a user: the login that FOR LOGIN names; None without the clause.
        without_login: of a user: WITHOUT LOGIN.
        owner: of a role: AUTHORIZATION.
        options: WITH, by upper-case name; flags such as MUST_CHANGE have the value ON.
    """

    kind: str
    name: str
    login: str | None = None
    without_login: bool = False
    owner: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class AlterPrincipal(Statement):
    """ALTER USER, ROLE or LOGIN with options; ENABLE and DISABLE are options of a login."""

    kind: str
    name: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class DropPrincipal(Statement):
    """DROP USER, ROLE or LOGIN."""

    kind: str
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True, eq=False)
class AlterRole(Statement):
    """ALTER [SERVER] ROLE role ADD|DROP MEMBER member."""

    role: str
    action: str
    member: str
    server: bool


@dataclass(frozen=True, slots=True, eq=False)
class AlterAuthorization(Statement):
    """ALTER AUTHORIZATION ON class::name TO owner; None is SCHEMA OWNER."""

    securable_class: str
    name: Name
    owner: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Permissions(Statement):
    """GRANT, DENY or REVOKE.

    Attributes:
        action: GRANT, DENY or REVOKE.
        permissions: (name, columns); no columns for the whole.
        securable_class: OBJECT, SCHEMA, DATABASE, USER, ROLE, LOGIN or SERVER; empty without ON.
        principals: to or from whom.
        grant_option: WITH GRANT OPTION, or GRANT OPTION FOR.
        cascade: whether CASCADE is given.
    """

    action: str
    permissions: tuple[tuple[str, tuple[str, ...]], ...]
    securable_class: str
    name: Name
    principals: tuple[str, ...]
    grant_option: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExecuteAs(Statement):
    """EXECUTE AS USER, LOGIN or CALLER; ``name`` is a constant or variable."""

    kind: str
    name: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Revert(Statement):
    """REVERT."""


__all__ = [
    "AlterAuthorization",
    "AlterPrincipal",
    "AlterRole",
    "CreatePrincipal",
    "DropPrincipal",
    "ExecuteAs",
    "Permissions",
    "Revert",
]
