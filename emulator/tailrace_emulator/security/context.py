"""The security context of a session: who it is now, and whom it became on the way.

EXECUTE AS puts an identity on top, REVERT takes it off. An impersonated user is known to its own
database only, an impersonated login to the whole server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages import (
    cannot_impersonate_login,
    cannot_impersonate_user,
    no_database_access,
)
from tailrace_emulator.security.access import Securable, permits, sees, server_has
from tailrace_emulator.security.permissions import DATABASE_PRINCIPAL, SERVER_PRINCIPAL
from tailrace_emulator.security.tokens import (
    SA_ID,
    SA_SID,
    ServerToken,
    UserToken,
    find_login,
    find_principal,
    login_by_id,
    logins,
    principal_by_id,
    server_token,
    token_of_login,
    token_of_user,
)
from tailrace_emulator.storage.principal_model import DBO_ID, Login, PermissionKey

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine

_TOKENS_MAX: Final = 256
"""Tokens that a session keeps: one for each database and whom it acted as there."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a session acts as.

    Attributes:
        login_id: of the login; 0 for a user without one.
        database_id: of an impersonated user; 0 for a login.
        user_id: principal id of an impersonated user.
    """

    login_id: int
    database_id: int = 0
    user_id: int = 0


class SecurityContext:
    """Who one session is; used by its own thread only."""

    def __init__(self, engine: Engine, login: str) -> None:
        """Begin as a login."""
        self._engine = engine
        known = find_login(engine, login)
        # A login that was dropped keeps its session, as a member of public.
        self._first = known or Login(SA_ID if login.casefold() == "sa" else -1, login, SA_SID)
        self._stack = [Identity(self._first.principal_id)]
        self._users: dict[tuple[Identity, int], tuple[int, int, UserToken | None]] = {}
        self._server: tuple[Identity, int, ServerToken | None] | None = None
        self._seen: dict[tuple[Identity, int], tuple[UserToken, dict[int, bool]]] = {}

    @property
    def identity(self) -> Identity:
        """Whom the session acts as now."""
        return self._stack[-1]

    @property
    def depth(self) -> int:
        """How many impersonations are open."""
        return len(self._stack) - 1

    @property
    def original_login(self) -> str:
        """The name of the login that connected."""
        return self._first.name

    @property
    def login(self) -> Login | None:
        """The login as which the session acts; None for a user without one."""
        return self._login_of(self.identity)

    @property
    def login_name(self) -> str:
        """SUSER_SNAME()."""
        login = self.login
        return login.name if login is not None else f"S-1-9-3-{self.identity.user_id}"

    def _login_of(self, identity: Identity) -> Login | None:
        if identity.login_id == self._first.principal_id:
            return login_by_id(self._engine, identity.login_id) or self._first
        return login_by_id(self._engine, identity.login_id)

    @property
    def server(self) -> ServerToken | None:
        """The token at the server; None where an impersonated user has none."""
        identity = self.identity
        version = self._engine.databases["master"].version
        if self._server is None or self._server[:2] != (identity, version):
            login = None if identity.database_id else self._login_of(identity)
            token = server_token(self._engine, login) if login is not None else None
            self._server = (identity, version, token)
        return self._server[2]

    @property
    def is_sysadmin(self) -> bool:
        """Whether no permission check applies."""
        server = self.server
        return server is not None and server.is_sysadmin

    def owns(self, database: Database) -> bool:
        """Whether the session is sysadmin, dbo or in db_owner."""
        if self.is_sysadmin:
            return True
        token = self.user_or_none(database)
        return token is not None and (token.is_dbo or "db_owner" in token.roles)

    def user_or_none(self, database: Database) -> UserToken | None:
        """The user that the session is in a database; None when it may not enter it."""
        identity = self.identity
        key = (identity, database.database_id)
        versions = (database.version, self._engine.databases["master"].version)
        known = self._users.get(key)
        if known is None or known[:2] != versions:
            if len(self._users) >= _TOKENS_MAX:
                self._users.clear()
            known = self._users[key] = (*versions, self._make_user(identity, database))
        return known[2]

    def _make_user(self, identity: Identity, database: Database) -> UserToken | None:
        if identity.database_id:
            if identity.database_id != database.database_id:
                return None
            principal = principal_by_id(database, identity.user_id)
            return token_of_user(database, principal) if principal is not None else None
        server = self.server
        return token_of_login(self._engine, database, server) if server is not None else None

    def user(self, database: Database) -> UserToken:
        """The user that the session is in a database.

        Raises:
            SqlError: 916 when it may not enter it.
        """
        token = self.user_or_none(database)
        if token is None:
            raise no_database_access(self.login_name, database.name)
        return token

    def has(self, securable: Securable, permission: str) -> bool:
        """Whether the session has a permission on something in a database."""
        token = self.user_or_none(securable.database)
        return token is not None and permits(token, securable, permission)

    def sees(self, securable: Securable) -> bool:
        """Whether the session may know of an object: it has any permission on it."""
        if self.is_sysadmin:
            return True
        database = securable.database
        token = self.user_or_none(database)
        if token is None or token.is_dbo:
            return token is not None
        # A token is made anew with every change of the database's permissions.
        key = (self.identity, database.database_id)
        known = self._seen.get(key)
        if known is None or known[0] is not token:
            if len(self._seen) >= _TOKENS_MAX:
                self._seen.clear()
            known = self._seen[key] = (token, {})
        found = known[1].get(securable.major_id)
        if found is None:
            found = known[1][securable.major_id] = sees(token, securable)
        return found

    def has_on_server(self, permission: str) -> bool:
        """Whether the session has a permission on the server."""
        return server_has(self._engine, self.server, permission)

    # Impersonation ------------------------------------------------------------------------------

    def execute_as_user(self, database: Database, name: str, *, checked: bool = True) -> None:
        """Become a user of a database.

        Args:
            checked: False where the module's own definition says so.

        Raises:
            SqlError: 15517 when there is none, or IMPERSONATE on it is lacking.
        """
        principal = find_principal(database, name)
        if principal is None or principal.type == "R":
            raise cannot_impersonate_user(name)
        securable = Securable(
            database, DATABASE_PRINCIPAL, principal.principal_id, name=principal.name
        )
        own = self.user(database).principal.principal_id == principal.principal_id
        if checked and not own and not self.has(securable, "IMPERSONATE"):
            raise cannot_impersonate_user(name)
        login = next(
            (k for k in logins(self._engine) if principal.has_login and k.sid == principal.sid),
            None,
        )
        login_id = login.principal_id if login is not None else 0
        if principal.principal_id == DBO_ID:
            login_id = SA_ID
        self._stack.append(Identity(login_id, database.database_id, principal.principal_id))

    def execute_as_login(self, name: str) -> None:
        """Become a login.

        Raises:
            SqlError: 15406 when there is none, or IMPERSONATE on it is lacking.
        """
        login = find_login(self._engine, name)
        if login is None:
            raise cannot_impersonate_login(name)
        if not self._may_impersonate(login):
            raise cannot_impersonate_login(name)
        self._stack.append(Identity(login.principal_id))

    def execute_as_caller(self) -> None:
        """Stay who one is, as an impersonation that REVERT ends."""
        self._stack.append(self.identity)

    def _may_impersonate(self, login: Login) -> bool:
        server = self.server
        if server is None:
            return False
        if self.has_on_server("IMPERSONATE ANY LOGIN") or login == server.login:
            return True
        entries = self._engine.databases["master"].state.permissions
        return any(
            PermissionKey(SERVER_PRINCIPAL, login.principal_id, 0, principal, "IMPERSONATE")
            in entries
            for principal in server.principals
        )

    def revert(self, depth: int | None = None) -> None:
        """End the newest impersonation, or all above a depth."""
        target = max(0, self.depth - 1) if depth is None else depth
        del self._stack[target + 1 :]

    def reset(self) -> None:
        """Be the login that connected again."""
        self.revert(0)
