"""Checks a name and a password, and says nothing of which of them was wrong.

The client gets error 18456 with state 1, whatever the reason; the reason goes to the log, as in SQL
Server. An unknown name costs as much time as a wrong password.

https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-18456-database-engine-error
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.security.passwords import (
    POLICY_LENGTH_MIN,
    hash_password,
    is_password,
    is_strong,
)
from tailrace_emulator.security.permissions import SERVER
from tailrace_emulator.security.tokens import SA_ID, find_login, server_token
from tailrace_emulator.storage.principal_model import Login, PermissionKey
from tailrace_emulator.storage.principals import put_login

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Engine

_log = logging.getLogger(__name__)

UNKNOWN_LOGIN: Final = 5
WRONG_PASSWORD: Final = 8
DISABLED: Final = 7
CONNECT_DENIED: Final = 12
"""States of 18456 that only the log shows."""

_KNOWN_MAX: Final = 1000
"""Logins whose password need not be hashed again."""


class LoginRefusedError(Exception):
    """A login failed.

    Attributes:
        errors: what the client is sent, in this order.
    """

    def __init__(self, *errors: SqlError) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


def login_failed(user: str) -> SqlError:
    """Error 18456. Its state does not say what was wrong."""
    return messages.error(18456, user)


class Authenticator:
    """The logins of a server and their passwords; thread-safe.

    Args:
        engine: where logins are kept.
        name: the login that the server was started with, a sysadmin.
        password: its password, which is kept nowhere.
    """

    def __init__(self, engine: Engine, name: str, password: str) -> None:
        self._engine = engine
        self._name = name
        self._password = password
        self._decoy = hash_password(os.urandom(16).hex())
        # What was right once is known by a keyed digest: scrypt is for passwords at rest.
        self._key = os.urandom(32)
        self._known: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def authenticate(self, name: str, password: str, new_password: str | None = None) -> Login:
        """The login of that name, whose password it is.

        Args:
            new_password: that it is to have from now on; None leaves it.

        Raises:
            LoginRefusedError: 18456, 18470 for a disabled login, 18488 when the password must be
                changed first. A new password gives 18464 or 18466 if CHECK_POLICY does not accept
                it. For the login that the server was started with it gives 50900.
        """
        login = find_login(self._engine, name)
        if name.casefold() == self._name.casefold() and (
            login is None or login.principal_id == SA_ID
        ):
            given, own = password.encode("utf-8", "surrogatepass"), self._password.encode()
            if not hmac.compare_digest(given, own):
                raise self._refused(name, WRONG_PASSWORD)
            if new_password is not None:
                own_password = not_supported(f"changing the password of {self._name} at a login")
                raise LoginRefusedError(own_password, login_failed(name))
            return login or Login(SA_ID, self._name, "01")
        if login is None or not login.password:
            is_password(self._decoy, password)
            raise self._refused(name, UNKNOWN_LOGIN)
        if not self._is_right(login, password):
            raise self._refused(name, WRONG_PASSWORD)
        self._check_state(login, name, changes=new_password is not None)
        return login if new_password is None else self._with_password(login, new_password)

    def _with_password(self, login: Login, password: str) -> Login:
        """The login with another password, from now on."""
        if login.check_policy and len(password) < POLICY_LENGTH_MIN:
            raise LoginRefusedError(messages.error(18464, login.name))
        if login.check_policy and not is_strong(login.name, password):
            raise LoginRefusedError(messages.error(18466, login.name))
        now = self._engine.clock.now_ticks()
        kept = hash_password(password)
        changed = replace(login, password=kept, must_change=False, modify_ticks=now)
        with self._engine.write() as connection:
            put_login(connection, self._engine.databases["master"], changed)
        return changed

    def _check_state(self, login: Login, name: str, *, changes: bool) -> None:
        """Whether a login whose password is right may be used."""
        if login.is_disabled:
            _log.info("login refused: %r is disabled (18456, state %d)", name, DISABLED)
            raise LoginRefusedError(messages.error(18470, login.name))
        if login.must_change and not changes:
            raise LoginRefusedError(messages.error(18488, login.name))
        entries = self._engine.databases["master"].state.permissions
        token = server_token(self._engine, login)
        for principal in token.principals:
            entry = entries.get(PermissionKey(SERVER, 0, 0, principal, "CONNECT SQL"))
            if entry is not None and entry.state == "D":
                raise self._refused(name, CONNECT_DENIED)

    def _is_right(self, login: Login, password: str) -> bool:
        raw = (login.password + "\0" + password).encode("utf-8", "surrogatepass")
        digest = hmac.new(self._key, raw, hashlib.sha256).digest()
        with self._lock:
            known = self._known.get(login.sid)
        if known is not None and hmac.compare_digest(known, digest):
            return True
        if not is_password(login.password, password):
            return False
        with self._lock:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[login.sid] = digest
        return True

    def _refused(self, name: str, state: int) -> LoginRefusedError:
        _log.info("login refused: %r (18456, state %d)", name, state)
        return LoginRefusedError(login_failed(name))
