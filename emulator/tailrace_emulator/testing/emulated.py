"""The embedded SQL Server for tests: a child process, no container engine, ready in a second."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tailrace_emulator.testing.emulator_process import AgentMode, EmulatorProcess
from tailrace_emulator.testing.errors import NotStarted
from tailrace_emulator.testing.source import CdcSource


class EmulatedSqlServer(CdcSource):
    """The embedded SQL Server with change data capture, over TDS like the real one.

    ::

        with EmulatedSqlServer() as server:
            server.create_database("Shop", "CREATE TABLE dbo.orders (id int PRIMARY KEY)")
            server.enable_cdc("Shop", "orders")
            server.execute("Shop", "INSERT INTO dbo.orders VALUES (1)")
            server.capture("Shop")
            assert len(server.change_rows("Shop", "dbo_orders")) == 1

    What it supports and what it refuses (always by name, with error 50900) is listed in
    docs/emulator.md.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        password: str | None = None,
        port: int | None = None,
        agent: AgentMode = "auto",
        clock: datetime.datetime | None = None,
        admin: bool = False,
    ) -> None:
        """Describes the server; ``start`` or ``with`` starts it.

        Args:
            data_dir: keeps its databases from one start to the next; a temporary folder that
                ``stop`` removes when None.
            password: of the login ``sa``; random when None.
            port: the TDS port on 127.0.0.1; a free one when None.
            agent: "auto" runs the capture and cleanup jobs as SQL Server Agent does; with "manual"
                nothing is captured before the test calls :meth:`capture`; "stopped" imitates an
                Agent that is not running.
            clock: where its clock begins; it stands still until ``tailrace.advance_clock``. The
                machine's when None.
            admin: allow the procedures ``tailrace.*`` of docs/emulator.md, by which a test moves
                the clock and runs the jobs; a ``clock`` allows them too.
        """
        self._data_dir = data_dir
        self._temporary: Path | None = None
        self._password = password
        self._port = port
        self._agent: AgentMode = agent
        self._clock = clock
        self._admin = admin or clock is not None
        self._process: EmulatorProcess | None = None

    @property
    def port(self) -> int:
        """The TDS port on 127.0.0.1."""
        return self._running.port

    @property
    def password(self) -> str:
        """The password of ``sa``."""
        return self._running.password

    @property
    def log(self) -> Path:
        """The file with the server's messages, for the report of a failed test."""
        return self._running.log

    def start(self) -> Self:
        """Starts it and waits until it accepts connections; does nothing when it runs.

        Raises:
            ProcessFailed: it ended or was not ready in time; the message has the end of its log.
        """
        if self._process is not None and self._process.pid is not None:
            return self
        if self._process is None:
            folder = self._data_dir
            if folder is None:
                folder = self._temporary = Path(tempfile.mkdtemp(prefix="tailrace-sqlserver-"))
            self._process = EmulatorProcess(
                folder,
                self._password,
                port=self._port,
                agent=self._agent,
                clock=self._clock,
                admin=self._admin,
            )
        try:
            self._process.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops it in order and removes its temporary folder."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def kill(self) -> None:
        """Kills it as a power cut would; ``start`` brings it back on the same port and data."""
        self._running.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _running(self) -> EmulatorProcess:
        if self._process is None:
            raise NotStarted(
                "the embedded SQL Server was not started: use `with EmulatedSqlServer() as server:`"
                " or call start()"
            )
        return self._process
