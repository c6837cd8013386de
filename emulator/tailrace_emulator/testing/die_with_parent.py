"""Becomes the command it is given, after asking the kernel to kill it when its parent dies.

Run as a script by process.py: `python -I -S die_with_parent.py PARENT_PID COMMAND...`. It is a
process of its own because the request must come between fork and exec. Code that runs there in a
copy of a multi-threaded process may deadlock. It imports nothing of ours.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def main(arguments: list[str]) -> None:
    """Replaces this process by the command; returns only when the parent is already gone."""
    parent = int(arguments[0])
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the request was made; then nobody would kill us.
        if os.getppid() != parent:
            return
    os.execvp(arguments[1], arguments[1:])  # noqa: S606  # becoming that command is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
