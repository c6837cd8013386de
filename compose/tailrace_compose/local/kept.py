"""What a data directory records of its stack in `stack.json`: ports, addresses, processes.

The operating system may reuse a process id, so each is stored with its start time. So another
process is never taken for a part of the stack, nor signalled.
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
"""started again: its process had ended; killed: it did not end on SIGTERM."""


class PartReport(NamedTuple):
    """The result for one part when the stack was started or stopped.

    Attributes:
        name: as in messages, for example "Kafka broker".
        pid: the living process, or else the one that has ended. None if there was none.
        log: the file with its output. It shows why a process ended unexpectedly.
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
        """Send a signal to it and to its child processes; do nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def kept_process(pid: int) -> KeptProcess | None:
    """Return the record of a process; None if it has ended."""
    started = _start_time(pid)
    return None if started is None else KeptProcess(pid, started)


def read(data_dir: Path) -> dict[str, Any]:
    """Return the directory's record; empty if no stack was started there."""
    try:
        return dict(json.loads((data_dir / STATE_FILE).read_text()))
    except FileNotFoundError:
        return {}


def write(data_dir: Path, state: dict[str, Any]) -> None:
    """Write the directory's record in one step, or leave it as it was.

    Raises:
        OSError: names the record, as the error of a full disk does not.
    """
    partial, record = data_dir / f"{STATE_FILE}.partial", data_dir / STATE_FILE
    try:
        partial.write_text(json.dumps(state, indent=2) + "\n")
        partial.replace(record)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(record)) from error


def process_of(state: dict[str, Any], part: str) -> KeptProcess | None:
    """Return the process that was recorded for a part (or for the owner), running or not."""
    recorded = state.get("processes", {}).get(part)
    return KeptProcess(*recorded) if recorded else None


@contextlib.contextmanager
def turn(data_dir: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the directory's lock: one process starts or stops its parts, the others wait.

    Args:
        data_dir: the directory, which exists.
        on_wait: called before waiting for another process.
    """
    with (data_dir / _LOCK_FILE).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _start_time(pid: int) -> str | None:
    """Return a process's start time; None if it has ended."""
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
