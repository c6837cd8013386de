"""How many faults each file may still have: allowed.txt, which only shrinks."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.prose import rules

ROOT = Path(__file__).parents[2]
ALLOWED = Path(__file__).with_name("allowed.txt")
RENEW = "python -m tests.prose"

_PACKAGES = (
    "publisher",
    "spark_sink",
    "schemas",
    "service",
    "tailrace",
    "compose",
    "emulator/tailrace_emulator",
    "bench",
)
# Generated from texts that are looked at themselves; the last two are a record of what was.
_NO_PROSE = (
    "docs/configuration.md",
    "docs/events.md",
    "docs/errors.md",
    "docs/metrics.md",
    "docs/cli.md",
    "docs/genuine/inferred.md",
    "CHANGELOG.md",
    "emulator/CHANGELOG.md",
)


def allowed() -> dict[str, int]:
    """The count of each file; the smaller one if a merge left two."""
    found: dict[str, int] = {}
    for line in ALLOWED.read_text(encoding="utf-8").splitlines():
        path, _, count = line.rpartition(" ")
        found[path] = min(int(count), found.get(path, int(count)))
    return found


@cache
def true_counts() -> dict[str, int]:
    """The count of each file that has faults."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    asked += [f"{package}/*.py" for package in _PACKAGES]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (path for path in listed.stdout.splitlines() if path not in _NO_PROSE)
    found = {path: len(rules.faults(ROOT / path)) for path in paths if (ROOT / path).is_file()}
    return {path: count for path, count in sorted(found.items()) if count}


def grown() -> list[str]:
    """What has more faults than it may have, with each of them.

    A file that moved brings its faults along: files that the list does not name may have as many
    together as the files on it that are gone.
    """
    may, true = allowed(), true_counts()
    more = [path for path, count in true.items() if path in may and count > may[path]]
    new = [path for path in true if path not in may]
    gone = sum(count for path, count in may.items() if not (ROOT / path).exists())
    if sum(true[path] for path in new) > gone:
        more += new
    return [
        f"{path}:{fault.line}: {fault.text!r}: {fault.instead}"
        for path in more
        for fault in rules.faults(ROOT / path)
    ]


def write() -> None:
    """Write the true counts."""
    lines = [f"{path} {count}\n" for path, count in true_counts().items()]
    ALLOWED.write_text("".join(lines), encoding="utf-8")
