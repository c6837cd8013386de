"""The command that compares source and lake: verify."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

import click

from tailrace.cli.options import LOG_FORMAT, Configuration, configured, failing_with
from tailrace.reading.terminal import shown_json

if TYPE_CHECKING:
    from tailrace.cli.log_format import LogFormat
    from tailrace.verify.pace import Hours
    from tailrace.verify.verify import VerifyOptions
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_service.options.endpoint import EndpointOptions
    from tailrace_sink.options.config import SinkConfig


@click.command()
@click.argument("tables", nargs=-1, metavar="[SCHEMA.TABLE...]")
@click.option(
    "--rows-per-second",
    "rows_per_s",
    type=click.IntRange(1),
    metavar="N",
    help="Read at most this many rows per second (100000; with --continuous 1000).",
)
@click.option(
    "--core-percent",
    default=100.0,
    show_default=True,
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="Use at most this share of a processor of the source.",
)
@click.option("--secondary", is_flag=True, help="Read the tables from a readable secondary.")
@click.option(
    "--wait",
    "wait_s",
    default=120.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait at most this long for a cut that has what was read.",
)
@click.option(
    "--examples",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Show at most this many differing rows per table.",
)
@click.option(
    "--html",
    "page",
    type=click.File("w", encoding="utf-8", lazy=False),
    metavar="FILE",
    help="Write the report as one HTML page, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--repair", "repairs", is_flag=True, help="Have differing rows published again.")
@click.option("--continuous", is_flag=True, help="Compare part after part at a low rate, for ever.")
@click.option(
    "--hours",
    metavar="BEGIN-END",
    help="With --continuous: read only in these hours of the day (UTC), such as 22-6.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="With --continuous: port of /metrics and /health. Default: none is opened.",
)
@click.option(
    "--metrics-host",
    envvar="TAILRACE_VERIFY_METRICS_HOST",
    show_envvar=True,
    default="127.0.0.1",
    show_default=True,
    metavar="HOST",
    help="With --metrics-port: address to listen on.",
)
@LOG_FORMAT
@configured
def verify(
    configuration: Configuration,
    tables: tuple[str, ...],
    rows_per_s: int | None,
    core_percent: float,
    secondary: bool,
    wait_s: float,
    examples: int,
    page: TextIO | None,
    as_json: bool,
    repairs: bool,
    continuous: bool,
    hours: str | None,
    metrics_port: int | None,
    metrics_host: str,
    log_format: LogFormat,
) -> None:
    """Compare every row of source and lake as they move.

    SQL Server writes and hashes its rows, Spark those of a cut. Rows that changed meanwhile are
    compared again at a later cut, so only true differences are reported. Shows key, columns and
    both values of differing rows. Without a table: all tables. Needs the sink's extra and Java.

    With --repair, the publisher reads the differing rows again, and publishes each as it is, or as
    deleted. They are compared again once the sink has applied that. Not possible for tables without
    a primary key, and for more than 1,000 rows: take a snapshot of the table.

    Ends with 0 if all rows are equal, with 3 if some differ. Ends with 4 if none differs, but some
    could not be compared.

    With --continuous it runs until SIGTERM: logs what differs, and shows what was verified in
    /metrics and on the page. It stores that in the lake, and continues from there after a restart.
    """
    given: dict[str, object] = {"--html": page, "--json": as_json, "--repair": repairs}
    given |= {"--hours": hours, "--metrics-port": metrics_port}
    wrong = ("--html", "--json", "--repair") if continuous else ("--hours", "--metrics-port")
    for name in wrong:
        if given[name] not in (None, False):
            other = "cannot be used" if continuous else "can be used only"
            raise click.UsageError(f"{name} {other} with --continuous.")
    within = _hours(hours)
    publisher, sink = configuration.publisher, configuration.sink
    from tailrace.verify.compare import Limits
    from tailrace.verify.pace import CONTINUOUS_ROWS_PER_S, ROWS_PER_S
    from tailrace.verify.verify import VerifyOptions

    rows_per_s = rows_per_s or (CONTINUOUS_ROWS_PER_S if continuous else ROWS_PER_S)
    limits = Limits(wait_s, examples)
    options = VerifyOptions(tables, rows_per_s, secondary, limits, core_percent, repairs)
    if continuous:
        from tailrace.cli.log_format import set_log_format
        from tailrace_service.options.endpoint import EndpointOptions

        set_log_format(log_format, "verify")
        served = EndpointOptions(metrics_port=metrics_port, metrics_host=metrics_host)
        _run(publisher, sink, options, within, served)
        return
    from tailrace.cli.log_format import quiet_logs
    from tailrace.reading.change_rows import NotThere
    from tailrace.reading.lake_session import configured_session
    from tailrace.verify.page import verification_page
    from tailrace.verify.report import exit_code, print_verification, verification_json
    from tailrace.verify.verify import verify as compare

    spark = configured_session(sink)
    try:
        with failing_with(NotThere), quiet_logs():
            found = compare(publisher, sink, spark, options)
    finally:
        spark.stop()
    if page is not None:
        page.write(verification_page(found, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"))
    if as_json:
        click.echo(shown_json(verification_json(found)))
    else:
        print_verification(found)
    sys.exit(exit_code(found))


def _run(
    publisher: PublisherConfig,
    sink: SinkConfig,
    options: VerifyOptions,
    hours: Hours | None,
    served: EndpointOptions,
) -> None:
    """Compare part after part until SIGTERM."""
    from tailrace.cli.stop_on_signal import StopOnSignal
    from tailrace.reading.change_rows import NotThere
    from tailrace.reading.lake_session import configured_session
    from tailrace.verify.continuous import Steps, metrics_served
    from tailrace.verify.metrics import VerifyMetrics
    from tailrace.verify.verified import VerifiedUnreadable
    from tailrace_service.endpoint import EndpointRefused

    metrics = VerifyMetrics()
    with (
        failing_with(NotThere, VerifiedUnreadable, EndpointRefused),
        StopOnSignal() as stop,
        metrics_served(served, metrics),
    ):
        spark = configured_session(sink)
        try:
            Steps(publisher, sink, spark, options, hours).run(metrics, stop)
        finally:
            spark.stop()


def _hours(text: str | None) -> Hours | None:
    from tailrace.verify.pace import Hours

    try:
        return None if text is None else Hours.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--hours") from error
