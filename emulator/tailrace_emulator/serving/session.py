"""One login: who it is, its context, and the running of its requests.

A request becomes events (batch.py, rpc.py), events become an answer (responses.py). This is the one
place where an error becomes a token: a ``SqlError`` as itself, anything else as 50999 with the
traceback in the log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.catalog.context import SessionContext
from tailrace_emulator.catalog.languages import find_language
from tailrace_emulator.catalog.session_registry import put_session, remove_session
from tailrace_emulator.catalog.set_options import DB_LIBRARY_OPTIONS, ODBC_OPTIONS, SetOptions
from tailrace_emulator.messages import stack_limit
from tailrace_emulator.messages.errors import INTERNAL, Aborts, SqlError, not_supported
from tailrace_emulator.security.authentication import (
    Authenticator,
    LoginRefusedError,
    login_failed,
)
from tailrace_emulator.security.context import SecurityContext
from tailrace_emulator.security.sessions import (
    session_began,
    session_can_be_killed,
    session_ended,
    session_is_over,
)
from tailrace_emulator.security.throttle import LoginThrottle
from tailrace_emulator.serving.batch import BatchRunner
from tailrace_emulator.serving.encoded_rows import keep_encoded_rows
from tailrace_emulator.serving.output_values import SentParameters
from tailrace_emulator.serving.responses import (
    FATAL_SEVERITY,
    IN_KILL_STATE,
    ConnectionClosedError,
    Response,
)
from tailrace_emulator.serving.rpc import Procedures, is_reset
from tailrace_emulator.storage.engine import Database, Engine
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.tsql.definition.options import in_language
from tailrace_emulator.values.results import Event, StatementDone
from tailrace_emulator.values.tds_types import sent_type
from tailrace_emulator.wire.bulk_load import BulkLoad
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.requests import (
    Attention,
    GivenUp,
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


def _in_kill_state() -> SqlError:
    """596: the answer to a request that KILL ended."""
    return messages.error(IN_KILL_STATE)


class Credentials:
    """The login that the server is started with: sysadmin everywhere."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password


def cannot_open_database(database: str, user: str) -> LoginRefusedError:
    """Errors 4060 and 18456, for a login into a database that is not there."""
    return LoginRefusedError(
        messages.error(4060, database),
        login_failed(user),
    )


def _in_language(options: SetOptions, login: Login7) -> SetOptions:
    """The options in the language that a login requests.

    Raises:
        LoginRefusedError: 4019 when there is none, or none here, and the client insists.
    """
    language = find_language(login.language)
    if language is not None:
        return in_language(options, language)
    if not login.insists_on_language:
        return options
    raise LoginRefusedError(messages.error(4019, login.user), login_failed(login.user))


