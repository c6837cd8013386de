"""The one place where a test may step in: called with each step of the sink, and a table's path.

Steps, in their order: ``appending``, ``logged`` (a cut of the log), ``planned`` (the fold has
written down what it is about to do), ``merged`` (a table of it is done), ``finished`` (and the
snapshot that it is the end of), ``committed``.
"""

from collections.abc import Callable
from typing import Final

Hook = Callable[[str, str], None]

LOG_STEPS: Final = frozenset({"appending", "logged"})
"""The steps of the log; the others are the fold's."""


def no_hook(_step: str, _path: str) -> None:
    """Nobody steps in."""
