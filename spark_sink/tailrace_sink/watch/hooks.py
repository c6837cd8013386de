"""The hook for tests: called with each step of the sink and the path of its table.

The steps in order:

- ``appending``, ``logged``: a cut of the log
- ``planned``: the fold has stored its plan
- ``merged``: one table is written
- ``finished``: a snapshot in parts has ended there
- ``committed``
"""

from collections.abc import Callable
from typing import Final

Hook = Callable[[str, str], None]

LOG_STEPS: Final = frozenset({"appending", "logged"})
"""The steps of the log; the others are the fold's."""


def no_hook(_step: str, _path: str) -> None:
    """Do nothing."""
