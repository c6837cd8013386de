"""Suites that run only where what they depend on has changed since they last passed.

``make test-emulator`` and ``make test-sink`` write a hash of it into a file when all their tests
passed, to be checked in. As long as it is the same, ``.ci/run`` does not run them again.

    python tests/suite/passed.py sink           # ends with 1 if the hash is another one
    python tests/suite/passed.py sink --note HASH
    python tests/suite/passed.py sink --hash
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ALL = (
    "conftest.py",
    "tests/suite",
    "requirements.lock",
    "compose/tailrace_compose/local/jars.lock",
)
SEEN_BY_TESTS = {
    "emulator": (
        *_ALL,
        "emulator/tailrace_emulator",
        "emulator/tests",
        "emulator/docs/reference-coverage.md",
        "emulator/pyproject.toml",
    ),
    "sink": (
        *_ALL,
        "spark_sink/tailrace_sink",
        "schemas/tailrace_schemas",
        "service/tailrace_service",
        "tailrace/reading",
        "tailrace/testing",
        "examples",
        "docs/tutorial.md",
        "tests/sink",
        "tests/end_to_end",
        "tests/envelopes",
        "tests/conftest.py",
        "tests/LocalFiles.java",
        "tests/fix_*.py",
    ),
}
"""Files and folders of each suite, tracked or new, as they lie in the working tree."""
NOTES = {"emulator": "emulator/tests/passed", "sink": "tests/sink/passed"}


def content(suite: str) -> str:
    """Hash of all that the tests of a suite depend on."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    seen = SEEN_BY_TESTS[suite]
    listed = subprocess.run([*command, *seen], cwd=ROOT, capture_output=True, check=True)
    names = sorted(set(listed.stdout.decode().split("\0")) - {"", *NOTES.values()})
    whole = hashlib.sha256()
    for name in names:
        path = ROOT / name
        if path.is_file():
            whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def main() -> int:
    """Compare, print or note the hash of a suite."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", choices=sorted(SEEN_BY_TESTS))
    parser.add_argument("--hash", action="store_true", help="print it")
    parser.add_argument("--note", metavar="HASH", help="write down that the tests passed with it")
    arguments = parser.parse_args()
    note = ROOT / NOTES[arguments.suite]
    if arguments.hash:
        sys.stdout.write(content(arguments.suite) + "\n")
        return 0
    if arguments.note:
        note.write_text(arguments.note + "\n", encoding="utf-8")
        return 0
    return int(
        not note.exists() or note.read_text(encoding="utf-8").strip() != content(arguments.suite)
    )


if __name__ == "__main__":
    sys.exit(main())
