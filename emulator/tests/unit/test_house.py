"""How the embedded server's files depend on each other, counted by imports.

Imports inside functions and those for type checking count too: anyone who reads a file has to know
what it names. Circles of files are looked for in tests/unit/test_house.py, for all packages.
"""

from __future__ import annotations

import grimp
import pytest

COMPOSITION = ("tailrace_emulator.__main__",)
"""What puts the server together knows every part."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "tailrace_emulator", exclude_type_checking_imports=False, cache_dir=None
    )


def is_capture(module: str) -> bool:
    """Whether a file belongs to change data capture."""
    return module.startswith("tailrace_emulator.cdc")


def test_the_engine_does_not_know_change_data_capture(graph):
    known = [
        (importer, imported)
        for importer in sorted(graph.modules - set(COMPOSITION))
        for imported in graph.find_modules_directly_imported_by(importer)
        if is_capture(imported) and not is_capture(importer)
    ]
    assert known == []
