"""``tailrace lag``: lag per table and stage, once or refreshed."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tailrace.lag.freshness import Freshness, FreshnessReader, TableFreshness
from tailrace.reading.terminal import shown

if TYPE_CHECKING:
    from tailrace.settings.load import Settings

_STAGES = {"topics": "topic_s", "log": "log_s", "lake": "lake_s"}


def show(settings: Settings, *, every_s: float | None, as_json: bool, worst_first: bool) -> None:
    """Print the lag once, or until Ctrl-C.

    Args:
        every_s: seconds between two refreshes; None: print once.
        as_json: one JSON object a line.
        worst_first: list the tables with the most lag first.

    Raises:
        SettingsError: the configuration is not usable.
    """
    reader, pause = FreshnessReader(settings), threading.Event()
    if as_json:
        while True:
            click.echo(json.dumps(reader.read().to_json()))
            if every_s is None or pause.wait(every_s):
                return
    console = Console()
    if every_s is None:
        console.print(picture(reader.read(), worst_first=worst_first))
        return
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            found = reader.read()
            rows = max(1, console.size.height - 10) if console.is_terminal else None
            live.update(picture(found, worst_first=worst_first, rows_max=rows), refresh=True)
            pause.wait(every_s)


def picture(found: Freshness, *, worst_first: bool, rows_max: int | None = None) -> Group:
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
            *(_cell(table, name) for name in stages),
        )
    parts: list[Table | Text] = [overall, tables]
    if rows_max is not None and len(rows) > rows_max:
        parts.append(Text(f"and {len(rows) - rows_max} more"))
    if found.capture_s is not None:
        parts.append(Text(f"The capture job is {found.capture_s:.1f} s behind the log."))
    parts += [Text(f"{part} did not answer: {shown(why)}") for part, why in found.problems.items()]
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


def _cell(table: TableFreshness, stage: str) -> str:
    if not table.in_cut or (stage == "lake" and table.stopped is not None):
        return "in snapshot or stopped"
    seconds = getattr(table, _STAGES[stage])
    return "up to date" if seconds == 0 else _seconds(seconds)


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{seconds:.1f} s"
