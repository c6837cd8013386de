"""The demo's folder, which is empty when it starts."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Final

from tailrace_compose.local.stack import stop_kept
from tailrace_emulator.testing.errors import LocalStackError

_LIMIT_S: Final = 60
_PAUSE_S: Final = 0.1


class FolderInUse(LocalStackError):
    """The folder holds something else, or another process writes into it."""


def make_empty(data_dir: Path) -> None:
    """Remove what an earlier demo left in its folder, and create the folder.

    Raises:
        FolderInUse: it holds something that is not a demo, or it does not get empty.
    """
    if data_dir.exists() and not (data_dir / "stack.json").exists() and any(data_dir.iterdir()):
        raise FolderInUse(f"{data_dir} holds something that is not a demo: name another --data-dir")
    stop_kept(data_dir)
    pause, deadline = threading.Event(), time.monotonic() + _LIMIT_S
    # The sink of a killed demo has a process that names tables: it writes until it finds its folder
    # or its parent gone.
    while data_dir.exists():
        if time.monotonic() > deadline:
            raise FolderInUse(f"{data_dir} cannot be emptied: name another --data-dir")
        shutil.rmtree(data_dir, ignore_errors=True)
        pause.wait(_PAUSE_S)
    data_dir.mkdir(parents=True)
