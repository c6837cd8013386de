"""A SQL Server that the user points at with --sqlserver-dsn, in the place of the embedded one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyodbc
import pytest

from emulator.tests.fix_conformance import GIVEN_VERSION
from emulator.tests.fix_emulator import EmulatorProcess, OdbcServer
from tailrace_emulator.testing.source import capture_by_hand, quoted

_DEFAULT_PORT = 1433


class GivenServer(OdbcServer):
    """The server of a connection string; what the tests make in it is dropped again.

    Attributes:
        host, port, user, password: as the publisher's configuration wants them.
    """

    def __init__(self, dsn: str) -> None:
        self._parts = parts_of(dsn)
        missing = [key for key in ("DRIVER", "SERVER", "UID", "PWD") if key not in self._parts]
        if missing:
            raise pytest.UsageError(
                f"--sqlserver-dsn has no {', '.join(missing)}: the publisher needs a SQL Server"
                " login, as in DRIVER={ODBC Driver 18 for SQL Server};SERVER=host,1433;UID=sa;"
                "PWD=...;TrustServerCertificate=yes"
            )
        host, _, port = unbraced(self._parts["SERVER"]).removeprefix("tcp:").partition(",")
        self.host, self.port = host, int(port or _DEFAULT_PORT)
        self.user, self.password = (unbraced(self._parts[key]) for key in ("UID", "PWD"))
        self._connections: list[pyodbc.Connection] = []
        self._databases: list[str] = []

    def connection_string(self, database: str = "master", **options: str) -> str:
        parts = self._parts | {"DATABASE": database} | options
        return ";".join(f"{key}={value}" for key, value in parts.items())

    def create_database(self, name: str) -> None:
        """A database that is dropped when the tests of the module are done."""
        connection = self.connect()
        connection.execute(f"CREATE DATABASE {quoted(name)}")
        self._databases.append(name)
        connection.close()

    def scan(self, connection: pyodbc.Connection) -> None:
        """Read the log; the capture job is stopped, so that the tests alone say when."""
        capture_by_hand(connection)

    def close(self) -> None:
        self.close_connections()
        connection = pyodbc.connect(self.connection_string(), autocommit=True, timeout=10)
        for name in self._databases:
            drop_database(connection, name)
            # Logins that a test made for its database bear its name.
            logins = connection.execute(
                "SELECT name FROM sys.server_principals WHERE type = 'S' AND name LIKE ?",
                f"%{name.replace('_', '[_]')}",
            ).fetchall()
            for (login,) in logins:
                connection.execute(f"DROP LOGIN {quoted(login)}")
        connection.close()


SourceServer = EmulatorProcess | GivenServer


def drop_database(connection: pyodbc.Connection, name: str) -> None:
    """Drop a database, also if its capture job is connected (else 3702)."""
    connection.execute("USE master")
    connection.execute(
        f"ALTER DATABASE {quoted(name)} SET SINGLE_USER WITH ROLLBACK IMMEDIATE;"
        f" DROP DATABASE {quoted(name)}"
    )


def pytest_configure(config: pytest.Config) -> None:
    dsn = config.getoption("--sqlserver-dsn")
    if dsn and not hasattr(config, "workerinput"):
        config.stash[GIVEN_VERSION] = require_usable(str(dsn))


def require_usable(dsn: str) -> str:
    """The server's version; one that cannot be used is told once, not by every test."""
    server = GivenServer(dsn)
    try:
        connection = server.connect()
        is_sysadmin, version = connection.execute(
            "SELECT IS_SRVROLEMEMBER(N'sysadmin'), @@VERSION"
        ).fetchone()
    except pyodbc.Error as error:
        raise pytest.UsageError(
            f"--sqlserver-dsn: {error.args[-1]}\nWhat to do: docs/real-sqlserver.md"
        ) from error
    connection.close()
    if not is_sysadmin:
        raise pytest.UsageError(
            f"--sqlserver-dsn: login {server.user} is no sysadmin, and only one may enable change"
            f" data capture: ALTER SERVER ROLE sysadmin ADD MEMBER {quoted(server.user)}"
        )
    return str(version).splitlines()[0]


def parts_of(dsn: str) -> dict[str, str]:
    """A connection string's keywords and values; a value in braces may hold semicolons."""
    pairs = re.findall(r"(?:[^;{]|\{(?:[^}]|\}\})*\})+", dsn)
    parts = (pair.partition("=") for pair in pairs if "=" in pair)
    return {key.strip().upper(): value.strip() for key, _, value in parts}


def replaced(dsn: str, parts: dict[str, str]) -> str:
    """A connection string with some of its parts replaced, or added."""
    return ";".join(f"{key}={value}" for key, value in (parts_of(dsn) | parts).items())


def unbraced(value: str) -> str:
    """A connection string's value without its braces."""
    if value.startswith("{") and value.endswith("}"):
        return value[1:-1].replace("}}", "}")
    return value


@pytest.fixture(scope="module")
def source_server(request: pytest.FixtureRequest) -> Iterator[SourceServer]:
    """The server of --sqlserver-dsn, else the module's embedded one (its agent is manual)."""
    dsn = request.config.getoption("--sqlserver-dsn")
    if not dsn:
        yield request.getfixturevalue("module_emulator")
        return
    server = GivenServer(str(dsn))
    try:
        yield server
    finally:
        server.close()
