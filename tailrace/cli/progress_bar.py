"""The bar of ``tailrace sink --once`` on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from tailrace_sink.watch.metrics import SinkMetrics

_EVERY_S: Final = 0.5
_STAGES: Final = {"log": "into the log", "tables": "into the tables"}


@contextmanager
def progress_bar(metrics: SinkMetrics, console: Console | None = None) -> Iterator[None]:
    """Show on stderr how many changes are done and how many wait.

    Args:
        metrics: of the sink that runs meanwhile.
        console: where to draw instead.
    """
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeElapsedColumn(), console=console or Console(stderr=True))
    tasks = {stage: bar.add_task(text, total=None) for stage, text in _STAGES.items()}
    is_over = threading.Event()

    def draw() -> None:
        for stage, task in tasks.items():
            done, waiting = metrics.carried(stage)
            bar.update(task, completed=done, total=(done + waiting) or None)

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
