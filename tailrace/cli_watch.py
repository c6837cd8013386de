"""Commands that watch: lag."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tailrace.cli_options import CONFIG, SET, check_options, settings_of


@click.command()
@CONFIG
@SET
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--every",
    "every_s",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.2, 3600),
    metavar="SECONDS",
    help="With --watch: the pause between two looks.",
)
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
    from tailrace.lag import show
    from tailrace.statements import quiet_logs

    try:
        with quiet_logs():
            show(settings, every_s=every_s if watch else None, as_json=as_json, worst_first=worst)
    except KeyboardInterrupt:
        sys.exit(130)


WATCH = (lag,)
