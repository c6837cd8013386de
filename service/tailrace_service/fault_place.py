"""Where an unforeseen error was raised, for a log: its text may hold values of rows."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

_FRAMES: Final = 8


def place_of(error: BaseException) -> str:
    """Return the call path at which an error was raised, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(f"{Path(f.filename).stem}:{f.lineno} {f.name}" for f in frames[-_FRAMES:])
