"""Limit the memory that a process holds in reserve: few pools instead of one per thread."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS: Final = 1


def hold_little() -> None:
    """Have all threads share one arena of the C library, and Arrow take its memory from it.

    By default each thread has an arena of its own, up to eight per core, and Arrow has another
    pool. Memory that one frees the others cannot use. Call it before threads start and Arrow is
    imported. The environment (``MALLOC_ARENA_MAX``, ``ARROW_DEFAULT_MEMORY_POOL``) takes
    precedence. C libraries without arenas are left alone.

    https://man7.org/linux/man-pages/man3/mallopt.3.html, https://arrow.apache.org/docs/cpp/env_vars.html
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ and os.name == "posix":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, _ARENAS)
