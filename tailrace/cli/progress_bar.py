"""The bar of ``tailrace sink`` on a terminal: one, over the whole backlog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live

from tailrace.lag.backlog_bar import backlog_bar

if TYPE_CHECKING:
    from tailrace_sink.watch.metrics import SinkMetrics

_A_SECOND: Final = 2


@contextmanager
def progress_bar(
    metrics: SinkMetrics, console: Console | None = None, *, once: bool
) -> Iterator[None]:
    """Show the sink's backlog on stderr.

    Args:
        metrics: of the sink that runs meanwhile.
        console: where to draw instead.
        once: whether the bar is always there and stays at the end. Otherwise it is there while a
            backlog is.
    """

    def bar() -> Group:
        backlog = metrics.backlog
        return backlog_bar(backlog) if once or backlog.is_large else Group()

    with Live(
        console=console or Console(stderr=True),
        get_renderable=bar,
        refresh_per_second=_A_SECOND,
        transient=not once,
    ):
        yield
