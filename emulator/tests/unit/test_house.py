"""How the embedded server's files depend on each other, counted by imports.

Imports inside functions and those for type checking count too: who reads a file has to know what it
names.
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


def test_no_files_import_each_other(graph):
    assert [sorted(circle) for circle in _circles(graph) if len(circle) > 1] == []


def _circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Sets of files each of which reaches every other by imports (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    pending: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        pending.append(module)
        for imported in graph.find_modules_directly_imported_by(module):
            if imported not in order:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in pending:
                lowest[module] = min(lowest[module], order[imported])
        if lowest[module] == order[module]:
            place = pending.index(module)
            found.append(pending[place:])
            del pending[place:]

    for module in sorted(graph.modules):
        if module not in order:
            visit(module)
    return found


@pytest.mark.parametrize("imports", ["a b", "a b, b a", "a b, b c, c a, c d, d c, e a"])
def test_circles_are_found(imports):
    made = grimp.ImportGraph()
    for module in "abcde":
        made.add_module(module)
    for pair in imports.split(", "):
        importer, imported = pair.split()
        made.add_import(importer=importer, imported=imported)
    found = sorted("".join(sorted(circle)) for circle in _circles(made) if len(circle) > 1)
    assert found == {"a b": [], "a b, b a": ["ab"]}.get(imports, ["abcd"])
