"""Broker, registry and embedded SQL Server together, over one data directory.

Two ways to hold them. As a context manager they live as long as the block: for the demo and tests.
With `keep=True` they live on after this process, and `stop_kept` ends them: for `tailrace up` and
`tailrace down`. Parts that live on from before are then found and left alone, and only those that
are missing are started. Either way a directory remembers its ports and its password in
`stack.json`, so a configuration that was written for it stays true over restarts.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

from tailrace_compose.local import ivy, jars, kept
from tailrace_compose.local.broker import KafkaBroker
from tailrace_compose.local.kept import KeptProcess, PartReport
from tailrace_compose.local.registry import SchemaRegistry
from tailrace_emulator.testing.emulator_process import EmulatorProcess
from tailrace_emulator.testing.errors import LocalStackError, ProcessFailed
from tailrace_emulator.testing.process import STOP_LIMIT_S
from tailrace_emulator.testing.service import Service

_PARTS: dict[str, type[Service]] = {
    "broker": KafkaBroker,
    "registry": SchemaRegistry,
    "emulator": EmulatorProcess,
}
_FOLDERS = {"broker": "kafka", "registry": "registry", "emulator": "sqlserver"}
# Beside the parts: the process that the stack ends with, when it does not live on.
_OWNER = "owner"
# A part that was found running is ready, or busy: it answers soon, or it hangs.
_FOUND_LIMIT_S = 15.0
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
        reports: what the last start found and did, one for each of the three.
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
        ports = kept.read(data_dir).get("ports", {})
        folder = {part: data_dir / name for part, name in _FOLDERS.items()}
        self.broker = KafkaBroker(folder["broker"], port=ports.get("broker"), keep=keep)
        self.registry = SchemaRegistry(folder["registry"], port=ports.get("registry"), keep=keep)
        self.emulator = EmulatorProcess(
            folder["emulator"], password, port=ports.get("emulator"), keep=keep
        )
        self.reports: list[PartReport] = []
        self._starts: dict[str, tuple[Service, Callable[[], object]]] = {
            "broker": (self.broker, self.broker.start),
            "registry": (self.registry, self.registry.start),
            "emulator": (self.emulator, self.emulator.start),
        }

    def start(self, progress: ivy.Progress | None = None) -> Self:
        """Downloads what is missing, then starts side by side the parts that do not run.

        With `keep` a part that runs here is left alone, once it has answered; without, nothing may
        run here.

        Args:
            progress: receives a line for each step; standard error gets the downloads when None.

        Raises:
            StackRunning: the data directory is in use.
            ProcessFailed: one of them did not start, and those that were started with it are
                stopped again; or one that was found running does not answer.
            ArtifactUnavailable, JavaMissing: what they run on is missing.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with kept.turn(self.data_dir, lambda: _say_wait(self.data_dir, progress)):
            found = self._found()
            # From here on the directory is known as a stack's, even when nothing starts.
            self._remember({})
            found = {part: item for part, item in found.items() if self._lives(part, item)}
            missing = [part for part in _PARTS if part not in found]
            # Downloads come first and one after the other, so that their progress can be followed.
            if "broker" in missing:
                jars.ensure("kafka", progress)
            if "registry" in missing:
                jars.registry_home(progress)
            before = kept.read(self.data_dir)
            try:
                self._start_services(missing, progress)
            except BaseException:
                self.kill()
                raise
            self.reports = [self._report(part, found.get(part), before) for part in _PARTS]
        return self

    def stop(self) -> None:
        """Stops what it started, in order: the source first, the broker last."""
        for part in reversed(_PARTS):
            self._starts[part][0].stop()
        self._forget_processes()

    def kill(self) -> None:
        """Kills what it started at once."""
        for part in reversed(_PARTS):
            self._starts[part][0].kill()
        self._forget_processes()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _found(self) -> dict[str, KeptProcess]:
        """Returns the parts that run here and may be left alone."""
        state = kept.read(self.data_dir)
        owner = kept.process_of(state, _OWNER)
        found = _running_parts(state)
        if found and owner is not None and owner.is_running:
            raise StackRunning(
                f"A stack runs in {self.data_dir} that belongs to process {owner.pid} and ends with"
                " it (a demo or a test): name another directory."
            )
        if found and not self._keep:
            raise StackRunning(
                f"A stack runs in {self.data_dir} already: use it, or stop it with `tailrace down`."
            )
        return found

    def _lives(self, part: str, process: KeptProcess) -> bool:
        """Waits until a part that was found running answers; False when it ends instead."""
        service, _ = self._starts[part]
        deadline = time.monotonic() + _FOUND_LIMIT_S
        pause = threading.Event()
        while not service.answers():
            if not process.is_running:
                return False
            if time.monotonic() >= deadline:
                reason = (
                    f"runs as process {process.pid} but has not answered for {_FOUND_LIMIT_S:.0f} s"
                    " (stop the stack with `tailrace down`, then start it again)"
                )
                raise ProcessFailed(service.name, reason, service.log, service.log_tail())
            pause.wait(_POLL_INTERVAL_S)
        return True

    def _start_services(self, parts: list[str], progress: ivy.Progress | None) -> None:
        if not parts:
            return
        started = time.monotonic()
        with ThreadPoolExecutor(len(parts), thread_name_prefix="stack") as pool:
            futures = {pool.submit(self._starts[part][1]): part for part in parts}
            names = {future: self._starts[part][0].name for future, part in futures.items()}
            try:
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, timeout=2, return_when=FIRST_COMPLETED)
                    for future in done:
                        address = future.result()
                        self._remember_part(futures[future])
                        if progress:
                            progress(f"{names[future]} ready: {address}")
                    if progress and pending and not done:
                        waited_for = ", ".join(sorted(names[future] for future in pending))
                        progress(f"starting {waited_for} ({time.monotonic() - started:.0f} s)")
            except BaseException:
                # The threads wait for their services; killing those ends the threads.
                self.kill()
                raise

    def _report(self, part: str, found: KeptProcess | None, before: dict[str, Any]) -> PartReport:
        service, _ = self._starts[part]
        if found is not None:
            return PartReport(service.name, "left alone", found.pid, service.log)
        ended = kept.process_of(before, part)
        outcome: kept.Outcome = "started" if ended is None else "started again"
        return PartReport(service.name, outcome, service.pid, service.log)

    def _remember_part(self, part: str) -> None:
        """Notes a started part at once: whatever happens to us, it is found again."""
        service, _ = self._starts[part]
        process = kept.kept_process(service.pid) if service.pid is not None else None
        more: dict[str, Any] = {}
        if part == "broker":
            more["bootstrap_servers"] = self.broker.bootstrap_servers
        elif part == "registry":
            more["registry_url"] = self.registry.url
        else:
            more["sqlserver"] = {
                "host": "127.0.0.1",
                "port": self.emulator.port,
                "password_file": str(self.emulator.password_file),
            }
        self._remember(more, {part: process}, {part: service.port})

    def _remember(
        self,
        more: dict[str, Any],
        processes: dict[str, KeptProcess | None] | None = None,
        ports: dict[str, int] | None = None,
    ) -> None:
        state = kept.read(self.data_dir)
        owner = None if self._keep else kept.kept_process(os.getpid())
        known = state.get("processes", {}) | {_OWNER: owner} | (processes or {})
        state["ports"] = state.get("ports", {}) | (ports or {})
        state["processes"] = {part: process for part, process in known.items() if process}
        kept.write(self.data_dir, state | more)

    def _forget_processes(self) -> None:
        """Has the directory forget what this stack started; what it found there runs on."""
        state = kept.read(self.data_dir)
        if state:
            kept.write(self.data_dir, state | {"processes": _running_parts(state)})


