"""The rules of the house that a machine can check."""

import subprocess
from pathlib import Path

from tailrace.configuration import document

ROOT = Path(__file__).parents[2]


def tracked(pattern: str) -> list[Path]:
    found = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return [ROOT / line for line in found.stdout.splitlines()]


def test_the_configuration_page_is_made_from_the_options_as_they_are():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

    assert page == document(), "run: python -m tailrace.configuration docs/configuration.md"


def test_nothing_is_left_to_be_done_in_a_comment():
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3 + ":")
    left = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked("*.py")
        if path.exists()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(mark in line for mark in marks)
    ]

    assert left == []
