"""The embedded SQL Server as a child process: reached only over TDS, as a real one would be."""

import datetime
import json
import secrets
import socket
import struct
import sys
from pathlib import Path
from typing import Literal

from tailrace_emulator.testing import odbc
from tailrace_emulator.testing.process import ChildProcess, free_port
from tailrace_emulator.testing.service import Service

READY_LIMIT_S = 120.0
LOGIN = "sa"
# TDS PRELOGIN in one packet: header (type 18, last packet, 20 bytes), then one option, the version
# (offset 6, 6 bytes), the end of the options, and the version, which a server does not judge.
_PRELOGIN_REQUEST = (
    struct.pack(">BBHHBB", 18, 1, 20, 0, 1, 0) + b"\x00\x00\x06\x00\x06\xff" + bytes(6)
)
_TABULAR_RESULT = b"\x04"

AgentMode = Literal["auto", "manual", "stopped"]
"""auto runs the capture and cleanup jobs, manual only records them, stopped refuses them."""


class EmulatorProcess(Service):
    """One embedded server; a restart continues with the same databases and the same password."""

    name = "embedded SQL Server"
    log_name = "emulator.log"

    def __init__(
        self,
        data_dir: Path,
        password: str | None = None,
        *,
        port: int | None = None,
        agent: AgentMode = "auto",
        clock: datetime.datetime | None = None,
        admin: bool = False,
        keep: bool = False,
    ) -> None:
        """Describes the server.

        Args:
            data_dir: holds its databases, its certificate and its output; created when missing.
            password: of the login `sa`; when None, the one that the data directory already has,
                else a random one.
            port: the TDS port; a free one when None.
            agent: what becomes of SQL Server Agent's jobs.
            clock: where its clock begins and stands still, which needs ``admin``; the machine's
                when None.
            admin: allow the procedures ``tailrace.*``, which move the clock and run the jobs.
            keep: let it live on after this process.
        """
        super().__init__(data_dir, port=port, keep=keep)
        self._password = password
        self._agent = agent
        self._clock = clock
        self._admin = admin

    @property
    def password(self) -> str:
        """The password of the login `sa`."""
        if self._password is None:
            if not self.password_file.exists():
                raise RuntimeError("the embedded SQL Server was not started yet")
            self._password = self.password_file.read_text().strip()
        return self._password

    @property
    def password_file(self) -> Path:
        """The file with the password, readable by its owner only."""
        return self._data_dir / "sa.password"

    def connection_string(self, database: str = "master") -> str:
        """Returns an ODBC connection string; it holds the password, so it is not for logs."""
        return (
            f"DRIVER={odbc.driver()};SERVER=127.0.0.1,{self.port};DATABASE={database};UID={LOGIN};"
            f"PWD={{{self.password.replace('}', '}}')}}};Encrypt=yes;TrustServerCertificate=yes"
        )

    def start(self) -> int:
        """Starts the server.

        Returns:
            Its TDS port, once it answers.

        Raises:
            ProcessFailed: it ended or was not ready in time.
        """
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._write_password()
        self._port = self._port or free_port()
        output = self._data_dir / "emulator.out"
        command = [
            sys.executable,
            "-m",
            "tailrace_emulator",
            "--data-dir",
            str(self._data_dir / "data"),
        ]
        command += ["--port", str(self._port), "--password-file", str(self.password_file)]
        command += ["--agent", self._agent]
        if self._admin:
            command.append("--admin")
        if self._clock is not None:
            command += ["--clock", self._clock.isoformat()]
        self._process = ChildProcess(
            self.name, command, self.log, output=output, keep=self._keep
        ).start()
        self._process.wait_until_ready(lambda: self._announced(output), READY_LIMIT_S)
        return self.port

    def answers(self) -> bool:
        """As in `Service`: a pre-login, which comes before any password."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(_PRELOGIN_REQUEST)
                return connection.recv(1) == _TABULAR_RESULT
        except OSError:
            return False

    def _write_password(self) -> None:
        if self._password is None and self.password_file.exists():
            self._password = self.password_file.read_text().strip()
            return
        self._password = self._password or secrets.token_urlsafe(24)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(self._password)

    def _announced(self, output: Path) -> bool:
        """Whether the server printed its line `{"port": N}` and answers there."""
        line, newline, _ = output.read_text().partition("\n")
        if not newline:
            return False
        self._port = int(json.loads(line)["port"])
        return self.answers()