class Session:
    """A login's requests, one at a time, in its connection's thread."""

    def __init__(self, context: SessionContext, runner: BatchRunner, login_id: int = 1) -> None:
        self.context = context
        self._login_id = login_id
        session_began(context.engine, login_id)
        put_session(context)
        self._runner = runner
        self._login_database = context.database
        self._procedures = Procedures(runner)
        self._told_descriptor = 0
        self._killed = False

    def execute(self, request: Request, response: Response, *, reset: bool) -> bool:
        """Run a request and write its whole answer.

        Returns:
            Whether the connection may continue; False after an error of severity 20 or more.
        """
        may_go_on = True
        self.context.is_running = True
        try:
            if reset:
                self._reset()
                response.reset_acknowledged()
            self.context.read_dates()
            may_go_on = self._run(request, response)
        except SqlError as error:
            if not self._killed:
                response.error(error)
            may_go_on = error.severity < FATAL_SEVERITY
        except ConnectionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 -- a defect must reach the client as an error
            failure = self._failed(error)
            if not self._killed:
                response.error(failure)
        if self._killed:
            response.error(_in_kill_state())
            may_go_on = False
        self._tell_transaction(response)
        response.finish()
        self.context.is_running = False
        return may_go_on

    def _run(self, request: Request, response: Response) -> bool:
        """Run a request; returns whether the connection may continue."""
        may_go_on = True
        match request:
            case SqlBatch(sql):
                self._drain(self._runner.run(sql), response)
            case RpcRequest(calls):
                for call in calls:
                    response.begin_call()
                    if is_reset(call):
                        self._reset()
                        response.end_call(SentParameters(call.parameters))
                        continue
                    events, skipped = self._procedures.call(call)
                    may_go_on = self._guarded(events, response) and may_go_on
                    response.end_call(SentParameters(call.parameters, skipped))
                    if self.context.cancelled.is_set():
                        break
            case BulkLoad(columns, rows, wrong_length):
                types = [sent_type(info) for info in columns]
                self._drain(self._runner.bulk_load(types, rows, wrong_length), response)
            case TransactionRequest():
                events = self._transaction(request)
                self._drain((e for e in events if not isinstance(e, StatementDone)), response)
            case Attention() | GivenUp():
                pass
        return may_go_on

    def interrupt(self) -> None:
        """End the statement that is being executed; called from another thread."""
        self.context.store.connection.interrupt()

    def can_be_killed(self, disconnect: Callable[[], None]) -> None:
        """From now on KILL ends the session.

        Args:
            disconnect: interrupts the request that runs and closes the connection after its
                answer, or at once when none runs; does not wait.
        """

        def end() -> None:
            self._killed = True
            disconnect()

        session_can_be_killed(self.context.engine, self.context.session_id, end)

    def close(self) -> None:
        """The connection is gone: what it left open is rolled back."""
        session_is_over(self.context.engine, self.context.session_id)
        session_ended(self.context.engine, self._login_id)
        remove_session(self.context)
        self._runner.close()

    def _guarded(self, events: Iterator[Event], response: Response) -> bool:
        """Drain one call of several: its error ends it, not the ones after it."""
        try:
            self._drain(events, response)
        except SqlError as error:
            if self._killed:
                raise
            response.error(error)
            return error.severity < FATAL_SEVERITY
        except ConnectionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 -- a defect must reach the client as an error
            response.error(self._failed(error))
        return True

    def _failed(self, error: Exception) -> SqlError:
        """What the client is sent for an error that is not SQL's.

        An interrupted write ends SQLite's transaction, and a defect leaves one in doubt. Either way
        ours is rolled back, so that no later COMMIT can commit a part of it.
        """
        if self.context.store.trancount:
            self.context.store.rollback()
        if isinstance(error, apsw.InterruptError) and self.context.cancelled.is_set():
            return messages.error(3617, aborts=Aborts.STATEMENT)
        if isinstance(error, RecursionError):
            return stack_limit()
        _log.error("a request failed inside the server", exc_info=error)
        return SqlError(
            INTERNAL,
            f"The embedded SQL Server failed ({type(error).__name__}); its log has the details.",
            aborts=Aborts.TRANSACTION,
        )

    def _drain(self, events: Iterator[Event], response: Response) -> None:
        cancelled = self.context.cancelled.is_set
        handle = response.handle
        try:
            for event in events:
                if self._killed:
                    return
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
            yield from self._runner.begin(request.name)
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
            yield from self._runner.begin(request.next_name)

    def _set_isolation(self, level: int) -> Iterator[Event]:
        name = _ISOLATION_NAMES.get(IsolationLevel(level)) if 0 < level <= 5 else None
        if name is not None:
            yield from self._runner.run(f"SET TRANSACTION ISOLATION LEVEL {name}")

    def _reset(self) -> None:
        """The session is as after its login."""
        self._runner.reset()
        self._procedures = Procedures(self._runner)
        self.context.database = self._login_database

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
        credentials: the login that the server was started with.
        throttle: makes failed logins wait.
    """

    def __init__(
        self, engine: Engine, credentials: Credentials, throttle: LoginThrottle | None = None
    ) -> None:
        self._engine = engine
        if engine.row_encoding is None:
            keep_encoded_rows(engine)
        self._authenticator = Authenticator(engine, credentials.user, credentials.password)
        self._throttle = throttle or LoginThrottle()

    def open_session(self, login: Login7, session_id: int, interrupted: threading.Event) -> Session:
        """A session in the login's database.

        Args:
            login: what the client sent.
            interrupted: set by an attention, and when the connection is closed.

        Raises:
            LoginRefusedError: 18456, 18470 or 18488, after a wait; 4060 for a database that is not
                there or that the login may not enter.
        """
        try:
            known = self._authenticator.authenticate(
                login.user, login.password, login.change_password
            )
        except LoginRefusedError:
            interrupted.wait(self._throttle.failed(login.user))
            raise
        self._throttle.succeeded(login.user)
        security = SecurityContext(self._engine, known.name)
        database = self._database(login.database or known.default_database, known.name, security)
        store = StoreSession(self._engine, session_id)
        store.cancelled = interrupted
        options = ODBC_OPTIONS if login.is_odbc else DB_LIBRARY_OPTIONS
        if login.language:
            options = _in_language(options, login)
        context = SessionContext(
            engine=self._engine,
            database=database,
            store=store,
            session_id=session_id,
            login=known.name,
            host=login.host,
            application=login.application,
            cancelled=interrupted,
            takes_encoded=True,
            security=security,
            options=options,
            initial_options=options,
            login_ticks=self._engine.clock.now_ticks(),
        )
        return Session(context, BatchRunner(context), known.principal_id)

    def _database(self, name: str, login: str, security: SecurityContext) -> Database:
        """The database in which a session begins.

        Raises:
            LoginRefusedError: 4060 if the login cannot open it.
        """
        found = self._engine.databases.get(name.casefold())
        if found is None or security.user_or_none(found) is None:
            raise cannot_open_database(name, login)
        return found
