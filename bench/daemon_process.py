"""A daemon as a process of its own, for benchmarks: its figures, its memory, its processor time."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tailrace_emulator.testing.process import ChildProcess


class DaemonProcess(ChildProcess):
    """``tailrace publish`` or ``tailrace sink`` as a process of its own.

    Args:
        section: of the settings; it has a ``metrics_port``.
        folder: where configuration and log are written.
    """

    def __init__(
        self,
        section: Literal["publisher", "sink"],
        settings: Mapping[str, Any],
        folder: Path,
    ) -> None:
        self._port = settings[section]["metrics_port"]
        name = f"{settings['prefix']}-{section}"
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(settings), encoding="utf-8")
        program = "publish" if section == "publisher" else "sink"
        command = [sys.executable, "-m", "tailrace", program, "--config", str(path)]
        super().__init__(f"tailrace {program}", command, folder / f"{name}.log")

    @property
    def url(self) -> str:
        """Of its endpoint."""
        return f"http://127.0.0.1:{self._port}"

    def counted(self, counter: str) -> float:
        """The sum of one of its counters over the labels; 0 before it answers."""
        return self.figures(f"{counter}_total")[0]

    def figures(self, *names: str) -> list[float]:
        """The sums of some of its figures over the labels, at one moment; 0 before it answers."""
        text = self.answer("/metrics")
        return [
            sum(
                map(
                    float,
                    re.findall(
                        rf"^tailrace_{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE
                    ),
                )
            )
            for name in names
        ]

    def peak_kb(self) -> int:
        """Largest resident size that it ever had, in kB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmHWM:")[1].split()[0])

    def cpu_s(self) -> float:
        """Seconds that it has spent on a core."""
        return cpu_s_of(self.process.pid)

    def answer(self, path: str) -> str:
        """What it says under a path; nothing before it answers, and where it says no."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=3) as answer:  # noqa: S310 - our own
                text: str = answer.read().decode()
        except OSError:
            return ""
        return text


def cpu_s_of(pid: int | None) -> float:
    """Seconds that a process has spent on a core; 0 of none."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    user, system = fields.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
