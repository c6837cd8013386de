"""Processes that are forked from one which has imported what they need: a start without imports.

A publisher or an embedded server takes most of a second to import (measured), and tests start them
by the hundred. That they start as a user starts them is seen where commands are tested.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from tailrace_emulator.__main__ import main

forked: Final = multiprocessing.get_context("forkserver")
PRELOADED: Final = ("pyodbc", "tailrace_emulator.__main__")
"""What the process imports from which the others are forked; tests/conftest.py adds to it."""
forked.set_forkserver_preload(list(PRELOADED))


def serve_until_stopped(arguments: list[str], log: Path, announcing: Connection) -> None:
    """One life of an embedded server, with the arguments of its command line.

    Args:
        arguments: as there.
        log: the file for what it writes.
        announcing: is sent the port when it is ready.
    """
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.exit(main(arguments, announcing.send))
