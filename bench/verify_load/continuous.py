"""``tailrace verify --continuous`` as a process, which begins again when it has compared all."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tailrace.verify.verified import VerifiedTable, of_json, verified_path
from tailrace_emulator.testing.process import ChildProcess

_STOP_S: Final = 120.0


class Continuous:
    """The process, and what it found.

    Args:
        tables: those that it compares, each as ``schema.table``.

    Attributes:
        passes: how often it compared every table.
        parts: key ranges that it compared in them.
        differing: rows that it found to differ.
        not_proven: parts of which some rows were not found equal.
    """

    def __init__(self, config: Path, lake: str, tables: Sequence[str]) -> None:
        self.passes = self.parts = self.differing = self.not_proven = 0
        self._tables = tables
        self._path = Path(verified_path(lake))
        command = [sys.executable, "-m", "tailrace", "verify", "--config", str(config), *tables]
        command += ["--continuous", "--rows-per-second", "100000", "--core-percent", "30"]
        self._process = ChildProcess("tailrace verify", command, config.with_name("continuous.log"))

    def start(self) -> None:
        """Start the process, with nothing verified yet."""
        self._path.unlink(missing_ok=True)
        self._process.start()

    def look(self) -> None:
        """Count what was found if all tables were compared, and begin again.

        Raises:
            ProcessFailed: the process has ended.
        """
        status = self._process.exited_within(0)
        if status is not None:
            raise self._process.failure(f"ended with status {status}")
        parts = [part for table in self._verified().values() for part in table.ranges]
        if len(parts) >= len(self._tables) and all(part.tried_ms for part in parts):
            self.stop()
            self.start()

    def stop(self) -> None:
        """End the process, and count what it found."""
        self._process.stop(_STOP_S)
        status = self._process.process.returncode
        if status not in (0, -signal.SIGTERM):  # The signal ends it before it waits for one.
            raise self._process.failure(f"ended with status {status} after SIGTERM")
        parts = [part for table in self._verified().values() for part in table.ranges]
        tried = [part for part in parts if part.tried_ms]
        self.passes += bool(parts) and len(tried) == len(parts)
        self.parts += len(tried)
        self.differing += sum(part.differing for part in tried)
        self.not_proven += sum(part.lsn is None for part in tried)

    def _verified(self) -> dict[str, VerifiedTable]:
        if not self._path.exists():
            return {}
        return of_json(self._path.read_text("utf-8"), str(self._path))
