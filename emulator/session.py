"""One login: who it is, its context, and the running of its requests.

A request becomes events (batch.py, rpc.py), events become an answer (responses.py). This is the one
place where an error becomes a token: a ``SqlError`` as itself, anything else as 50999 with the
traceback in the log.
"""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Iterator
from typing import Final

import apsw

from emulator.batch import BatchRunner
from emulator.catalog.context import SessionContext
from emulator.errors import INTERNAL, SqlError, not_supported
from emulator.responses import ConnectionClosedError, Response
from emulator.results import Event, StatementDone
from emulator.rpc import Procedures
from emulator.storage.engine import Engine
from emulator.storage.transaction import StoreSession
from emulator.wire.login7 import Login7
from emulator.wire.requests import (
    Attention,
    IsolationLevel,
    Request,
    RpcRequest,
    SqlBatch,
    TransactionRequest,
    TransactionRequestType,
)

_log = logging.getLogger(__name__)

_ISOLATION_NAMES: Final = {
    IsolationLevel.READ_UNCOMMITTED: "READ UNCOMMITTED",
    IsolationLevel.READ_COMMITTED: "READ COMMITTED",
    IsolationLevel.REPEATABLE_READ: "REPEATABLE READ",
    IsolationLevel.SERIALIZABLE: "SERIALIZABLE",
    IsolationLevel.SNAPSHOT: "SNAPSHOT",
}
DEFAULT_DATABASE: Final = "master"

FATAL_SEVERITY: Final = 20
"""From this severity on, SQL Server closes the connection."""


class LoginRefusedError(Exception):
    """A login failed.

    Attributes:
        errors: what the client is told, in this order.
    """

    def __init__(self, *errors: SqlError) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


