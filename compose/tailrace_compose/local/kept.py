"""What a data directory remembers of its stack in `stack.json`: ports, addresses, processes.

A process id may be given to another process later, so each is kept with its start time: a stranger
is neither believed to be a part of the stack nor signalled.
"""

import contextlib
import fcntl
import json
import os
import platform
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

STATE_FILE = "stack.json"
_LOCK_FILE = "stack.lock"

Outcome = Literal[
    "left alone", "started", "started again", "stopped", "killed", "already gone", "not running"
]
"""started again: its process had ended; killed: it did not end when asked to."""


class PartReport(NamedTuple):
    """What became of one part when the stack was started or stopped.

    Attributes:
        name: as messages call it, as in "Kafka broker".
        outcome: what was found and done.
        pid: the process this is about: the living one, or else the one that has ended; None when
            there was none.
        log: the file with its output; says why it ended when it did by itself.
    """

    name: str
    outcome: Outcome
    pid: int | None
    log: Path


class KeptProcess(NamedTuple):
    """One process: its id, and its start time as the operating system writes it."""

    pid: int
    started: str

    @property
    def is_running(self) -> bool:
        """Whether it runs; a later process with its id does not count."""
        return _start_time(self.pid) == self.started

    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to it and to what it started; does nothing when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def kept_process(pid: int) -> KeptProcess | None:
    """Returns what to remember of a process; None when it has ended."""
    started = _start_time(pid)
    return None if started is None else KeptProcess(pid, started)


def read(data_dir: Path) -> dict[str, Any]:
    """Returns what the directory remembers; empty when no stack was started there."""
    try:
        return dict(json.loads((data_dir / STATE_FILE).read_text()))
    except FileNotFoundError:
        return {}


def write(data_dir: Path, state: dict[str, Any]) -> None:
    """Has the directory remember this, in one step."""
    partial = data_dir / f"{STATE_FILE}.partial"
    partial.write_text(json.dumps(state, indent=2) + "\n")
    partial.replace(data_dir / STATE_FILE)


def process_of(state: dict[str, Any], part: str) -> KeptProcess | None:
    """Returns the process that was recorded for a part (or for the owner), running or not."""
    recorded = state.get("processes", {}).get(part)
    return KeptProcess(*recorded) if recorded else None


@contextlib.contextmanager
def turn(data_dir: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds the directory's lock: one process starts or stops its parts, the others wait.

    Args:
        data_dir: the directory, which is there.
        on_wait: called when another one has the turn, before waiting for it.
    """
    with (data_dir / _LOCK_FILE).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _start_time(pid: int) -> str | None:
    """Returns a process's start time; None when it has ended."""
    if platform.system() == "Linux":
        try:
            # Fields are counted after the command name, which may itself hold spaces and brackets.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] == "Z" else fields[19]
    shown = subprocess.run(  # noqa: S603  # the argument is a number
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None
