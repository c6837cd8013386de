"""Broker, registry and embedded SQL Server together, over one data directory.

Two ways to hold them. As a context manager they live as long as the block: for the demo and tests.
With `keep=True` they live on after this process, and `stop_kept` ends them: for `tailrace up` and
`tailrace down`. Either way a directory remembers its ports and its password in `stack.json`, so a
configuration that was written for it stays true over restarts.
"""

import contextlib
import json
import os
import platform
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compose.local import ivy, jars
from compose.local.broker import KafkaBroker
from compose.local.emulator_process import EmulatorProcess
from compose.local.errors import LocalStackError
from compose.local.process import STOP_LIMIT_S
from compose.local.registry import SchemaRegistry

_STATE_FILE = "stack.json"
_POLL_INTERVAL_S = 0.05


class StackRunning(LocalStackError):
    """The data directory is in use by a stack that was started before."""


class LocalStack:
    """The three services.

    Attributes:
        data_dir: where their data, logs and addresses are.
        broker: the Kafka broker.
        registry: the schema registry.
        emulator: the embedded SQL Server.
    """

    def __init__(self, data_dir: Path, *, password: str | None = None, keep: bool = False) -> None:
        """Describes the stack; `start` or `with` starts it.

        Args:
            data_dir: created when missing; a stack that ran there before goes on with its data.
            password: of the embedded server's login `sa`; kept from before or random when None.
            keep: let the services live on after this process.
        """
        self.data_dir = data_dir
        self._keep = keep
        ports = _read_state(data_dir).get("ports", {})
        self.broker = KafkaBroker(data_dir / "kafka", port=ports.get("broker"), keep=keep)
        self.registry = SchemaRegistry(data_dir / "registry", port=ports.get("registry"), keep=keep)
        self.emulator = EmulatorProcess(
            data_dir / "sqlserver", password, port=ports.get("emulator"), keep=keep
        )

    def start(self, progress: ivy.Progress | None = None) -> Self:
        """Downloads what is missing, then starts the three side by side.

        Args:
            progress: receives a line for each step; standard error gets the downloads when None.

        Raises:
            StackRunning: the data directory is in use.
            ProcessFailed: one of them did not start; the others are stopped again.
            ArtifactUnavailable, JavaMissing: what they run on is missing.
        """
        if running(self.data_dir):
            raise StackRunning(
                f"A stack runs in {self.data_dir} already: use it, or stop it with `tailrace down`."
            )
        self.data_dir.mkdir(parents=True, exist_ok=True)
        # Downloads come first and one after the other, so that their progress can be followed.
        jars.ensure("kafka", progress)
        jars.registry_home(progress)
        try:
            self._start_services(progress)
            self._write_state()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stops the three in order: the source first, the broker last."""
        for service in (self.emulator, self.registry, self.broker):
            service.stop()
        self._forget_processes()

    def kill(self) -> None:
        """Kills the three at once."""
        for service in (self.emulator, self.registry, self.broker):
            service.kill()
        self._forget_processes()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_services(self, progress: ivy.Progress | None) -> None:
        started = time.monotonic()
        starts: dict[str, Callable[[], object]] = {
            "Kafka broker": self.broker.start,
            "schema registry": self.registry.start,
            "embedded SQL Server": self.emulator.start,
        }
        with ThreadPoolExecutor(len(starts), thread_name_prefix="stack") as pool:
            futures = {pool.submit(start): name for name, start in starts.items()}
            try:
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, timeout=2, return_when=FIRST_COMPLETED)
                    for future in done:
                        address = future.result()
                        if progress:
                            progress(f"{futures[future]} ready: {address}")
                    if progress and pending and not done:
                        names = ", ".join(sorted(futures[future] for future in pending))
                        progress(f"starting {names} ({time.monotonic() - started:.0f} s)")
            except BaseException:
                # The threads wait for their services; killing those ends the threads.
                self.kill()
                raise

    def _write_state(self) -> None:
        pids = [self.broker.pid, self.registry.pid, self.emulator.pid]
        state = {
            "ports": {
                "broker": self.broker.port,
                "registry": self.registry.port,
                "emulator": self.emulator.port,
            },
            "bootstrap_servers": self.broker.bootstrap_servers,
            "registry_url": self.registry.url,
            "sqlserver": {
                "host": "127.0.0.1",
                "port": self.emulator.port,
                "password_file": str(self.emulator.password_file),
            },
            # A process id may be given to another process later; the start time tells them apart.
            "processes": {str(pid): _identity(pid) for pid in pids if pid is not None},
        }
        _write(self.data_dir, state)

    def _forget_processes(self) -> None:
        state = _read_state(self.data_dir)
        if state:
            _write(self.data_dir, {**state, "processes": {}})


def running(data_dir: Path) -> bool:
    """Whether a stack that was started in the data directory still has a process."""
    return bool(_kept_processes(data_dir))


def addresses(data_dir: Path) -> dict[str, Any]:
    """Returns what a stack in the data directory wrote of itself: addresses and password file."""
    return {name: value for name, value in _read_state(data_dir).items() if name != "processes"}


def stop_kept(data_dir: Path, limit_s: float = STOP_LIMIT_S) -> bool:
    """Stops the services that a stack with `keep=True` left running.

    Args:
        data_dir: the directory it was started with.
        limit_s: how long they may take before they are killed, in seconds.

    Returns:
        Whether there was anything to stop.
    """
    pids = _kept_processes(data_dir)
    for pid in pids:
        _signal_group(pid, signal.SIGTERM)
    pause = threading.Event()
    deadline = time.monotonic() + limit_s
    while _kept_processes(data_dir) and time.monotonic() < deadline:
        pause.wait(_POLL_INTERVAL_S)
    for pid in _kept_processes(data_dir):
        _signal_group(pid, signal.SIGKILL)
    state = _read_state(data_dir)
    if state:
        _write(data_dir, {**state, "processes": {}})
    return bool(pids)


def _kept_processes(data_dir: Path) -> list[int]:
    recorded = _read_state(data_dir).get("processes", {})
    return [int(pid) for pid, identity in recorded.items() if _identity(int(pid)) == identity]


def _identity(pid: int) -> str | None:
    """Returns what tells a process from a later one with its id: its start time; None when dead."""
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


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _read_state(data_dir: Path) -> dict[str, Any]:
    try:
        state = json.loads((data_dir / _STATE_FILE).read_text())
    except FileNotFoundError:
        return {}
    return dict(state)


def _write(data_dir: Path, state: dict[str, Any]) -> None:
    partial = data_dir / f"{_STATE_FILE}.partial"
    partial.write_text(json.dumps(state, indent=2) + "\n")
    partial.replace(data_dir / _STATE_FILE)
