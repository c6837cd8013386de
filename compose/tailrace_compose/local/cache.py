"""Where downloads are stored, and the lock that lets several processes share them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for downloads; create it if it is missing.

    `TAILRACE_CACHE` wins, then `XDG_CACHE_HOME/tailrace`, then `~/.cache/tailrace`. Nothing else
    outside the clone is written.
    """
    configured = os.environ.get("TAILRACE_CACHE")
    if configured:
        folder = Path(configured).expanduser()
    else:
        xdg = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(xdg) if xdg else Path.home() / ".cache") / "tailrace"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold the cache's lock of that name: one process downloads, the others wait for its files.

    The operating system releases the lock when its holder dies, so no stale lock can remain.
    """
    with (cache_dir() / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
