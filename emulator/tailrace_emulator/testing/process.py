"""One child process of the stack: its own group, its log in a file, bounded waits, certain death.

Three things together make sure that nothing outlives us: `stop` on every ordinary way out, an exit
handler for the ways that skip it, and on Linux the kernel's parent-death signal for kill -9.
"""

import atexit
import contextlib
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Self

from tailrace_emulator.testing.errors import ProcessFailed

STOP_LIMIT_S = 20.0
_POLL_INTERVAL_S = 0.05
_LOG_TAIL_BYTES = 6000
# Below Linux's ephemeral ports (32768 and up), so that no outgoing connection can take a server's
# port while that server is being restarted.
_PORTS = range(20000, 32000)


class ChildProcess:
    """A command that runs until it is stopped.

    Attributes:
        name: how messages call it, as in "Kafka broker".
        log: the file that receives its output, appended to over restarts.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        output: Path | None = None,
        keep: bool = False,
    ) -> None:
        """Describes the process; `start` runs it.

        Args:
            name: how messages call it.
            command: the program and its arguments.
            log: the file for its output.
            output: a file for its standard output alone, emptied at each start.
            keep: let it live on after us; the caller must then stop it otherwise.
        """
        self.name = name
        self.log = log
        self._command = list(command)
        self._output = output
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs, else None."""
        return self._process.pid if self._process and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The started process.

        Raises:
            RuntimeError: it was not started.
        """
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def start(self) -> Self:
        """Runs the command; raises RuntimeError when it runs already."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._process = _spawn(self._popen)
        if not self._keep:
            atexit.register(self._kill_group)
        return self

    def wait_until_ready(self, is_ready: Callable[[], bool], limit_s: float) -> None:
        """Waits until the process answers.

        Args:
            is_ready: queries it; must return within a few seconds.
            limit_s: how long to wait at most, in seconds.

        Raises:
            ProcessFailed: it ended, or did not answer in time; carries the end of its log. It is
                killed then.
        """
        deadline = time.monotonic() + limit_s
        while True:
            status = self.exited_within(_POLL_INTERVAL_S)
            if status is not None:
                raise self.failure(f"ended with status {status} while starting")
            if is_ready():
                return
            if time.monotonic() >= deadline:
                error = self.failure(f"was not ready within {limit_s:.0f} s")
                self.kill()
                raise error

    def exited_within(self, limit_s: float) -> int | None:
        """Waits for its end; returns the exit status, or None when it still runs."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, limit_s: float = STOP_LIMIT_S) -> None:
        """Requests its end (SIGTERM), kills it after the limit. Does nothing when it has ended."""
        if self._process is None:
            return
        if self.is_running:
            self._process.terminate()
            self.exited_within(limit_s)
        self.kill()

    def kill(self) -> None:
        """Ends it and all that it started at once (SIGKILL), as a power cut would."""
        if self._process is None:
            return
        self._kill_group()
        self._process.wait()
        atexit.unregister(self._kill_group)

    def failure(self, reason: str) -> ProcessFailed:
        """Composes the error that names this process, the reason and the end of its log."""
        return ProcessFailed(self.name, reason, self.log, self.log_tail())

    def log_tail(self) -> str:
        """Returns the end of its log."""
        return tail_of(self.log)

    def _popen(self) -> subprocess.Popen[bytes]:
        command = self._command
        if sys.platform == "linux" and not self._keep:
            shim = Path(__file__).with_name("die_with_parent.py")
            command = [sys.executable, "-I", "-S", str(shim), str(os.getpid()), *command]
        with contextlib.ExitStack() as files:
            log = files.enter_context(self.log.open("ab"))
            output = files.enter_context(self._output.open("wb")) if self._output else log
            return subprocess.Popen(  # noqa: S603  # the commands are the stack's own
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                # A session of its own: Ctrl-C reaches us only, and we stop it in order.
                start_new_session=True,
            )

    def _kill_group(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            # Its children may outlive it, so the group is killed even when it has ended itself.
            os.killpg(self._process.pid, signal.SIGKILL)


def tail_of(log: Path) -> str:
    """Returns the end of a log; empty when there is none."""
    try:
        with log.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - _LOG_TAIL_BYTES))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def free_port() -> int:
    """Returns a port on 127.0.0.1 that nobody listens on, outside the ephemeral range."""
    candidates = random.SystemRandom()
    for _ in range(200):
        port = candidates.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port found on 127.0.0.1 in {_PORTS.start}-{_PORTS.stop - 1}")


_spawn_requests: queue.SimpleQueue[
    tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]
] = queue.SimpleQueue()
_spawner_lock = threading.Lock()
_spawner: threading.Thread | None = None


def _spawn(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Starts a process from a thread that lives as long as we do.

    The kernel's parent-death signal is tied to the *thread* that forked. A child started from a
    short-lived worker thread would be killed when that worker ends.
    """
    global _spawner  # noqa: PLW0603  # one thread a process is the point
    with _spawner_lock:
        if _spawner is None or not _spawner.is_alive():
            _spawner = threading.Thread(target=_spawn_forever, name="spawner", daemon=True)
            _spawner.start()
    result: Future[subprocess.Popen[bytes]] = Future()
    _spawn_requests.put((start, result))
    return result.result()


def _spawn_forever() -> None:
    while True:
        start, result = _spawn_requests.get()
        try:
            result.set_result(start())
        except BaseException as error:  # noqa: BLE001  # handed to the caller, who raises it
            result.set_exception(error)
