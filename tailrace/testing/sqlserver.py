"""A genuine SQL Server in a container, with SQL Server Agent, ready for change data capture."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import closing
from types import TracebackType
from typing import Final, Self

from testcontainers.core.container import DockerContainer

from tailrace.testing import engine
from tailrace.testing.errors import EulaNotAccepted, PasswordRefused
from tailrace_emulator.testing.errors import NotStarted
from tailrace_emulator.testing.process import free_port
from tailrace_emulator.testing.source import CdcSource

DEFAULT_IMAGE: Final = "mcr.microsoft.com/mssql/server:2022-latest"
IMAGE_VARIABLE: Final = "TAILRACE_SQLSERVER_IMAGE"
READY_LIMIT_S: Final = 180.0
"""A first start on a slow disk took more than a minute."""
_TDS_PORT: Final = 1433
_PASSWORD_LENGTH: Final = range(8, 129)
_KINDS: Final = (r"[A-Z]", r"[a-z]", r"[0-9]", r"[^A-Za-z0-9]")
_KINDS_MIN: Final = 3
_TERMS: Final = "https://go.microsoft.com/fwlink/?linkid=857698"


class SqlServerCdcContainer(DockerContainer, CdcSource):
    """SQL Server 2022 with its Agent, in testcontainers' style.

    ::

        with SqlServerCdcContainer(accept_eula=True) as server:
            server.create_database("Shop", "CREATE TABLE dbo.orders (id int PRIMARY KEY)")
            server.enable_cdc("Shop", "orders")

    The image is that of the argument, of TAILRACE_SQLSERVER_IMAGE, or Microsoft's newest 2022. Any
    image that is configured by the same variables will do, Tailrace's own emulator image included.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        accept_eula: bool = False,
        password: str | None = None,
        port: int | None = None,
        edition: str = "Developer",
        start_limit_s: float = READY_LIMIT_S,
    ) -> None:
        """Describes the container; ``start`` or ``with`` starts it.

        Args:
            accept_eula: you accept the terms of SQL Server; the variable ACCEPT_EULA=Y does, too.
            password: of ``sa``; random when None.
            port: the TDS port on this machine; a free one when None.
            edition: MSSQL_PID; Developer is free for development and tests and has everything.
            start_limit_s: how long the start may take, in seconds.

        Raises:
            EngineUnavailable: no container engine answers.
            EulaNotAccepted: it is Microsoft's image and nobody accepted its terms.
            PasswordRefused: SQL Server would not take the password.
        """
        image = image or os.environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE
        accepted = accept_eula or os.environ.get("ACCEPT_EULA", "").upper() == "Y"
        if "mssql" in image and not accepted:
            raise EulaNotAccepted(
                f"{image} may be used only by those who accept its terms ({_TERMS}): pass"
                " accept_eula=True or set ACCEPT_EULA=Y. EmulatedSqlServer has no such terms."
            )
        self._sa_password = check_password(password or f"{secrets.token_urlsafe(18)}-Aa1")
        self._wanted_port = port
        self._start_limit_s = start_limit_s
        self._tds_port: int | None = None
        self._shares_network = not engine.has_bridge()
        super().__init__(image)
        # The image takes the password from a variable only; it is random and dies with the test.
        self.with_env("MSSQL_SA_PASSWORD", self._sa_password)
        self.with_env("MSSQL_PID", edition)
        self.with_env("MSSQL_AGENT_ENABLED", "true")
        self.with_env("ACCEPT_EULA", "Y" if accepted else "N")

    @property
    def port(self) -> int:
        """The TDS port on this machine."""
        if self._tds_port is None:
            raise NotStarted(
                "SQL Server was not started: use `with SqlServerCdcContainer() as server:`"
            )
        return self._tds_port

    @property
    def password(self) -> str:
        """The password of ``sa``."""
        return self._sa_password

    def start(self) -> Self:
        """Starts it and waits until it lets ``sa`` in and its Agent runs.

        Raises:
            ImageMissing, PortTaken, ContainerFailed: each says what to do; nothing is left behind.
        """
        if self._shares_network:
            port = self._wanted_port or free_port()
            self.with_env("MSSQL_TCP_PORT", str(port)).with_env("MSSQL_IP_ADDRESS", "127.0.0.1")
            self.with_kwargs(network_mode="host")
            engine.start(self, port=port)
            self._tds_port = port
        else:
            if self._wanted_port is None:
                self.with_exposed_ports(_TDS_PORT)
            else:
                self.with_bind_ports(_TDS_PORT, self._wanted_port)
            engine.start(self, port=self._wanted_port)
            self._tds_port = self.get_exposed_port(_TDS_PORT)
            self.host = self.get_container_host_ip()
        try:
            engine.wait_until(self, self._is_ready, self._start_limit_s, "login and Agent")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Removes the container and its data; does nothing when that has happened."""
        if self._container is not None:
            super().stop(force, delete_volume)
            self._container = None
        self._tds_port = None

    def kill(self) -> None:
        """Kills the server as a power cut would; :meth:`restart` brings it back with its data."""
        self.get_wrapped_container().kill()

    def restart(self) -> None:
        """Starts it again after :meth:`kill`, on the same port with the same databases.

        Raises:
            ContainerFailed: it did not come back in time.
        """
        self.get_wrapped_container().start()
        if not self._shares_network:
            self._tds_port = self.get_exposed_port(_TDS_PORT)
        engine.wait_until(self, self._is_ready, self._start_limit_s, "login and Agent")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.stop()

    def _is_ready(self) -> bool:
        import pyodbc

        try:
            with closing(self.connect(timeout_s=3)) as connection:
                # The Agent shows itself as sessions of its own; other servers have none to show.
                return bool(
                    connection.execute(
                        "SELECT CASE WHEN @@VERSION NOT LIKE 'Microsoft SQL Server%' THEN 1 ELSE"
                        " (SELECT COUNT(*) FROM sys.dm_exec_sessions"
                        " WHERE program_name LIKE 'SQLAgent%') END"
                    ).fetchval()
                )
        except pyodbc.Error:
            return False


def check_password(password: str) -> str:
    """Return the password if SQL Server's own rule accepts it for ``sa``.

    Raises:
        PasswordRefused: the text has the rule.
    """
    kinds = sum(bool(re.search(kind, password)) for kind in _KINDS)
    if len(password) not in _PASSWORD_LENGTH or kinds < _KINDS_MIN:
        raise PasswordRefused(
            "SQL Server takes a password of sa with 8 to 128 characters of three kinds: capitals,"
            f" small letters, digits, others. This one has {len(password)} of {kinds}."
        )
    return password
