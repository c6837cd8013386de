"""Prints a hash of all that the tests of the embedded server depend on.

``make test-emulator`` writes it into ``passed`` when they all passed, to be checked in. As long as
it is the same, ``.ci/run`` does not run them again.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PASSED = "emulator/tests/passed"
SEEN_BY_TESTS = (
    "emulator/tailrace_emulator",
    "emulator/tests",
    "emulator/docs/reference-coverage.md",
    "emulator/pyproject.toml",
    "conftest.py",
    "tests/suite",
    "requirements.lock",
    "compose/tailrace_compose/local/jars.lock",
)


def content() -> str:
    """Hash of the files, tracked or new, as they lie in the working tree."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    listed = subprocess.run([*command, *SEEN_BY_TESTS], cwd=ROOT, capture_output=True, check=True)
    names = sorted(set(listed.stdout.decode().split("\0")) - {"", PASSED})
    whole = hashlib.sha256()
    for name in names:
        path = ROOT / name
        if path.is_file():
            whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(content() + "\n")
