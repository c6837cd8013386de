"""A PostgreSQL server of the machine's own installation, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tailrace_emulator.testing.process import ChildProcess, free_port

_READY_LIMIT_S = 60.0
_USER = "postgres"


class Postgres:
    """One server on 127.0.0.1, without passwords."""

    def __init__(self) -> None:
        self.port = free_port()
        # Not below pytest's folder, which is closed to the user that root starts the server as.
        self._folder = Path(tempfile.mkdtemp(prefix="tailrace-postgres-"))
        self._process: ChildProcess | None = None

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        as_user: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            shutil.chown(self._folder, _USER, _USER)
            as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
        data = str(self._folder / "data")
        initdb = [_program("initdb"), "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8"]
        subprocess.run([*as_user, *initdb, "--no-sync"], check=True, capture_output=True)
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "timezone=UTC", "-c", "fsync=off"]
        command = [_program("postgres"), "-D", data, "-p", str(self.port)]
        self._process = ChildProcess(
            "PostgreSQL",
            [*as_user, *command, "-k", str(self._folder), *settings],
            self._folder / "postgres.log",
        ).start()
        self._process.wait_until_ready(self._answers, _READY_LIMIT_S)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def rows(self, sql: str) -> list[dict[str, str | None]]:
        """Rows of a query as text by column; none where its table is not there yet."""
        done = self._psql(f"SELECT row_to_json(r) FROM (SELECT {sql}) AS r")
        if done.returncode and "does not exist" in done.stderr:
            return []
        done.check_returncode()

        return [json.loads(line) for line in done.stdout.splitlines()]

    def _answers(self) -> bool:
        return self._psql("SELECT 1").returncode == 0

    def _psql(self, sql: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", _USER, "-d", "postgres"]
        command = [_program("psql"), *where, "-X", "-A", "-t", "-c", sql]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def _program(name: str) -> str:
    """A program of PostgreSQL; Debian has most of them beside the path."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(newest[-1]) if newest else None)
    assert found, f"{name} was not found: install PostgreSQL (Debian: apt-get install postgresql)"
    return found
