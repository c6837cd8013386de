"""Where the demo's picture goes: a live view on a terminal, plain lines anywhere else."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Final, Self

from rich.console import Console
from rich.live import Live

from tailrace.demo.view import Picture

DAY_LINES: Final = 16
"""Lines that are printed, from the start of the replay."""
QUIET_S: Final = 4.0
"""A log file gets a line at least this often."""


class Screen:
    """Shows a picture; use as a context manager.

    Args:
        picture: redrawn at each refresh.
    """

    def __init__(self, console: Console, picture: Picture) -> None:
        self._console = console
        self._picture = picture
        self._live = Live(picture, console=console, refresh_per_second=4, transient=False)
        self._is_live = console.is_terminal
        self._shown = 0
        self._last_line = 0.0

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Draw for the last time."""
        self.freeze()

    def refresh(self) -> None:
        """Draw, or print what is new."""
        if self._is_live:
            self._live.refresh()
            return
        new = self._picture.lines_after(self._shown)
        self._shown += len(new)
        now = time.monotonic()
        if not new and now - self._last_line >= QUIET_S:
            new = [self._picture.summary()]
        for line in new:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            self._last_line = now

    def freeze(self) -> None:
        """Leave the picture as it is; lines follow below it (a JVM writes there as it likes)."""
        if self._is_live:
            self._live.stop()
            self._is_live = False
            self._shown = len(self._picture.log)

    def save_svg(self, path: Path) -> None:
        """Write the last picture as an SVG of 100 columns, with the log of the whole day."""
        self._picture.log_lines = DAY_LINES
        recorder = Console(record=True, width=100, file=io.StringIO())
        recorder.print(self._picture)
        path.parent.mkdir(parents=True, exist_ok=True)
        recorder.save_svg(str(path), title="make demo")
