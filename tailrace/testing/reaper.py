"""Removes a test session's containers when the process that started them is gone, however it ended.

testcontainers has Ryuk for this, a container that listens on a published port. If ports cannot be
published, this small process does the same. It waits for the end of its standard input, which only
the end of its parent closes. Then it removes what bears the session's label. The function
:func:`watch` runs it as a script; it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

_LABEL = "org.testcontainers.session-id"
_LOOKS = 3
_PAUSE_S = 1.0


@functools.cache
def watch(session: str) -> subprocess.Popen[bytes]:
    """Start the process that removes a session's containers when this one has ended.

    Args:
        session: testcontainers' own identifier of this process.
    """
    # A session of its own: Ctrl-C in a terminal goes to every process of the parent's.
    return subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, "-I", str(Path(__file__).resolve()), session],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(arguments: Sequence[str]) -> int:
    """Waits for the parent's end, then removes the containers; returns the exit status."""
    sys.stdin.buffer.read()
    import docker
    from docker.errors import APIError, DockerException

    try:
        client = docker.from_env(timeout=60)
    except DockerException:
        return 1  # with the engine its containers are gone, too
    pause = threading.Event()
    # More than one look: the engine may still be creating what the parent asked for last.
    for look in range(_LOOKS):
        if look:
            pause.wait(_PAUSE_S)
        label = f"{_LABEL}={arguments[0]}"
        found = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        for container in found:
            with contextlib.suppress(APIError):  # it is being removed already
                container.remove(force=True, v=True)
    client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
