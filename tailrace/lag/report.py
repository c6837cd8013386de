"""``tailrace lag``: lag per table and stage, once or refreshed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tailrace.lag.backlog_bar import backlog_bar
from tailrace.lag.freshness import Freshness, FreshnessReader, TableFreshness
from tailrace.reading.stopped_tables import PublisherNotes, publisher_notes
from tailrace.reading.terminal import shown
from tailrace_publisher.errors import PublisherError
from tailrace_service.registry.client import RegistryError

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_service.status import Backlog

_STAGES = {"topics": "topic_s", "log": "log_s", "lake": "lake_s"}


def show(
    settings: Settings,
    backlog: Callable[[], Backlog | None],
    *,
    every_s: float | None,
    as_json: bool,
    worst_first: bool,
) -> None:
    """Print the lag once, or until Ctrl-C.

    Args:
        backlog: queries the sink; None if it does not answer.
        every_s: seconds between two refreshes; None: print once.
        as_json: one JSON object a line.
        worst_first: list the tables with the most lag first.

    Raises:
        SettingsError: the configuration is not usable.
    """
    reader, pause = FreshnessReader(settings), threading.Event()
    config = settings.publisher()
    if as_json:
        while True:
            found, notes = _look(reader, config)
            carried = backlog()
            answer = {"backlog": None if carried is None else asdict(carried)}
            click.echo(json.dumps(found.to_json() | notes.to_json() | answer))
            if every_s is None or pause.wait(every_s):
                return
    console = Console()
    if every_s is None:
        console.print(picture(*_look(reader, config), backlog(), worst_first=worst_first))
        return
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            found, notes = _look(reader, config)
            rows = max(1, console.size.height - 12) if console.is_terminal else None
            seen = picture(found, notes, backlog(), worst_first=worst_first, rows_max=rows)
            live.update(seen, refresh=True)
            pause.wait(every_s)


def _look(reader: FreshnessReader, config: PublisherConfig) -> tuple[Freshness, PublisherNotes]:
    """Ask all parts, and why tables are not in the cut, if anything is published."""
    found = reader.read()
    if found.stages["topics"].lsn is None:
        return found, PublisherNotes()
    try:
        return found, publisher_notes(config)
    except (PublisherError, RegistryError) as error:
        problems = {**found.problems, "checkpoint": str(error)}
        return replace(found, problems=problems), PublisherNotes()


def picture(
    found: Freshness,
    notes: PublisherNotes,
    backlog: Backlog | None = None,
    *,
    worst_first: bool,
    rows_max: int | None = None,
) -> Group:
    """What is shown of it."""
    stages = [name for name in _STAGES if name in found.stages]
    overall = Table(title="all tables", title_justify="left")
    for heading in ("", "complete up to LSN", "which is old"):
        overall.add_column(heading)
    for name, stage in found.stages.items():
        overall.add_row(name, stage.lsn or "nothing yet", _seconds(stage.age_s))
    tables = Table()
    for heading in ("table", "newest change", *(f"{name} behind" for name in stages)):
        justify: JustifyMethod = "right" if heading.endswith("behind") else "left"
        tables.add_column(heading, justify=justify, overflow="fold")
    rows = sorted(found.tables, key=_worst) if worst_first else list(found.tables)
    for table in rows[:rows_max]:
        tables.add_row(
            Text(shown(table.table)),
            table.newest_lsn or "none",
            *(_cell(table, name, notes) for name in stages),
        )
    parts: list[Table | Text | Group] = [overall, tables]
    if backlog is not None and backlog.left:
        parts.insert(1, backlog_bar(backlog))
    if rows_max is not None and len(rows) > rows_max:
        parts.append(Text(f"and {len(rows) - rows_max} more"))
    if found.capture_s is not None:
        parts.append(Text(f"The capture job is {found.capture_s:.1f} s behind the log."))
    parts += [Text(f"{part} did not answer: {shown(why)}") for part, why in found.problems.items()]
    parts += map(Text, notes.lines())
    parts += [
        Text(shown(f"The sink stopped {table.table}: {table.stopped}"))
        for table in found.tables
        if table.stopped is not None
    ]
    return Group(*parts)


def _worst(table: TableFreshness) -> tuple[bool, float, str]:
    behind = [getattr(table, field) for field in _STAGES.values()]
    known = [seconds for seconds in behind if seconds is not None]
    return table.in_cut and table.stopped is None, -max(known, default=0.0), table.table


def _cell(table: TableFreshness, stage: str, notes: PublisherNotes) -> str:
    if not table.in_cut:
        return notes.state_of(table.table)
    if stage == "lake" and table.stopped is not None:
        return "stopped"
    seconds = getattr(table, _STAGES[stage])
    return "up to date" if seconds == 0 else _seconds(seconds)


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{seconds:.1f} s"
