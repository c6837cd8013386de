"""Which files of a staged snapshot somebody else may have touched."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tailrace_sink.iceberg.rebase import FileChanges, meet


@dataclass
class File:
    """A file of Iceberg; only files of deletes name a data file."""

    path: str
    about: str | None = None

    def location(self) -> str:
        return self.path

    def referencedDataFile(self) -> str | None:  # noqa: N802 - Iceberg's name
        return self.about


def test_a_snapshot_touches_what_it_removes_and_what_its_vectors_are_about():
    appended = FileChanges([File("a")], [], [], [])
    assert appended.has_only_new_rows
    assert appended.touched == set()

    merged = FileChanges([File("b")], [File("c")], [File("v2", "d")], [File("v1", "d")])
    assert not merged.has_only_new_rows
    assert merged.touched == {"c", "d"}
    assert FileChanges([], [], [File("positions")], []).touched == {None}


@pytest.mark.parametrize(
    ("needed", "touched", "expected"),
    [
        ({"a"}, {"b"}, False),
        ({"a"}, {"a", "b"}, True),
        (set(), {"a", None}, False),
        ({"a", None}, set(), False),
        ({"a"}, {None}, True),
        ({None}, {"b"}, True),
    ],
)
def test_unknown_files_may_be_any(
    needed: set[str | None], touched: set[str | None], expected: bool
):
    assert meet(needed, touched) is expected
    assert meet(touched, needed) is expected
