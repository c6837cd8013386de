"""docs/reference-coverage.md names only cases and tests that exist."""

import re
from pathlib import Path

from emulator.tests.conformance.case import load_cases

EMULATOR = Path(__file__).parents[3]
PAGE = EMULATOR / "docs" / "reference-coverage.md"
UNIT = Path(__file__).parent
_ROW = re.compile(r"^\| (?P<statement>.+?) \| (?P<shown>.+) \|$")


def rows():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = _ROW.match(line)
        if row is not None and row["statement"] != "Statement" and "---" not in line:
            yield row["statement"], row["shown"]


def unit_tests():
    for path in UNIT.glob("test_*.py"):
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{path.stem}::{name}"


def test_every_named_case_exists():
    known = {case.name for case in load_cases()} | set(unit_tests())
    named = {name for _, shown in rows() for name in re.findall(r"`([^`]+)`", shown)}
    assert len(named) > 60
    assert named <= known, sorted(named - known)


def test_every_statement_is_shown_or_said_to_be_absent():
    bare = [
        statement for statement, shown in rows() if "`" not in shown and "*not there*" not in shown
    ]
    assert not bare
