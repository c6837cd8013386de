"""docs/tutorial.md, run as it is written: its ``sh`` blocks, compared with the ``text`` after."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace_compose.local.stack import stop_kept

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
LIMIT_S = 600

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow("a stack, a publisher and a sink start"),
    pytest.mark.timeout(LIMIT_S + 60),
]


def steps() -> list[tuple[str, str | None]]:
    """The commands of the page in order, each with the output that is shown after it."""
    blocks = re.findall(r"(?ms)^```(sh|text)\n(.*?)^```", PAGE.read_text("utf-8"))
    found: list[tuple[str, str | None]] = []
    for kind, text in blocks:
        found = [*found, (text, None)] if kind == "sh" else [*found[:-1], (found[-1][0], text)]
    return found


def pattern_of(expected: str) -> str:
    """Build a regular expression: ``...`` is the rest of a line, alone any number of lines."""
    lines = [
        "(?:.*\\n)*" if line == "..." else f"{re.escape(line)}\\n".replace(r"\.\.\.", ".*")
        for line in expected.splitlines()
    ]
    return "".join(lines)


def run_in(folder: Path, commands: list[str]) -> list[str]:
    """Run the commands in one shell, as a user does; return the output of each."""
    script = "".join(f"{text}echo '#end'\n" for text in commands)
    inherited = {name: text for name, text in os.environ.items() if "TAILRACE__" not in name}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**inherited, "PATH": path, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        return shell.communicate(timeout=LIMIT_S)[0].split("#end\n")[:-1]
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGTERM)
        pytest.fail(f"not within {LIMIT_S} s: {shell.communicate()[0]}")


def test_the_tutorial_runs_as_it_is_written(tmp_path: Path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    written = steps()
    assert re.findall(r"(?m)^## (\d)\.", PAGE.read_text("utf-8")) == list("12345678")

    try:
        printed = run_in(tmp_path, [commands for commands, _ in written])
    finally:
        stop_kept(tmp_path / ".tailrace" / "stack")

    assert len(printed) == len(written), printed
    for (commands, expected), output in zip(written, printed, strict=True):
        if expected is not None:
            assert re.fullmatch(pattern_of(expected), output), f"{commands}\n{output}"
