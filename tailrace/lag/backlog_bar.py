"""The bar over the sink's backlog, as every command draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.text import Text

if TYPE_CHECKING:
    from tailrace_service.status import Backlog

_WIDTH: Final = 60


def backlog_bar(backlog: Backlog) -> Group:
    """Draw a backlog: how much of it is in the tables, how fast, and how long it will take."""
    figures = backlog.to_text() if backlog.total else "nothing yet"
    bar = ProgressBar(backlog.total or None, backlog.done, width=_WIDTH)
    return Group(Text(f"Into the lake's tables: {figures}"), bar)
