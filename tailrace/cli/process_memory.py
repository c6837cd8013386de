"""How a process of ours asks for memory: from few pools, so that little is held for later."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS: Final = 1


def hold_little() -> None:
    """Have all threads share one arena of the C library, and Arrow take its memory from it.

    By default each thread has an arena of its own, up to eight for a core, and Arrow a pool beside
    them; what one has freed the others cannot use. It is to be called before threads are started
    and Arrow is imported. What the environment says (``MALLOC_ARENA_MAX``,
    ``ARROW_DEFAULT_MEMORY_POOL``) counts more; C libraries that have no arenas are left alone.

    https://man7.org/linux/man-pages/man3/mallopt.3.html, https://arrow.apache.org/docs/cpp/env_vars.html
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ and os.name == "posix":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, _ARENAS)
