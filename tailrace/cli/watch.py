"""Commands that watch: status, lag, web."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from tailrace.cli.options import Configuration, checked, configured, fail, failing_with

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings
    from tailrace_service.status import Backlog


def _every(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the option --every to a command."""
    return click.option(
        "--every",
        "every_s",
        default=2.0,
        show_default=True,
        type=click.FloatRange(0.2, 3600),
        metavar="SECONDS",
        help=text,
    )


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--check",
    is_flag=True,
    help="Print only the verdict. Ends with 0 (good), 1 (warning) or 2 (problem).",
)
@configured
def status(configuration: Configuration, as_json: bool, check: bool) -> None:
    """Show the lag of topics and lake, table by table.

    With --check, judges everything that tailrace web shows, for a monitoring system.
    """
    configuration.check()
    from tailrace.lag.stages import StageUnavailable
    from tailrace.lag.status import show

    if check:
        _check(configuration.settings)
    with failing_with(StageUnavailable):
        show(configuration.settings, _backlog(configuration.settings), as_json=as_json)


def _backlog(settings: Settings) -> Backlog | None:
    """Ask the sink of this configuration, if it answers on this machine."""
    from tailrace.web.daemons import DaemonUnavailable, address_of, ask_status

    address = address_of(settings.sink()) if settings.has_sink else None
    try:
        return None if address is None else ask_status(address).backlog
    except DaemonUnavailable:
        return None


def _check(settings: Settings) -> NoReturn:
    """Print the verdict, and end as Nagios expects it."""
    from tailrace.cli.log_format import quiet_logs
    from tailrace.lag.verdict import State
    from tailrace.reading.terminal import shown
    from tailrace.web.run import look_once

    with quiet_logs():
        found = checked(lambda: look_once(settings).verdict)
    for sentence in found.sentences:
        click.echo(shown(sentence))
    sys.exit(list(State).index(found.state))


@click.command()
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@_every("With --watch: seconds between two refreshes.")
@click.option("--worst", is_flag=True, help="List the tables with the most lag first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per refresh.")
@configured
def lag(
    configuration: Configuration, watch: bool, every_s: float, worst: bool, as_json: bool
) -> None:
    """Show the lag of each table at each stage.

    The stages: captured, published, in the lake's log, in the lake's table. A part that does not
    answer is named; the others are shown all the same.
    """
    configuration.check()
    from tailrace.cli.log_format import quiet_logs
    from tailrace.lag.report import show

    pause_s = every_s if watch else None
    try:
        with quiet_logs():
            show(
                configuration.settings,
                partial(_backlog, configuration.settings),
                every_s=pause_s,
                as_json=as_json,
                worst_first=worst,
            )
    except KeyboardInterrupt:
        sys.exit(130)


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="TAILRACE_WEB_HOST",
    show_envvar=True,
    help="Address to listen on.",
)
@click.option(
    "--port",
    default=9406,
    show_default=True,
    type=click.IntRange(0, 65535),
    envvar="TAILRACE_WEB_PORT",
    show_envvar=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_WEB_TOKEN_FILE",
    show_envvar=True,
    help="File with the token that every request needs. See above.",
)
@click.option(
    "--certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_WEB_CERTIFICATE",
    show_envvar=True,
    help="Serve the page with TLS: certificate and chain (PEM).",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_WEB_KEY",
    show_envvar=True,
    help="Key of the certificate (PEM, without a password), if in a file of its own.",
)
@_every("Seconds between two refreshes.")
@click.option(
    "--publisher-url",
    "publisher_urls",
    multiple=True,
    metavar="URL",
    help="Endpoint of the publisher, if metrics_port does not lead to it. Repeatable.",
)
@click.option("--sink-url", metavar="URL", help="Endpoint of the sink, likewise.")
@configured
def web(
    configuration: Configuration,
    host: str,
    port: int,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
    every_s: float,
    publisher_urls: tuple[str, ...],
    sink_url: str | None,
) -> None:
    """Serve one page: what is wrong, and what to do.

    Shows the lag of each stage, stopped tables with the reason, and the lag of six hours. Menus
    request new snapshots, stops and pauses. Of several databases all are on the page.

    On a loopback address no token is needed. On any other address --token-file is required: its
    first line, of 16 characters or more. A browser takes it as the password; programs send it as
    Authorization: Bearer.
    """
    settings = configuration.all_settings
    for each in settings.databases.values() or (settings,):
        checked(each.check)
    import logging

    from tailrace.cli.log_format import quiet_logs
    from tailrace.web.run import WebOptions, WebRefused, serving
    from tailrace_compose.stop_signal import StopSignal
    from tailrace_service.http.access import token_weaknesses

    options = WebOptions(
        host, port, token_file, certificate, key, every_s, publisher_urls, sink_url
    )
    try:
        with quiet_logs(logging.ERROR), StopSignal() as stop, serving(settings, options) as url:
            click.echo(f"The page is at {url}")
            for reason, fix in token_weaknesses(host, token_file, is_encrypted=bool(certificate)):
                click.echo(f"{reason} Fix: {fix}", err=True)
            stop.wait()
    except WebRefused as error:
        fail(str(error))
