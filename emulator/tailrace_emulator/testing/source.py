"""What every source of a test can do: make databases, enable CDC, and capture when asked to."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator.testing import odbc
from tailrace_emulator.testing.errors import CaptureTimeout

if TYPE_CHECKING:
    import pyodbc

CAPTURE_LIMIT_S: Final = 60.0
_RETRY_S: Final = 0.1
# 22903: another connection already runs sp_replcmds, that is, the capture job is not gone yet.
_LOG_IS_BEING_READ: Final = 22903
_NATIVE_NUMBER: Final = re.compile(r"\((-?\d+)\)")


class CdcSource(ABC):
    """A SQL Server that a test may make databases in.

    Attributes:
        host: the address that it listens on.
        user: a login that may create databases.
        polling_interval_s: seconds between two scans of the capture jobs that ``enable_cdc`` makes;
            SQL Server's own default of 5 is the floor of every wait for a change.
    """

    host: str = "127.0.0.1"
    user: str = "sa"
    polling_interval_s: int = 1

    @property
    @abstractmethod
    def port(self) -> int:
        """The TDS port; raises NotStarted before the start."""

    @property
    @abstractmethod
    def password(self) -> str:
        """The login's password; raises NotStarted before the start."""

    def connection_string(self, database: str = "master", **options: str) -> str:
        """An ODBC connection string; it holds the password, so it is not for logs.

        Args:
            database: the database to begin in.
            options: further keywords, or other values for ours, as in ``Encrypt="no"``.
        """
        parts = {
            "SERVER": f"tcp:{self.host},{self.port}",
            "DATABASE": database,
            "UID": self.user,
            "PWD": self.password,
            "Encrypt": "yes",
            "TrustServerCertificate": "yes",
        } | options
        listed = ";".join(f"{key}={{{value.replace('}', '}}')}}}" for key, value in parts.items())
        return f"DRIVER={odbc.driver()};{listed}"

    def connect(
        self, database: str = "master", *, autocommit: bool = True, timeout_s: int = 15
    ) -> pyodbc.Connection:
        """A new connection through the Microsoft ODBC driver; close it before the source stops.

        Args:
            database: the database to begin in.
            autocommit: each statement is a transaction of its own.
            timeout_s: seconds the login may take.

        Raises:
            pyodbc.Error: as the driver says it.
        """
        import pyodbc

        # A connection that the driver manager keeps would hold the database when it is dropped.
        pyodbc.pooling = False
        return pyodbc.connect(
            self.connection_string(database), autocommit=autocommit, timeout=timeout_s
        )

    def execute(self, database: str, *statements: str) -> None:
        """Run statements, each a batch and a transaction of its own."""
        with closing(self.connect(database)) as connection:
            for statement in statements:
                connection.execute(statement)

    def create_database(self, name: str, *statements: str) -> None:
        """Create a database and run statements in it.

        Args:
            name: must not exist yet.
            statements: for example CREATE TABLE and the rows from before change data capture.
        """
        self.execute("master", f"CREATE DATABASE {quoted(name)}")
        self.execute(name, *statements)

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there; change data capture and its jobs go with it.

        Sessions in it, the capture job's among them, lose their connection.
        """
        with closing(self.connect()) as connection:
            if connection.execute("SELECT DB_ID(?)", name).fetchval() is not None:
                connection.execute(
                    f"ALTER DATABASE {quoted(name)} SET SINGLE_USER WITH ROLLBACK IMMEDIATE;"
                    f" DROP DATABASE {quoted(name)}"
                )

    @contextmanager
    def database(self, name: str, *statements: str) -> Iterator[str]:
        """A database for the block; it is dropped at its end."""
        self.create_database(name, *statements)
        try:
            yield name
        finally:
            self.drop_database(name)

    def enable_cdc(self, database: str, *tables: str, net_changes: bool | None = None) -> None:
        """Enable change data capture for a database and some of its tables.

        Args:
            tables: as ``orders`` or ``sales.orders``; dbo is the schema where none is given.
            net_changes: SQL Server's @supports_net_changes; its own default when None.
        """
        with closing(self.connect(database)) as connection:
            enabled = connection.execute(
                "SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()"
            ).fetchval()
            if not enabled:
                connection.execute("EXEC sys.sp_cdc_enable_db")
            for table in tables:
                schema, _, name = table.rpartition(".")
                further = (
                    "" if net_changes is None else f", @supports_net_changes = {net_changes:d}"
                )
                connection.execute(
                    "EXEC sys.sp_cdc_enable_table @source_schema = ?, @source_name = ?,"
                    f" @role_name = NULL{further}",
                    schema or "dbo",
                    name,
                )
            if tables:
                self._hasten_capture(connection)

    def capture(self, database: str, limit_s: float = CAPTURE_LIMIT_S) -> None:
        """Bring every committed change of a database into its change tables, now.

        A capture job that runs is stopped for the moment, because only one may read the log.

        Args:
            database: one with change data capture.
            limit_s: how long it may take, in seconds.

        Raises:
            CaptureTimeout: the log was being read by another all the time.
        """
        with closing(self.connect(database)) as connection:
            if capture_by_hand(connection, limit_s):
                _job(connection, "start")

    def change_rows(self, database: str, capture_instance: str) -> list[dict[str, Any]]:
        """The rows of a change table in their order, columns by name.

        Args:
            capture_instance: ``schema_table`` unless it was named otherwise.
        """
        with closing(self.connect(database)) as connection:
            cursor = connection.execute(
                f"SELECT * FROM cdc.{quoted(capture_instance + '_CT')} ORDER BY [__$start_lsn],"
                " [__$command_id], [__$seqval], [__$operation]"
            )
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _hasten_capture(self, connection: pyodbc.Connection) -> None:
        """Give the capture job our polling interval; a job takes its settings when it starts."""
        connection.execute(
            "EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = ?",
            self.polling_interval_s,
        )
        if _job(connection, "stop"):
            _job(connection, "start")


def quoted(name: str) -> str:
    """An identifier in brackets."""
    return f"[{name.replace(']', ']]')}]"


def native_numbers(error: Exception) -> set[int]:
    """SQL Server's error numbers in the text of a driver's error."""
    return {int(number) for number in _NATIVE_NUMBER.findall(str(error.args[-1]))}


def capture_by_hand(connection: pyodbc.Connection, limit_s: float = CAPTURE_LIMIT_S) -> bool:
    """Read the log of the connection's database to its end.

    Returns:
        Whether the capture job was stopped for it.

    Raises:
        CaptureTimeout: another connection read the log all the time.
    """
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    is_stopped = False
    while not _scan(connection):
        if time.monotonic() > deadline:
            database = connection.execute("SELECT DB_NAME()").fetchval()
            raise CaptureTimeout(
                f"database {database}: another connection read the log for {limit_s:g} s. Stop the"
                " transactional publication or the other test that uses this database."
            )
        is_stopped = is_stopped or _job(connection, "stop")
        pause.wait(_RETRY_S)
    return is_stopped


def _scan(connection: pyodbc.Connection) -> bool:
    """Read the log to its end; False when another connection is reading it."""
    import pyodbc

    try:
        connection.execute("EXEC sys.sp_cdc_scan @maxtrans = 5000, @maxscans = 100")
    except pyodbc.Error as error:
        if _LOG_IS_BEING_READ in native_numbers(error):
            return False
        raise
    return True


def _job(connection: pyodbc.Connection, verb: str) -> bool:
    """Start or stop the capture job; False when it was so already or there is no Agent."""
    import pyodbc

    with contextlib.suppress(pyodbc.Error):
        connection.execute(f"EXEC sys.sp_cdc_{verb}_job @job_type = N'capture'")
        return True
    return False
