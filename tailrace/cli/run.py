"""Commands that run the daemons: publish, sink."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import LOG_FORMAT, Configuration, configured, fail, failing_with
from tailrace.cli.stop_on_signal import StopOnSignal

if TYPE_CHECKING:
    from tailrace.cli.log_format import LogFormat


@click.command()
@click.option(
    "--take-over",
    is_flag=True,
    help="Start although another process publishes the database; that process ends.",
)
@LOG_FORMAT
@configured
def publish(configuration: Configuration, take_over: bool, log_format: LogFormat) -> None:
    """Publish the changes of one or several databases.

    Runs until SIGTERM. If the configuration has the section databases, publishes all of them, or
    the one that --database names. SIGHUP starts those again that have stopped. With fleet.join,
    other processes share the databases, or stand by (docs/scaling.md).
    """
    several = configuration.publishers
    configs = [configuration.publisher] if several is None else list(several.values())
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
            refuse_second(configs)
    start = None if several is None else threading.Event()
    with StopSignal(hang_up=start) as stop, failing_with(PublisherError, named=True):
        if several is None:
            run(configs[0], stop)
        else:
            run_databases(several, stop, start=start)


@click.command()
@click.option("--once", is_flag=True, help="Write what is in the topics now, then end.")
@LOG_FORMAT
@configured
def sink(configuration: Configuration, once: bool, log_format: LogFormat) -> None:
    """Write the topics into lake tables.

    Runs until SIGTERM. With --once it ends with 0 when everything is written, with 1 if it failed
    or was stopped.
    """
    config = configuration.sink
    from tailrace.cli.log_format import set_log_format
    from tailrace.cli.progress_bar import progress_bar
    from tailrace_compose.local.jars import spark_jars
    from tailrace_service.registry.client import RegistryError
    from tailrace_sink.daemon.start import run
    from tailrace_sink.errors import SinkError
    from tailrace_sink.watch.metrics import SinkMetrics

    set_log_format(log_format, "sink")
    metrics = SinkMetrics()
    bar = progress_bar(metrics, once=once) if sys.stderr.isatty() else nullcontext()
    with StopOnSignal() as stop, bar:
        with failing_with(SinkError, RegistryError, named=True):
            run(config, spark_jars(config.lake, config.format), stop, once=once, metrics=metrics)
        if once and stop.is_set():
            fail("Stopped before everything was written. Fix: run it again; it resumes")
