"""The live view of the demo: source, topics, lake, lag and rates, drawn from what each reports.

Nothing here measures: it shows a :class:`Picture` that the conductor fills in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from tailrace.demo.replay import ReplayProgress
    from tailrace.reading.progress import Published

LOG_LINES = 6


@dataclass(slots=True)
class LakeState:
    """What the newest commit row says."""

    closed_lsn: str = ""
    batches: int = 0
    changes: int = 0
    commit_ms: int | None = None
    committed_ms: int | None = None
    tables: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Picture:
    """Everything the view shows; written by the conductor's threads."""

    tables: tuple[str, ...]
    started: float = field(default_factory=time.monotonic)
    phase: str = "starting"
    page: str = ""
    replay: ReplayProgress | None = None
    change_rows: dict[str, int] = field(default_factory=dict)
    source_lsn: str = ""
    source_commit_ms: int | None = None
    published: Published | None = None
    lake: LakeState = field(default_factory=LakeState)
    log: list[str] = field(default_factory=list)
    log_lines: int = LOG_LINES

    def say(self, text: str) -> None:
        """Add a line to the log at the foot."""
        self.log.append(f"{time.monotonic() - self.started:6.1f} s  {text}")

    def lines_after(self, count: int) -> list[str]:
        """The log without its first ``count`` lines."""
        return self.log[count:]

    def summary(self) -> str:
        """The picture in one line, for where there is no terminal."""
        parts = [f"{time.monotonic() - self.started:6.1f} s  {self.phase}"]
        if self.replay is not None and self.replay.started:
            parts.append(f"{self.replay.statements}/{self.replay.statements_total} statements")
        if self.published is not None:
            parts.append(f"{self.published.events_total} events in topics")
        parts.append(f"{self.lake.changes} changes in the lake")
        return ", ".join(parts)

    def __rich__(self) -> RenderableType:
        """The whole picture."""
        elapsed = time.monotonic() - self.started
        head = Table.grid(expand=True)
        head.add_column(ratio=1)
        head.add_column(justify="right")
        head.add_row(
            Text.assemble(("Tailrace", "bold cyan"), "  ", (self.phase, "bold")),
            Text(f"{self.page}  {elapsed:.0f} s", style="dim"),
        )
        log = Text(
            "\n".join(self.log[-self.log_lines :]) or " ",
            style="dim",
            no_wrap=True,
            overflow="ellipsis",
        )
        return Panel(
            Group(head, Text(""), self._journey(), Text(""), self._tables(), Text(""), log),
            border_style="cyan",
            padding=(0, 1),
        )

    def _journey(self) -> RenderableType:
        grid = Table.grid(expand=True, padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(ratio=1, no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row("Source", *self._source_cells())
        grid.add_row("Topics", *self._topic_cells())
        grid.add_row("Lake", *self._lake_cells())
        return grid

    def _source_cells(self) -> tuple[RenderableType, str, str]:
        replay = self.replay
        if replay is None or not replay.started:
            return Text("SQL Server change data capture", style="dim"), "", ""
        bar = ProgressBar(
            total=replay.statements_total, completed=replay.statements, complete_style="green"
        )
        return (
            bar,
            f"{replay.clock}  {replay.transactions} transactions",
            f"{replay.rate:,.0f} statements/s",
        )

    def _topic_cells(self) -> tuple[RenderableType, str, str]:
        published = self.published
        if published is None or not published.transactions:
            return Text("Kafka, exactly once", style="dim"), "", ""
        return (
            Text(f"closed LSN {published.closed_lsn}", style="yellow"),
            f"{published.events_total:,} events in {published.transactions} transactions",
            _lag(
                self.source_lsn,
                published.closed_lsn,
                self.source_commit_ms,
                published.closed_commit_ms,
            ),
        )

    def _lake_cells(self) -> tuple[RenderableType, str, str]:
        lake = self.lake
        if not lake.closed_lsn:
            return Text("Delta Lake, cut by cut", style="dim"), "", ""
        return (
            Text(f"closed LSN {lake.closed_lsn}", style="magenta"),
            f"{lake.changes:,} changes in {lake.batches} commits",
            _lag(self.source_lsn, lake.closed_lsn, self.source_commit_ms, lake.commit_ms),
        )

    def _tables(self) -> RenderableType:
        table = Table(box=None, expand=True, header_style="dim", pad_edge=False)
        table.add_column("table")
        table.add_column("change rows", justify="right")
        table.add_column("events in topic", justify="right")
        table.add_column("lake version", justify="right")
        events = self.published.events if self.published is not None else {}
        for name in self.tables:
            in_topic = sum(n for topic, n in events.items() if topic.endswith(f".{name}"))
            version = self.lake.tables.get(name)
            table.add_row(
                name,
                f"{self.change_rows.get(name, 0):,}",
                f"{in_topic:,}",
                "" if version is None else str(version),
            )
        return table


def _lag(source_lsn: str, lsn: str, source_ms: int | None, through_ms: int | None) -> str:
    if source_lsn and lsn >= source_lsn:
        return "up to date"
    if source_ms is None or through_ms is None:
        return ""
    return f"{max(0, source_ms - through_ms) / 1000:.1f} s behind"
