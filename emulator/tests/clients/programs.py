"""Client programs in other languages: built once into the cache folder, run against the server.

A program takes everything from its environment and prints one JSON object, a member for each check.
Its libraries are pinned by lock files beside its source (go.sum, package-lock.json) and come
through the language's own tool. Where that tool is missing, the tests are skipped and say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from emulator.tests.clients.conftest import Source
from tailrace_compose.local.cache import cache_dir, exclusive

HERE = Path(__file__).parent
BUILD_LIMIT_S = 240
RUN_LIMIT_S = 60


def go_program() -> list[str]:
    """The command that runs the Go program, which is built when its source is new."""
    go = _tool("go")
    folder = HERE / "go"
    program = _place("go", [folder / name for name in ("main.go", "go.mod", "go.sum")]) / "client"
    if not program.exists():
        with exclusive("clients"):
            _build([go, "build", "-mod=readonly", "-o", str(program), "."], folder)
    return [str(program)]


def node_program() -> list[str]:
    """The command that runs the Node program, after installing what its lock file names."""
    node, npm = _tool("node"), _tool("npm")
    folder = HERE / "tedious"
    manifest = [folder / name for name in ("package.json", "package-lock.json")]
    place = _place("tedious", manifest)
    with exclusive("clients"):
        if not (place / "installed").exists():
            for path in manifest:
                shutil.copy(path, place)
            _build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], place)
            (place / "installed").touch()
    # Beside its libraries, because that is where Node looks for them.
    shutil.copy(folder / "client.js", place)
    return [node, str(place / "client.js")]


def report_of(command: list[str], source: Source, table: str) -> dict[str, Any]:
    """What the program saw."""
    environ = dict(
        os.environ,
        PORT=str(source.port),
        DATABASE=source.database,
        USER_NAME=source.user,
        PASSWORD=source.password,
        CERTIFICATE=str(source.certificate),
        TABLE=table,
    )
    run = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
    )
    assert run.returncode == 0, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed here")
    return path


def _place(name: str, files: list[Path]) -> Path:
    """A folder of the cache that belongs to these files as they are now."""
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]
    place = cache_dir() / "clients" / f"{name}-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _build(command: list[str], folder: Path) -> None:
    built = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False
    )
    assert built.returncode == 0, f"{' '.join(command)}: {built.stderr or built.stdout}"
