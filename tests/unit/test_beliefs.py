"""A statement to SQL Server says which page documents it, or what would settle it."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.tests.conformance.case import GRANTS
from tailrace.reference import beliefs
from tailrace.reference.beliefs import ROOT, all_statements, statements


def test_a_statement_names_its_page_or_what_would_settle_it():
    unmarked = [f"{s.file}:{s.line}: {s.name}" for s in all_statements() if not s.marks]

    assert unmarked == [], "say `See: <title of the page>` or `Inferred: <question>` at it"


def test_the_page_of_what_is_inferred_is_as_generated():
    page = (ROOT / "docs" / "genuine" / "inferred.md").read_text("utf-8")

    assert page == beliefs.document(), (
        "run: python -m tailrace.reference.beliefs docs/genuine/inferred.md"
    )


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("def f(c):\n    return c.query('SELECT 1')", False),
        ("def f(c):\n    '''One. See: DB_NAME.'''\n    return c.query('SELECT 1')", True),
        ("def f(c):\n    # Inferred: is it 1?\n    return c.query(f'SELECT {1}')", True),
        ("# See: @@VERSION\nTEXT = 'SELECT @@VERSION'", True),
        ("TEXT = 'SELECT @@VERSION'\n'''See: @@VERSION'''", True),
        ("'''See: the module's page.'''\n\nTEXT = 'SELECT @@VERSION'", False),
        ("# See: another's\nONE = 'SELECT 1'\n\nTWO = 2\nTEXT = 'EXEC x'", False),
        ("class A:\n    '''See: x.'''\n\n    def f(self, c):\n        c.query('EXEC x')", True),
        ("class A:\n    def f(self, c, t):\n        c.query(f'{t} FROM x')", False),
    ],
)
def test_a_mark_counts_at_its_statement_only(tmp_path: Path, text: str, marked: bool):
    path = tmp_path / "module.py"
    path.write_text(text)

    assert [bool(statement.marks) for statement in statements(path)][-1] is marked


def test_a_mark_has_its_whole_text(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text("# Inferred: does it\n# end? See: DB_ID\nTEXT = 'SELECT DB_ID()'\n")

    (statement,) = statements(path)

    assert [(mark.kind, mark.text) for mark in statement.marks] == [
        ("Inferred", "does it end?"),
        ("See", "DB_ID"),
    ]


def test_prose_without_a_statement_needs_no_mark(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text("def f():\n    '''SELECT is not sent.'''\n    return 'a select of rows'\n")

    assert statements(path) == []


def test_cases_that_run_as_the_publisher_have_grants_of_the_page():
    page = (ROOT / "docs" / "real-sqlserver.md").read_text("utf-8")

    for grant in GRANTS:
        assert grant.format(user="tailrace") + ";" in page
