"""How the files of all packages depend on each other, counted by imports, and how many there are.

Imports inside functions and those for type checking count too: anyone who reads a file has to know
what it names. Layers are import-linter's (pyproject.toml); these are what it does not check.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import grimp
import pytest

PACKAGES = (
    *("tailrace_schemas", "tailrace_service", "tailrace_publisher", "tailrace_sink"),
    *("tailrace_compose", "tailrace", "tailrace_emulator"),
)

ROOT = Path(__file__).parents[2]
PRODUCT = ("schemas", "service", "publisher", "spark_sink", "compose", "tailrace", "tests", "bench")
"""The embedded server is frozen: its folders stay as they are."""
FOLDER_MAX = 20
"""Python files in a folder, ``__init__.py`` left out."""


def test_a_folder_has_no_more_files_than_fit_on_a_screen():
    files = (path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))
    counts = Counter(path.parent.relative_to(ROOT) for path in files if path.stem != "__init__")
    assert {str(folder): n for folder, n in counts.items() if n > FOLDER_MAX} == {}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Per file, the files that it imports."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_files_import_each_other_in_a_circle(imports):
    assert in_circles(imports) == {}


def in_circles(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports among files of circles, and of those between two circles."""
    left = imports
    while True:
        imported = set().union(*left.values())
        tied = {module for module, targets in left.items() if targets and module in imported}
        if tied == left.keys():
            return left
        left = {module: left[module] & tied for module in tied}


@pytest.mark.parametrize(
    ("imports", "circles"),
    [("ab", ""), ("ab ba", "ab"), ("ab bc ca cd ea", "abc"), ("ab bc cd", ""), ("aa", "a")],
)
def test_circles_are_found(imports, circles):
    given = {
        module: {pair[1] for pair in imports.split() if pair[0] == module} for module in "abcde"
    }
    assert set(in_circles(given)) == set(circles)
