"""Commands that need no configuration: the demo, the local stack, the embedded server alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import Configuration, failing_with

if TYPE_CHECKING:
    from collections.abc import Callable

_STACK = ".tailrace/stack"


def _data_dir(default: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the option --data-dir to a command."""
    return click.option(
        "--data-dir",
        default=Path(default),
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
        help=text,
    )


@click.command()
@click.option(
    "--days",
    default=1,
    show_default=True,
    type=click.IntRange(1, 365),
    help="Days of 2013 to replay, from 1 January.",
)
@click.option(
    "--rate",
    default=120.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Statements per second against the source; 0: no limit.",
)
@click.option(
    "--polling-interval",
    default=1,
    show_default=True,
    type=click.IntRange(0, 3600),
    help="Seconds between scans of the capture job (SQL Server's own default is 5).",
)
@click.option(
    "--lake",
    default="local",
    show_default=True,
    type=click.Choice(("local", "s3")),
    help="Lake in the folder, or in an S3 store that the demo starts.",
)
@_data_dir(".tailrace/demo", "Folder for source, topics and lake; emptied at the start.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the last picture of the live view to this file.",
)
def demo(
    days: int, rate: float, polling_interval: int, lake: str, data_dir: Path, svg: Path | None
) -> None:
    """Replay a day of real flights; verify every row.

    Halfway through, the demo adds a column that rotation follows, and kills the publisher.
    """
    from tailrace.demo.run import DemoOptions, run

    options = DemoOptions(days, rate, polling_interval, data_dir.resolve(), lake == "s3", svg)
    sys.exit(run(options))


@click.command()
@_data_dir(_STACK, "Folder that keeps data and addresses between starts.")
def up(data_dir: Path) -> None:
    """Start a local broker, registry and SQL Server.

    They run until tailrace down, for your own work. Prints the addresses.
    """
    from tailrace.local.stack import start

    sys.exit(start(data_dir.resolve()))


@click.command()
@_data_dir(_STACK, "The folder that up was given.")
def down(data_dir: Path) -> None:
    """Stop what up started; keep the data."""
    from tailrace.local.stack import stop

    sys.exit(stop(data_dir.resolve()))


@click.command()
@_data_dir(_STACK, "The folder that up was given.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Use the source of this configuration, as its login, instead of the stack.",
)
@click.option(
    "--database",
    metavar="NAME",
    help="Database to run it in. Default: master. With --config: which of several.",
)
@click.argument("text", required=False, metavar="[STATEMENT]")
def sql(data_dir: Path, config: Path | None, database: str | None, text: str | None) -> None:
    """Run T-SQL on the stack's server or on a source.

    Without a statement, runs what it reads from stdin; GO separates batches. Needs no registered
    ODBC driver.
    """
    from tailrace.local.sql import SqlFailed, run, stack_source
    from tailrace_publisher.errors import PublisherError

    script = sys.stdin.read() if text is None else text
    with failing_with(SqlFailed, PublisherError):
        if config is None:
            source = stack_source(data_dir.resolve(), database or "master")
        else:
            source = Configuration(config, database, ()).publisher.source
        run(source, script)


@click.command()
@_data_dir(".tailrace/emulator", "Folder that keeps the databases between starts.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=1433,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the password of sa. Default: $TAILRACE_EMULATOR_PASSWORD.",
)
@click.option(
    "--agent",
    default="auto",
    show_default=True,
    type=click.Choice(("auto", "manual", "stopped")),
    help="Jobs of CDC: auto runs them, manual only records them, stopped refuses them.",
)
@click.option(
    "--agent-start-delay",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="Delay between the start of a job and its first step.",
)
@click.option(
    "--admin",
    is_flag=True,
    help="Allow the procedures tailrace.*: they move the clock and run the jobs.",
)
@click.option(
    "--clock",
    metavar="TIME",
    help="Start at this time (ISO 8601, UTC); stand still until tailrace.advance_clock.",
)
def emulator(
    data_dir: Path,
    host: str,
    port: int,
    password_file: Path | None,
    agent: str,
    agent_start_delay: float,
    admin: bool,
    clock: str | None,
) -> None:
    """Run the embedded SQL Server alone."""
    from tailrace.local.emulator import EmulatorOptions, run

    options = EmulatorOptions(
        data_dir.resolve(), host, port, password_file, agent, admin, clock, agent_start_delay
    )
    sys.exit(run(options))
