"""Broker, registry and embedded SQL Server together, over one data directory; on demand a store.

As a context manager they live as long as the block: for the demo and tests. With `keep=True` they
outlive this process, and `stop_kept` ends them: for `tailrace up` and `tailrace down`. Such parts
are then found and left alone, and only the missing ones are started. In both cases `stack.json`
stores the directory's ports and password, so its configuration stays valid over restarts.
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
from tailrace_compose.local.object_store import BUCKET, ObjectStore
from tailrace_compose.local.registry import SchemaRegistry
from tailrace_emulator.testing.emulator_process import EmulatorProcess
from tailrace_emulator.testing.errors import LocalStackError, ProcessFailed
from tailrace_emulator.testing.process import STOP_LIMIT_S
from tailrace_emulator.testing.service import Service

_PARTS: dict[str, type[Service]] = {
    "broker": KafkaBroker,
    "registry": SchemaRegistry,
    "emulator": EmulatorProcess,
    "store": ObjectStore,
}
_FOLDERS = {
    "broker": "kafka",
    "registry": "registry",
    "emulator": "sqlserver",
    "store": "objects",
}
_ON_DEMAND = "store"
# In addition to the parts: the process with which the stack ends, unless it is kept.
_OWNER = "owner"
# A running part is ready or busy: it answers within this time, or it hangs.
_FOUND_LIMIT_S = 15.0
_POLL_INTERVAL_S = 0.05


class StackRunning(LocalStackError):
    """The data directory is in use by a stack that was started before."""


class LocalStack:
    """The services.

    Attributes:
        data_dir: has their data, logs and addresses.
        reports: what the last start found and did, one for each of them.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        password: str | None = None,
        keep: bool = False,
        has_store: bool = False,
    ) -> None:
        """Describe the stack; `start` or `with` starts it.

        Args:
            data_dir: created if missing; an existing stack there continues with its data.
            password: of the embedded server's login `sa`. None keeps the stored one, or creates a
                random one.
            keep: let the services outlive this process.
            has_store: have an object store, too. A directory that had one keeps it.
        """
        self.data_dir = data_dir
        self._keep = keep
        state = kept.read(data_dir)
        ports = state.get("ports", {})
        self._parts = list(_PARTS) if has_store else _parts_of(state)
        folder = {part: data_dir / name for part, name in _FOLDERS.items()}
        self.broker = KafkaBroker(folder["broker"], port=ports.get("broker"), keep=keep)
        self.registry = SchemaRegistry(folder["registry"], port=ports.get("registry"), keep=keep)
        self.emulator = EmulatorProcess(
            folder["emulator"], password, port=ports.get("emulator"), keep=keep
        )
        self.store = ObjectStore(folder["store"], port=ports.get("store"), keep=keep)
        self.reports: list[PartReport] = []
        self._starts: dict[str, tuple[Service, Callable[[], object]]] = {
            "broker": (self.broker, self.broker.start),
            "registry": (self.registry, self.registry.start),
            "emulator": (self.emulator, self.emulator.start),
            "store": (self.store, self.store.start),
        }

    def start(self, progress: ivy.Progress | None = None) -> Self:
        """Download what is missing, then start the parts that do not run, in parallel.

        With `keep` a running part is left alone once it has answered; without it, nothing may run
        here.

        Args:
            progress: receives a line for each step. If None, downloads are reported on standard
                error.

        Raises:
            StackRunning: the data directory is in use.
            ProcessFailed: a part did not start, and the others that were started are stopped again.
                Or a running part does not answer.
            ArtifactUnavailable, JavaMissing: a file or program that they need is missing.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with kept.turn(self.data_dir, lambda: _say_wait(self.data_dir, progress)):
            found = self._found()
            # From here on the directory is marked as a stack's, even if nothing starts.
            self._remember({})
            found = {part: item for part, item in found.items() if self._lives(part, item)}
            missing = [part for part in self._parts if part not in found]
            # Downloads come first and one by one, so that their progress is readable.
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
            self.reports = [self._report(part, found.get(part), before) for part in self._parts]
        return self

    def stop(self) -> None:
        """Stop what it started, the broker last."""
        for part in reversed(_PARTS):
            self._starts[part][0].stop()
        self._forget_processes()

    def kill(self) -> None:
        """Kill what it started at once."""
        for part in reversed(_PARTS):
            self._starts[part][0].kill()
        self._forget_processes()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _found(self) -> dict[str, KeptProcess]:
        """Return the parts that run here and may be left alone."""
        state = kept.read(self.data_dir)
        owner = kept.process_of(state, _OWNER)
        found = _running_parts(state)
        if found and owner is not None and owner.is_running:
            raise StackRunning(
                f"A stack runs in {self.data_dir} that belongs to process {owner.pid} and ends with"
                " it (a demo or a test). Fix: name another directory."
            )
        if found and not self._keep:
            raise StackRunning(
                f"A stack runs in {self.data_dir} already: use it, or stop it with `tailrace down`."
            )
        return found

    def _lives(self, part: str, process: KeptProcess) -> bool:
        """Wait until a running part answers; return False if it ends instead."""
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
        """Record a started part at once, so that it is found even if this process dies."""
        service, _ = self._starts[part]
        process = kept.kept_process(service.pid) if service.pid is not None else None
        more: dict[str, Any] = {}
        if part == "broker":
            more["bootstrap_servers"] = self.broker.bootstrap_servers
        elif part == "registry":
            more["registry_url"] = self.registry.url
        elif part == "store":
            more["object_store"] = {"bucket": BUCKET, "options": self.store.options}
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
        """Remove what this stack started from the directory's record; other parts remain."""
        state = kept.read(self.data_dir)
        if state:
            kept.write(self.data_dir, state | {"processes": _running_parts(state)})


def running(data_dir: Path) -> bool:
    """Return whether a stack that was started in the data directory still has a process."""
    return bool(_running_parts(kept.read(data_dir)))


def addresses(data_dir: Path) -> dict[str, Any]:
    """Return the addresses and the password file that a stack in the data directory recorded."""
    return {name: value for name, value in kept.read(data_dir).items() if name != "processes"}


def stop_kept(data_dir: Path, limit_s: float = STOP_LIMIT_S) -> list[PartReport]:
    """Stop the services that a stack with `keep=True` left running.

    Args:
        data_dir: the directory it was started with.
        limit_s: how long they may take before they are killed, in seconds.

    Returns:
        What was found and done, for each of them.
    """
    if not (data_dir / kept.STATE_FILE).exists():
        return [_stopped(data_dir, part, None, set(), set()) for part in _parts_of({})]
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
        for part in _parts_of(state)
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


def _parts_of(state: dict[str, Any]) -> list[str]:
    """Return the parts of a directory's stack."""
    has_store = _ON_DEMAND in state.get("ports", {})
    return [part for part in _PARTS if part != _ON_DEMAND or has_store]


def _running_parts(state: dict[str, Any]) -> dict[str, KeptProcess]:
    recorded = {part: kept.process_of(state, part) for part in _PARTS}
    return {part: item for part, item in recorded.items() if item and item.is_running}


def _say_wait(data_dir: Path, progress: ivy.Progress | None) -> None:
    if progress:
        progress(f"waiting: another command starts or stops the stack in {data_dir}")
