"""Commands that need no configuration: the demo, the local stack, the embedded server alone.

And the archive of Spark's classes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import failing_with

if TYPE_CHECKING:
    from collections.abc import Callable

_STACK = ".tailrace/stack"


def _data_dir(default: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option ``--data-dir``."""
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
    help="Statements per second against the source; 0: as fast as it goes.",
)
@click.option(
    "--polling-interval",
    default=1,
    show_default=True,
    type=click.IntRange(0, 3600),
    help="Seconds between the scans of SQL Server's capture job (its own default is 5).",
)
@_data_dir(".tailrace/demo", "Where source, topics and lake are kept; emptied at the start.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the last picture of the live view there.",
)
def demo(days: int, rate: float, polling_interval: int, data_dir: Path, svg: Path | None) -> None:
    """Replay real flights from SQL Server change tables to Delta tables, and verify the result."""
    from tailrace.demo.run import DemoOptions, run

    options = DemoOptions(days, rate, polling_interval, data_dir.resolve(), svg)
    sys.exit(run(options))


@click.command()
@_data_dir(_STACK, "Where the data and the addresses are kept between starts.")
def up(data_dir: Path) -> None:
    """Start broker, schema registry and embedded SQL Server, and keep them for your own work."""
    from tailrace.local.stack import start

    sys.exit(start(data_dir.resolve()))


@click.command()
@_data_dir(_STACK, "The directory that was given to up.")
def down(data_dir: Path) -> None:
    """Stop what up started; the data stays."""
    from tailrace.local.stack import stop

    sys.exit(stop(data_dir.resolve()))


@click.command()
@_data_dir(_STACK, "The directory that was given to up.")
@click.option("--database", default="master", show_default=True, help="Where it runs.")
@click.argument("text", required=False, metavar="[STATEMENT]")
def sql(data_dir: Path, database: str, text: str | None) -> None:
    """Run T-SQL at the SQL Server that up keeps; without a statement, what comes on stdin."""
    from tailrace.local.sql import SqlFailed, run

    script = sys.stdin.read() if text is None else text
    with failing_with(SqlFailed):
        run(data_dir.resolve(), database, script)


@click.command()
@_data_dir(".tailrace/emulator", "Where the server keeps its databases between starts.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=1433,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes a free one.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File whose text is the password of sa; without it, the environment variable"
    " TAILRACE_EMULATOR_PASSWORD is.",
)
@click.option(
    "--agent",
    default="auto",
    show_default=True,
    type=click.Choice(("auto", "manual", "stopped")),
    help="auto runs the capture and cleanup jobs; manual only records them; stopped refuses them.",
)
@click.option(
    "--agent-start-delay",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="How long after its start a job begins and reads its parameters.",
)
@click.option(
    "--admin",
    is_flag=True,
    help="Allow the procedures tailrace.*, which move the clock and run the jobs.",
)
@click.option(
    "--clock",
    metavar="TIME",
    help="Begin at this time (ISO 8601, UTC) and stand still until tailrace.advance_clock.",
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
    """Run the embedded SQL Server alone, with change data capture."""
    from tailrace.local.emulator import EmulatorOptions, run

    options = EmulatorOptions(
        data_dir.resolve(), host, port, password_file, agent, admin, clock, agent_start_delay
    )
    sys.exit(run(options))


@click.command("archive-classes")
def archive_classes() -> None:
    """Have sinks on this machine start sooner: keep the classes that Spark loads.

    Starts Spark once, without Kafka and lake, and writes an archive beside the jars in the cache
    folder, which every later sink with the same Java and jars maps into its memory. Run it again
    after an upgrade.
    """
    from tailrace_compose.local.jars import spark_jars
    from tailrace_sink.daemon.class_recording import record
    from tailrace_sink.errors import SinkError

    with failing_with(SinkError):
        archive = record(spark_jars())
    click.echo(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB")


LOCAL = (demo, up, down, sql, emulator, archive_classes)
