"""Starts the embedded server in its image, configured like the SQL Server image.

- ``MSSQL_SA_PASSWORD`` or, better, ``MSSQL_SA_PASSWORD_FILE``
- ``MSSQL_AGENT_ENABLED``: true runs the jobs. Anything else imitates an Agent that is not running,
  as in SQL Server's image.
- ``MSSQL_TCP_PORT`` and ``MSSQL_IP_ADDRESS``
- ``TAILRACE_AGENT``: overrides the Agent with auto, manual or stopped

The program becomes the server, so that it is process 1 and gets the container's SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

DATA_DIR = "/var/opt/mssql"
PASSWORD = "MSSQL_SA_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_FILE = f"{PASSWORD}_FILE"


class NotConfigured(Exception):
    """A variable is missing or not usable; the message says which and how to set it."""


def arguments_of(environ: Mapping[str, str], password_file: str) -> list[str]:
    """Return the server's arguments.

    Raises:
        NotConfigured: TAILRACE_AGENT has an unknown value.
    """
    is_enabled = environ.get("MSSQL_AGENT_ENABLED", "false").lower() in ("true", "1")
    agent = environ.get("TAILRACE_AGENT") or ("auto" if is_enabled else "stopped")
    if agent not in ("auto", "manual", "stopped"):
        raise NotConfigured(f"TAILRACE_AGENT={agent}: it is auto, manual or stopped")
    arguments = ["--data-dir", DATA_DIR, "--password-file", password_file, "--agent", agent]
    arguments += ["--port", environ.get("MSSQL_TCP_PORT", "1433")]
    # Inside a container every address is the container's own.
    return [*arguments, "--host", environ.get("MSSQL_IP_ADDRESS", "0.0.0.0")]  # noqa: S104


def password_file_of(environ: Mapping[str, str]) -> str:
    """Return the file with the password of sa; one in memory if a variable holds the password.

    Raises:
        NotConfigured: there is no password, or its file cannot be read.
    """
    named = environ.get(PASSWORD_FILE)
    if named:
        try:
            Path(named).read_text()
        except OSError as error:
            raise NotConfigured(
                f"{PASSWORD_FILE}={named}: {error.strerror}; mount it as a secret that user"
                f" {os.getuid()} may read"
            ) from error
        return named
    password = environ.get(PASSWORD)
    if not password:
        raise NotConfigured(
            f"no password for sa: set {PASSWORD_FILE} to a file with it, or {PASSWORD}"
        )
    # Without MFD_CLOEXEC, so that the server that we become can read it.
    handle = os.memfd_create("sa_password", 0)
    os.write(handle, password.encode())
    return f"/proc/self/fd/{handle}"


def main() -> int:
    """Become the server; return only if that fails."""
    try:
        command = [sys.executable, "-m", "tailrace_emulator"]
        command += arguments_of(os.environ, password_file_of(os.environ))
    except NotConfigured as error:
        sys.stderr.write(f"tailrace-emulator: {error}\n")
        return 2
    environ = {name: value for name, value in os.environ.items() if name != PASSWORD}
    os.execve(command[0], command, environ)  # noqa: S606 - becoming the server is the purpose


if __name__ == "__main__":
    sys.exit(main())