def running(data_dir: Path) -> bool:
    """Whether a stack that was started in the data directory still has a process."""
    return bool(_running_parts(kept.read(data_dir)))


def addresses(data_dir: Path) -> dict[str, Any]:
    """Returns what a stack in the data directory wrote of itself: addresses and password file."""
    return {name: value for name, value in kept.read(data_dir).items() if name != "processes"}


def stop_kept(data_dir: Path, limit_s: float = STOP_LIMIT_S) -> list[PartReport]:
    """Stops the services that a stack with `keep=True` left running.

    Args:
        data_dir: the directory it was started with.
        limit_s: how long they may take before they are killed, in seconds.

    Returns:
        What was found and done, for each of the three.
    """
    if not (data_dir / kept.STATE_FILE).exists():
        return [_stopped(data_dir, part, None, set(), set()) for part in _PARTS]
    with kept.turn(data_dir, lambda: None):
        state = kept.read(data_dir)
        found = _running_parts(state)
        for process in found.values():
            process.signal_group(signal.SIGTERM)
        pause = threading.Event()
        deadline = time.monotonic() + limit_s
        while _running_parts(state) and time.monotonic() < deadline:
            pause.wait(_POLL_INTERVAL_S)
        stubborn = _running_parts(state)
        for process in stubborn.values():
            process.signal_group(signal.SIGKILL)
        kept.write(data_dir, {**state, "processes": {}})
    return [
        _stopped(data_dir, part, kept.process_of(state, part), set(found), set(stubborn))
        for part in _PARTS
    ]


def _stopped(
    data_dir: Path, part: str, process: KeptProcess | None, found: set[str], stubborn: set[str]
) -> PartReport:
    kind = _PARTS[part]
    outcome: kept.Outcome = "not running" if process is None else "already gone"
    if part in found:
        outcome = "killed" if part in stubborn else "stopped"
    log = data_dir / _FOLDERS[part] / kind.log_name
    return PartReport(kind.name, outcome, process.pid if process else None, log)


def _running_parts(state: dict[str, Any]) -> dict[str, KeptProcess]:
    recorded = {part: kept.process_of(state, part) for part in _PARTS}
    return {part: item for part, item in recorded.items() if item and item.is_running}


def _say_wait(data_dir: Path, progress: ivy.Progress | None) -> None:
    if progress:
        progress(f"another command starts or stops the stack in {data_dir}: waiting for it")
