"""Commands that watch: lag, web."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import click

from tailrace.cli.options import CONFIG, SET, check_options, fail, settings_of


def _every(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option --every, for a command."""
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
@CONFIG
@SET
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@_every("With --watch: the pause between two looks.")
@click.option("--worst", is_flag=True, help="Those that are furthest behind first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a look.")
def lag(
    config: Path | None,
    flags: tuple[str, ...],
    watch: bool,
    every_s: float,
    worst: bool,
    as_json: bool,
) -> None:
    """Show how fresh each table is at each joint: captured, topic, lake's log, lake's table.

    A part that does not answer is named; the others are shown all the same.
    """
    settings = settings_of(config, flags, "publisher", "source")
    check_options(settings.publisher)
    if settings.has_sink:
        check_options(settings.sink)
    from tailrace.cli.log_format import quiet_logs
    from tailrace.lag.report import show

    try:
        with quiet_logs():
            show(settings, every_s=every_s if watch else None, as_json=as_json, worst_first=worst)
    except KeyboardInterrupt:
        sys.exit(130)


@click.command()
@CONFIG
@SET
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="TAILRACE_WEB_HOST",
    help="Address to listen on.",
)
@click.option(
    "--port",
    default=9406,
    show_default=True,
    type=click.IntRange(0, 65535),
    envvar="TAILRACE_WEB_PORT",
    help="0 takes a free one.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_WEB_TOKEN_FILE",
    help="File whose first line is the token (16 characters or more) that every request needs: as"
    " a browser's password, or as Authorization: Bearer. Needed where --host is not a loopback"
    " address.",
)
@click.option(
    "--certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_WEB_CERTIFICATE",
    help="Certificate (PEM, with its chain) to serve the page with TLS.",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="TAILRACE_WEB_KEY",
    help="Its key (PEM, without a password), if that is not in the same file.",
)
@_every("The pause between two looks at all parts.")
@click.option(
    "--publisher-url",
    "publisher_urls",
    multiple=True,
    help="Its endpoint, if it is not where metrics_port says; once for each of several.",
)
@click.option("--sink-url", help="The same of the sink.")
def web(
    config: Path | None,
    flags: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
    every_s: float,
    publisher_urls: tuple[str, ...],
    sink_url: str | None,
) -> None:
    """Serve one page that shows source, capture, topics and lake, and how far each is."""
    settings = settings_of(config, flags, "publisher", "source")
    check_options(settings.publisher)
    if settings.has_sink:
        check_options(settings.sink)
    from tailrace.cli.log_format import quiet_logs
    from tailrace.web.run import WebOptions, WebRefused, serving, weaknesses
    from tailrace_compose.stop_signal import StopSignal

    options = WebOptions(
        host, port, token_file, certificate, key, every_s, publisher_urls, sink_url
    )
    try:
        with quiet_logs(logging.ERROR), StopSignal() as stop, serving(settings, options) as url:
            click.echo(f"The page is at {url}")
            for weakness in weaknesses(options):
                click.echo(weakness, err=True)
            stop.wait()
    except WebRefused as error:
        fail(str(error))


WATCH = (lag, web)
