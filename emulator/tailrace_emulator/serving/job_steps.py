"""Runs the T-SQL of the Agent's job steps: each in a session of its own, as the login sa."""

from __future__ import annotations

import itertools
import threading
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.context import SessionContext
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.security.context import SecurityContext
from tailrace_emulator.serving.batch import BatchRunner
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.results import ErrorMessage

FIRST_SESSION_ID: Final = 1_000_000
"""Session ids of steps: above those of connections."""
APPLICATION: Final = "SQLAgent - TSQL JobStep"


class JobSteps:
    """Runs batches for the Agent; no rows of theirs go anywhere."""

    def __init__(self, engine: Engine, login: str) -> None:
        """Prepare.

        Args:
            login: as which they run: a member of sysadmin.
        """
        self._engine = engine
        self._login = login
        self._ids = itertools.count(FIRST_SESSION_ID)

    def __call__(self, database: str, command: str, stop: threading.Event) -> SqlError | None:
        """Run a batch; a transaction that it leaves open is rolled back.

        Args:
            stop: ends it when it is set.

        Returns:
            The first error that it reported or ended with.
        """
        found = self._engine.databases.get(database.casefold())
        if found is None:
            return messages.error(911, database)
        session_id = next(self._ids)
        store = StoreSession(self._engine, session_id)
        store.cancelled = stop
        context = SessionContext(
            engine=self._engine,
            database=found,
            store=store,
            session_id=session_id,
            login=self._login,
            application=APPLICATION,
            cancelled=stop,
            security=SecurityContext(self._engine, self._login),
            login_ticks=self._engine.clock.now_ticks(),
        )
        runner = BatchRunner(context)
        first: SqlError | None = None
        try:
            for event in runner.run(command):
                if isinstance(event, ErrorMessage) and first is None:
                    first = SqlError(
                        event.number, event.text, severity=event.severity, state=event.state
                    )
        except SqlError as error:
            return first or error
        finally:
            runner.close()
        return first
