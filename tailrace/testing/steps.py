"""Lines that say what a test waits for, and how many seconds each step took."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Say = Callable[[str], None]
"""Gets one line, without an end of line."""


def silent(_line: str) -> None:
    """Say nothing."""


def on_terminal(config: pytest.Config) -> Say:
    """Write lines to pytest's terminal although it captures output; only for its main thread."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    if terminal is None or capture is None:  # a worker of pytest-xdist has no terminal
        return silent

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"tailrace: {line}")

    return say
