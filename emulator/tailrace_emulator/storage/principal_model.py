"""Logins, users, roles and permissions, as the catalog keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

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
        name: spelt as it was created.
        type: S (SQL user) or R (database role).
        members: of a role: names of users and roles.
        sid: hexadecimal; a user belongs to the login of the same sid.
        has_login: whether it was created for a login.
        default_schema: of a user; empty means dbo.
        owner: principal id of a role's owner.
        create_ticks: when it was created; 0 with its database.
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
        name: spelt as it was created.
        sid: 16 bytes in hexadecimal digits.
        password: its hash (security/passwords.py); empty for the login whose password the
            server was started with.
        default_database: where a connection without a database goes.
        is_disabled: it may not log in.
        must_change: its password must be changed before its first use.
        check_policy: whether CHECK_POLICY is ON.
        check_expiration: whether CHECK_EXPIRATION is ON.
        create_ticks: when it was created.
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
        permission: its name, such as VIEW DEFINITION.
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
