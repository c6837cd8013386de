"""The embedded SQL Server as a process, and connections to it through the Microsoft ODBC driver."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyodbc
import pytest

from emulator.tests.forked import forked, serve_until_stopped
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.serving.server import Limits, Server
from tailrace_emulator.serving.session import Credentials, Logins
from tailrace_emulator.serving.tls import TlsContexts, ensure_certificate
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.testing.odbc import driver
from tailrace_emulator.values.clock import SystemClock

# The driver manager must not keep connections: a test's server is gone when the test ends.
pyodbc.pooling = False

READY_TIMEOUT_S = 90
STOP_TIMEOUT_S = 30


class OdbcServer:
    """Connections to a server, closed at the end of the tests that opened them."""

    _connections: list[pyodbc.Connection]

    def connection_string(self, database: str = "master", **options: str) -> str:
        """For pyodbc and arrow-odbc alike; ``options`` are added or replace."""
        raise NotImplementedError

    def connect(
        self,
        database: str = "master",
        *,
        autocommit: bool = True,
        timeout: int = 10,
        **options: str,
    ) -> pyodbc.Connection:
        """A connection; closed at the end of the test if the test did not."""
        connection = pyodbc.connect(
            self.connection_string(database, **options), autocommit=autocommit, timeout=timeout
        )
        self._connections.append(connection)
        return connection

    def close_connections(self) -> None:
        """Close what tests left open."""
        for connection in self._connections:
            # Closed by the test, or its server was killed.
            with contextlib.suppress(pyodbc.Error):
                connection.close()
        self._connections.clear()


@dataclass
class EmulatorProcess(OdbcServer):
    """A running embedded server, as ``python -m tailrace_emulator`` runs it.

    Attributes:
        data_dir: survives restarts.
        agent: auto or manual.
        options: further options of its command line.
    """

    data_dir: Path
    password: str = "Emulator-1"
    agent: str = "manual"
    user: str = "sa"
    host: str = "127.0.0.1"
    port: int = 0
    options: tuple[str, ...] = ()
    process: ForkServerProcess | None = None
    _connections: list[pyodbc.Connection] = field(default_factory=list)

    def start(self) -> None:
        """Start it and wait until it listens; a restart takes the same port."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        password_file = self.data_dir / "password"
        password_file.write_text(self.password, encoding="utf-8")
        arguments = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        arguments += ["--password-file", str(password_file), "--agent", self.agent, *self.options]
        announced, announcing = forked.Pipe(duplex=False)
        log = self.data_dir / "server.log"
        # A daemon: one that a test left running ends with the tests.
        self.process = forked.Process(
            target=serve_until_stopped, args=(arguments, log, announcing), daemon=True
        )
        self.process.start()
        announcing.close()
        with announced, contextlib.suppress(EOFError):
            assert announced.poll(READY_TIMEOUT_S), f"the server did not start: {self.log()}"
            self.port = announced.recv()
            return
        raise AssertionError(f"the server did not start: {self.log()}")

    def log(self) -> str:
        """What the server logged."""
        return (self.data_dir / "server.log").read_text(encoding="utf-8")

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the server gets no chance to write anything."""
        self._end(signal.SIGKILL)

    def connection_string(self, database: str = "master", **options: str) -> str:
        parts = {
            "DRIVER": driver(),
            "SERVER": f"127.0.0.1,{self.port}",
            "DATABASE": database,
            "UID": self.user,
            "PWD": self.password,
            "TrustServerCertificate": "yes",
        } | options
        return ";".join(f"{key}={value}" for key, value in parts.items())

    def create_database(self, name: str) -> None:
        """A database; it goes with the data directory."""
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE [{name}]")

    def scan(self, connection: pyodbc.Connection) -> None:
        """Let the capture process read the log of the connection's database to its end."""
        connection.execute("EXEC sys.sp_cdc_scan @maxtrans = 5000, @maxscans = 100")

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        assert self.process.pid is not None
        # One that has ended by itself keeps its code.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        self.process.join(STOP_TIMEOUT_S)
        code = self.process.exitcode
        assert code is not None, f"the server did not end: {self.log()}"
        self.process.close()
        self.process = None
        return code


@pytest.fixture(scope="module")
def module_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    """One server for the tests of a module, agent manual; use databases of your own in it."""
    server = EmulatorProcess(tmp_path_factory.mktemp("emulator"))
    server.start()
    try:
        yield server
    finally:
        server.close_connections()
        if server.process is not None:
            server.stop()


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    """A server of its own for one test, on a fresh data directory, agent manual."""
    server = EmulatorProcess(tmp_path / "emulator")
    server.start()
    try:
        yield server
    finally:
        server.close_connections()
        if server.process is not None:
            server.stop()


@pytest.fixture
def connect(emulator: EmulatorProcess):
    """``connect(database=...)`` to the test's server."""
    return emulator.connect


@contextlib.contextmanager
def in_process_server(directory: Path, limits: Limits | None = None) -> Iterator[Server]:
    """A running server in this process, on an engine of its own in a directory."""
    engine = Engine(directory, SystemClock(), ChangeDataCapture())
    tls = TlsContexts(*ensure_certificate(directory, datetime.datetime.now(datetime.UTC)))
    logins = Logins(engine, Credentials(EmulatorProcess.user, EmulatorProcess.password))
    server = Server(logins.open_session, tls, limits=limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        engine.close()


@pytest.fixture
def serve_in_process(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """``serve_in_process(limits)`` is a running server in this process, on a fresh engine."""
    engine = Engine(tmp_path / "engine", SystemClock(), ChangeDataCapture())
    servers: list[Server] = []

    def start(limits: Limits | None = None) -> Server:
        now = datetime.datetime.now(datetime.UTC)
        tls = TlsContexts(*ensure_certificate(engine.data_dir, now))
        logins = Logins(engine, Credentials(EmulatorProcess.user, EmulatorProcess.password))
        servers.append(Server(logins.open_session, tls, limits=limits))
        servers[-1].start()
        return servers[-1]

    try:
        yield start
    finally:
        for server in servers:
            server.stop()
        engine.close()
