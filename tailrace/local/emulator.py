"""``tailrace emulator``: the embedded SQL Server alone, for your own work and tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from tailrace_emulator.__main__ import LOGIN, main


@dataclass(frozen=True)
class EmulatorOptions:
    """What the command was given; see its help for each."""

    data_dir: Path
    host: str
    port: int
    password_file: Path | None
    agent: str
    admin: bool
    clock: str | None
    agent_start_delay: float = 0.0


def arguments_of(options: EmulatorOptions) -> list[str]:
    """The options as the server's own command line takes them."""
    arguments = ["--data-dir", str(options.data_dir), "--host", options.host]
    arguments += ["--port", str(options.port), "--agent", options.agent]
    if options.password_file is not None:
        arguments += ["--password-file", str(options.password_file)]
    if options.agent_start_delay:
        arguments += ["--agent-start-delay", str(options.agent_start_delay)]
    if options.admin:
        arguments.append("--admin")
    if options.clock is not None:
        arguments += ["--clock", options.clock]
    return arguments


def connection_string(host: str, port: int) -> str:
    """For the Microsoft ODBC driver, without the password."""
    return (
        f"DRIVER={{ODBC Driver 18 for SQL Server}};SERVER={host},{port};UID={LOGIN};"
        "TrustServerCertificate=yes"
    )


def run(options: EmulatorOptions) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""

    def announce(port: int) -> None:
        click.echo(
            f"The embedded SQL Server listens on {options.host}:{port}; stop it with Ctrl-C."
        )
        click.echo(f"{connection_string(options.host, port)};PWD=<yours>")

    return main(arguments_of(options), announce)
