"""How the embedded server's files depend on each other, counted by imports.

Imports inside functions and those for type checking count too: who reads a file has to know what it
names.
"""

from __future__ import annotations

import grimp
import pytest

FACES = (
    "cdc_",
    "job_procedures",
    "msdb_views",
    "msdb_history_views",
    "instance_access",
    "replicated_size",
)
"""Files of the catalog that are change data capture's own, by the beginnings of their names."""

COMPOSITION = ("emulator.__main__",)
"""What puts the server together knows every part."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("emulator", exclude_type_checking_imports=False, cache_dir=None)


def is_capture(module: str) -> bool:
    """Whether a file belongs to change data capture."""
    _, _, plain = module.partition("emulator.catalog.")
    return (
        module == "emulator.agent" or module.startswith("emulator.cdc") or plain.startswith(FACES)
    )


def test_the_engine_does_not_know_change_data_capture(graph):
    known = [
        (importer, imported)
        for importer in sorted(graph.modules - set(COMPOSITION))
        for imported in graph.find_modules_directly_imported_by(importer)
        if is_capture(imported) and not is_capture(importer)
    ]
    assert known == []
