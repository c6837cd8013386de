"""The bar of ``tailrace sink`` on a terminal: one, over the whole backlog."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

if TYPE_CHECKING:
    from tailrace_sink.watch.metrics import SinkMetrics

_EVERY_S: Final = 0.5
_SHOWN_FROM: Final = 10_000
"""Changes of a backlog from which on a running sink shows it: fewer are gone before one looks."""


@contextmanager
def progress_bar(
    metrics: SinkMetrics, console: Console | None = None, *, once: bool
) -> Iterator[None]:
    """Show the sink's backlog on stderr: changes done and in all, changes a second, time left.

    Args:
        metrics: of the sink that runs meanwhile.
        console: where to draw instead.
        once: whether the bar is always there and stays at the end. Otherwise it is there while a
            backlog is.
    """
    columns = TextColumn("into the tables"), BarColumn(), TextColumn("{task.description}")
    bar = Progress(*columns, console=console or Console(stderr=True), transient=not once)
    task = bar.add_task("nothing yet", total=None, visible=once)
    is_over = threading.Event()

    def draw() -> None:
        backlog = metrics.backlog
        total = backlog.done + backlog.left
        is_shown = once or (backlog.left > 0 and total >= _SHOWN_FROM)
        text = backlog.to_text() if total else "nothing yet"
        bar.update(
            task, description=text, completed=backlog.done, total=total or None, visible=is_shown
        )

    def draw_until_over() -> None:
        while not is_over.wait(_EVERY_S):
            draw()

    drawing = threading.Thread(target=draw_until_over, name="progress bar", daemon=True)
    with bar:
        drawing.start()
        try:
            yield
        finally:
            is_over.set()
            drawing.join()
            draw()
