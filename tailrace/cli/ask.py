"""Commands that ask something of a running publisher: snapshot, pause, resume, stop-table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import CONFIG, SET, check_options, failing_with, settings_of

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_schemas.records.signals import Signal, TableOrder

_WAIT = click.option(
    "--wait",
    "wait_s",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to wait until the publisher has taken it up; 0: only ask.",
)


@click.command()
@CONFIG
@SET
@click.argument("tables", nargs=-1, metavar="SCHEMA.TABLE...")
@click.option(
    "--pause",
    "order",
    flag_value="pause",
    help="Read nothing more of a snapshot that is not over; the table's changes go on.",
)
@click.option("--resume", "order", flag_value="resume", help="Go on with it where it was.")
@click.option(
    "--stop",
    "order",
    flag_value="stop",
    help="Give it up; the table's changes go on, and the lake has the table as it was before the"
    " snapshot until a new one is out.",
)
@click.option(
    "--where",
    metavar="CONDITION",
    callback=lambda _context, _option, text: _condition(text),
    help="Only rows that meet this T-SQL condition are published again; the tables stay part of the"
    " lake's cuts, and keep their other rows.",
)
@_WAIT
def snapshot(
    config: Path | None,
    flags: tuple[str, ...],
    tables: tuple[str, ...],
    order: str | None,
    where: str | None,
    wait_s: float,
) -> None:
    """Ask the publisher for a new snapshot of tables, e.g. of those that were stopped.

    The lake's tables are replaced by it. With --where, rows of it are published again, and nothing
    is taken away: of tables with a key that are whole. The publisher need not be restarted; one
    that does not run takes it up when it starts. With --pause, --resume or --stop: about snapshots
    that are not over; of all tables where none is named.
    """
    from tailrace_schemas.records.signals import SnapshotSignal, TableOrder

    if order is not None and where is not None:
        raise click.UsageError(f"--where goes with a new snapshot, not with --{order}.")
    if order is None:
        if not tables:
            raise click.UsageError("Missing argument 'SCHEMA.TABLE...'.")
        if where is not None:
            _ask_of_tables(config, flags, tables, wait_s, _partial(where), "a partial snapshot")
            return
        _ask_of_tables(config, flags, tables, wait_s, SnapshotSignal, "a new snapshot")
    else:
        wanted = TableOrder(f"{order}_snapshot")
        _ask_of_tables(config, flags, tables, wait_s, _of(wanted), f"snapshots to {order}")


@click.command()
@CONFIG
@SET
@_WAIT
def pause(config: Path | None, flags: tuple[str, ...], wait_s: float) -> None:
    """Have the publisher publish nothing until it is resumed; a restart does not undo it.

    It lives on and keeps its place. It ends by itself after publisher.pause_max_h hours.
    """
    from tailrace_schemas.records.signals import PauseSignal

    _ask_of_publisher(config, flags, wait_s, PauseSignal(True), "the publisher to pause")


@click.command()
@CONFIG
@SET
@_WAIT
def resume(config: Path | None, flags: tuple[str, ...], wait_s: float) -> None:
    """Have a publisher that is paused go on where it was."""
    from tailrace_schemas.records.signals import PauseSignal

    _ask_of_publisher(config, flags, wait_s, PauseSignal(False), "the publisher to resume")


@click.command("stop-table")
@CONFIG
@SET
@click.argument("tables", nargs=-1, required=True, metavar="SCHEMA.TABLE...")
@_WAIT
def stop_table(
    config: Path | None, flags: tuple[str, ...], tables: tuple[str, ...], wait_s: float
) -> None:
    """Have the publisher publish nothing more of tables, until a snapshot is asked for.

    They leave the lake's cuts; their changes from now on are not in their topics.
    """
    from tailrace_schemas.records.signals import TableOrder

    _ask_of_tables(config, flags, tables, wait_s, _of(TableOrder.STOP_TABLE), "a stop")


def _condition(text: str | None) -> str | None:
    from tailrace_publisher.options.sql_condition import check_condition

    if text is not None:
        try:
            check_condition(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return text


def _partial(where: str) -> Callable[[tuple[str, ...]], Signal]:
    from tailrace_schemas.records.signals import SnapshotSignal

    return lambda tables: SnapshotSignal(tables, dict.fromkeys(tables, where))


def _of(order: TableOrder) -> Callable[[tuple[str, ...]], Signal]:
    from tailrace_schemas.records.signals import TableSignal

    return lambda tables: TableSignal(order, tables)


def _ask_of_tables(
    config: Path | None,
    flags: tuple[str, ...],
    tables: tuple[str, ...],
    wait_s: float,
    signal_of: Callable[[tuple[str, ...]], Signal],
    what: str,
) -> None:
    checked = _checked(config, flags)
    from tailrace.signals.request import SignalNotTaken, ask

    with failing_with(SignalNotTaken):
        ask(checked, tables, wait_s, signal_of, what)


def _ask_of_publisher(
    config: Path | None, flags: tuple[str, ...], wait_s: float, signal: Signal, what: str
) -> None:
    checked = _checked(config, flags)
    from tailrace.signals.request import SignalNotTaken, ask_publisher

    with failing_with(SignalNotTaken):
        ask_publisher(checked, signal, wait_s, what)


def _checked(config: Path | None, flags: tuple[str, ...]) -> PublisherConfig:
    settings = settings_of(config, flags, "publisher", "source")
    checked: PublisherConfig = check_options(settings.publisher)
    return checked


ASK = (snapshot, pause, resume, stop_table)