class Credentials:
    """The one login of the server."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password

    def check(self, login: Login7) -> None:
        """Check user and password.

        Raises:
            LoginRefusedError: 18456, whichever of them is wrong.
        """
        same_user = login.user.casefold() == self.user.casefold()
        same_password = hmac.compare_digest(
            login.password.encode("utf-8", "surrogatepass"), self._password.encode()
        )
        if not (same_user and same_password):
            raise LoginRefusedError(login_failed(login.user))


def login_failed(user: str) -> SqlError:
    """Error 18456. Its state does not tell what was wrong."""
    return SqlError(18456, f"Login failed for user '{user}'.", severity=14)


def cannot_open_database(database: str, user: str) -> LoginRefusedError:
    """Errors 4060 and 18456, for a login into a database that is not there."""
    return LoginRefusedError(
        SqlError(
            4060,
            f'Cannot open database "{database}" requested by the login. The login failed.',
            severity=11,
        ),
        login_failed(user),
    )


class Session:
    """A login's requests, one at a time, in its connection's thread."""

    def __init__(self, context: SessionContext, runner: BatchRunner) -> None:
        self.context = context
        self._runner = runner
        self._login_database = context.database
        self._procedures = Procedures(runner)
        self._told_descriptor = 0

    def execute(self, request: Request, response: Response, *, reset: bool) -> bool:
        """Run a request and write its whole answer.

        Returns:
            Whether the connection may go on; False after an error of severity 20 or more.
        """
        may_go_on = True
        try:
            if reset:
                self._reset(response)
            match request:
                case SqlBatch(sql):
                    self._drain(self._runner.run(sql), response)
                case RpcRequest(calls):
                    for call in calls:
                        response.begin_call()
                        events, ordinals = self._procedures.call(call)
                        may_go_on = self._guarded(events, response) and may_go_on
                        response.end_call(ordinals)
                        if self.context.cancelled.is_set():
                            break
                case TransactionRequest():
                    events = self._transaction(request)
                    self._drain((e for e in events if not isinstance(e, StatementDone)), response)
                case Attention():
                    pass
        except SqlError as error:
            response.error(error)
            may_go_on = error.severity < FATAL_SEVERITY
        except ConnectionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 -- a defect must reach the client as an error
            response.error(self._failed(error))
        self._tell_transaction(response)
        response.finish()
        return may_go_on

    def interrupt(self) -> None:
        """End the statement that is being executed; called from another thread."""
        self.context.store.connection.interrupt()

    def close(self) -> None:
        """The connection is gone: what it left open is rolled back."""
        self.context.store.close()

    def _guarded(self, events: Iterator[Event], response: Response) -> bool:
        """Drain one call of several: its error ends it, not the ones after it."""
        try:
            self._drain(events, response)
        except SqlError as error:
            response.error(error)
            return error.severity < FATAL_SEVERITY
        except ConnectionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 -- a defect must reach the client as an error
            response.error(self._failed(error))
        return True

    def _failed(self, error: Exception) -> SqlError:
        """What the client is told of an error that is not SQL's.

        An interrupted write ends SQLite's transaction, and a defect leaves one in doubt: either
        way ours is rolled back, so that no later COMMIT can commit a part of it.
        """
        if self.context.store.trancount:
            self.context.store.rollback()
        if isinstance(error, apsw.InterruptError) and self.context.cancelled.is_set():
            return SqlError(3617, "The query was cancelled by the client.", severity=11)
        _log.error("a request failed inside the server", exc_info=error)
        return SqlError(
            INTERNAL,
            f"The embedded SQL Server failed ({type(error).__name__}); its log has the details.",
            aborts="transaction",
        )

    def _drain(self, events: Iterator[Event], response: Response) -> None:
        cancelled = self.context.cancelled.is_set
        handle = response.handle
        try:
            for event in events:
                handle(event)
                if cancelled():
                    return
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()  # undoes the statement that was being executed, if it was

    def _transaction(self, request: TransactionRequest) -> Iterator[Event]:
        if request.kind is TransactionRequestType.BEGIN:
            yield from self._set_isolation(request.isolation)
            yield from self._runner.begin()
        elif request.kind is TransactionRequestType.COMMIT:
            yield from self._runner.commit()
        elif request.kind is TransactionRequestType.ROLLBACK:
            yield from self._runner.rollback(request.name)
        elif request.kind is TransactionRequestType.SAVE:
            name = request.name.replace("]", "]]")
            yield from self._runner.run(f"SAVE TRANSACTION [{name}]")
        else:
            raise not_supported("distributed transactions")
        if request.begin_again:
            yield from self._set_isolation(request.isolation)
            yield from self._runner.begin()

    def _set_isolation(self, level: int) -> Iterator[Event]:
        name = _ISOLATION_NAMES.get(IsolationLevel(level)) if 0 < level <= 5 else None
        if name is not None:
            yield from self._runner.run(f"SET TRANSACTION ISOLATION LEVEL {name}")

    def _reset(self, response: Response) -> None:
        self._runner.reset()
        self._procedures = Procedures(self._runner)
        self.context.database = self._login_database
        response.reset_acknowledged()

    def _tell_transaction(self, response: Response) -> None:
        """Make the client's idea of the transaction true whatever ended the request."""
        if response.descriptor is not None:
            self._told_descriptor = response.descriptor
        store = self.context.store
        actual = store.descriptor if store.trancount else 0
        if actual == self._told_descriptor:
            return
        if self._told_descriptor:
            response.transaction_changed("rolled_back", self._told_descriptor)
        if actual:
            response.transaction_changed("began", actual)
        self._told_descriptor = actual


class Logins:
    """Makes sessions of logins.

    Args:
        engine: the server's storage.
        credentials: the login that is accepted.
    """

    def __init__(self, engine: Engine, credentials: Credentials) -> None:
        self._engine = engine
        self._credentials = credentials

    def open_session(self, login: Login7, session_id: int, interrupted: threading.Event) -> Session:
        """A session in the login's database.

        Args:
            login: what the client sent.
            session_id: @@SPID.
            interrupted: set by an attention.

        Raises:
            LoginRefusedError: 18456, or 4060 for a database that is not there.
        """
        self._credentials.check(login)
        try:
            database = self._engine.database(login.database or DEFAULT_DATABASE)
        except SqlError as error:
            raise cannot_open_database(login.database, login.user) from error
        store = StoreSession(self._engine, session_id)
        store.cancelled = interrupted
        context = SessionContext(
            engine=self._engine,
            database=database,
            store=store,
            session_id=session_id,
            login=self._credentials.user,
            host=login.host,
            application=login.application,
            cancelled=interrupted,
        )
        return Session(context, BatchRunner(context))
