"""Commands as processes of their own, with the configuration of a pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LIMIT_S = 300


@dataclass(frozen=True)
class Command:
    """A command with its arguments, and options of the sink that differ from the pipeline's."""

    name: str
    arguments: tuple[str, ...] = ()
    lake: str | None = None
    s3: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        """Its JSON object."""
        return dict(json.loads(self.out))


def run_all(config: Path, commands: Mapping[str, Command]) -> dict[str, Answer]:
    """Run commands side by side; each has its answer by its name here."""
    started = {name: _start(config, command, name) for name, command in commands.items()}
    try:
        return {
            name: Answer(process.wait(), out, err)
            for name, process in started.items()
            for out, err in [process.communicate(timeout=LIMIT_S)]
        }
    finally:
        for process in started.values():
            process.kill()


@contextmanager
def running(config: Path, command: Command, name: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs while the block does, and then ends well on SIGTERM."""
    process = _start(config, command, name)
    try:
        yield process
        process.terminate()
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.communicate()


@contextmanager
def page(config: Path) -> Iterator[str]:
    """The address of ``tailrace web``, which runs while the block does."""
    with running(config, Command("web", ("--port", "0", "--every", "0.2")), "web") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("The page is at "), process.communicate(timeout=LIMIT_S)
        yield line.split()[-1]


def _start(config: Path, command: Command, name: str) -> subprocess.Popen[str]:
    """Start a command with a configuration file of its own."""
    options: dict[str, Any] = yaml.safe_load(config.read_text("utf-8"))
    sink = options["sink"]
    sink["lake"] = command.lake or sink["lake"]
    if command.s3:
        sink["s3"] = {**sink["s3"], **command.s3}
    file = config.with_name(f"{name.replace(' ', '_')}.yaml")
    file.write_text(yaml.safe_dump(options), "utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "tailrace", command.name, "--config", str(file), *command.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
