"""The rules of the house that a machine can check."""

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from tailrace.reference import cli as cli_page
from tailrace.reference import contract as contract_page
from tailrace.reference import errors as errors_page
from tailrace.reference import events as events_page
from tailrace.reference import metrics as metrics_page
from tailrace.reference import python as python_page
from tailrace.reference.configuration import document, options
from tailrace.reference.contract_fields import PROGRESS
from tailrace.reference.option_examples import EXAMPLES, example
from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tests.prose import counts, rules

ROOT = Path(__file__).parents[2]


def tracked(pattern: str) -> list[Path]:
    found = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return [ROOT / line for line in found.stdout.splitlines()]


def test_links_stay_within_the_repository():
    for path in tracked("*"):
        if path.is_symlink():
            assert not path.readlink().is_absolute(), path
            assert path.resolve().is_relative_to(ROOT), path


def test_the_configuration_page_is_made_from_the_options_as_they_are():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

    assert page == document(), (
        "run: python -m tailrace.reference.configuration docs/configuration.md"
    )


def test_each_example_of_an_option_is_a_value_of_it():
    shown = {path: (field, example(path)) for path, field in options() if example(path)}

    for field, value in shown.values():
        TypeAdapter(Annotated[field.annotation, field]).validate_python(value)
    assert {".".join(path.split(".")[-2:]) for path in shown} == set(EXAMPLES)


def test_no_description_repeats_the_default_that_the_page_shows():
    repeated = []
    for path, field in options():
        shown = json.dumps(field.get_default(call_default_factory=True), default=str).strip('"')
        number = shown.removesuffix(".0")
        wording = rf"\(default\)|default:? ({re.escape(shown)}|{re.escape(number)})\b"
        if shown not in {"null", ""} and re.search(wording, field.description or ""):
            repeated.append(path)
    assert repeated == []


def test_the_page_of_commands_is_made_from_the_commands():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

    assert page == cli_page.document(), "run: python -m tailrace.reference.cli docs/cli.md"


def test_the_page_of_events_is_made_from_the_calls_that_log():
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")

    assert page == events_page.document(), "run: python -m tailrace.reference.events docs/events.md"


@pytest.mark.parametrize("name", ["metrics", "errors", "python"])
def test_the_pages_of_metrics_errors_and_python_are_made_from_the_code(name: str):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    modules = {"metrics": metrics_page, "errors": errors_page, "python": python_page}

    assert page == modules[name].document(), (
        f"run: python -m tailrace.reference.{name} docs/{name}.md"
    )


def test_the_page_of_the_contract_has_every_field_of_the_schemas():
    page = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")

    assert sorted(contract_page.tables_of(page)) == sorted(contract_page.TABLES)
    assert page == contract_page.rewritten(page), (
        "run: python -m tailrace.reference.contract docs/contract.md"
    )


@pytest.mark.parametrize("fields", [PROGRESS_SCHEMA["fields"][:-1], [{"name": "x", "type": "int"}]])
def test_a_field_and_its_meaning_need_each_other(fields: list[dict[str, object]]):
    with pytest.raises(contract_page.UndescribedField, match=r"patched|x"):
        contract_page.meanings(fields, PROGRESS)


def test_events_are_found_however_they_are_told():
    text = """
_log.info("plain", table=1)
self._log.exception("raised", **more)
tell = _log.warning if x else None
tell = _log.warning
tell("by alias", reason=1)
_log.error("one" if x else "two")
other.info("nobody's")
"""
    found = {(c.event, c.level, c.fields) for c in events_page.calls_in(text, "f.py")}
    assert found == {
        ("plain", "info", ("table",)),
        ("raised", "error", ("...",)),
        ("by alias", "warning", ("reason",)),
        ("one", "error", ()),
        ("two", "error", ()),
    }
    with pytest.raises(events_page.UnnamedEvent, match=r"f\.py:1"):
        list(events_page.calls_in("_log.info(name)", "f.py"))


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


def test_no_file_gets_more_faults_of_english_than_it_has():
    assert counts.grown() == [], f"rewrite these; after moving files run: {counts.RENEW}"


def test_the_recorded_counts_are_as_low_as_the_truth():
    assert counts.allowed() == counts.true_counts(), f"run: {counts.RENEW}"


def test_faults_of_english_are_found():
    page = """# Told
Once the topics are behind its start, drop it. The sink is 5 s behind.
`anew` and times out.
"""
    found = [(fault.line, fault.text) for fault in rules.page_faults(page)]
    assert found == [(1, "Told"), (2, "behind")]

    long = " ".join(["word"] * (rules.WORDS_MAX + 1))
    module = f'''
def f(config):
    """Go on.

    Args:
        config: the options.
        wait_s: seconds, at most 60 in all; each of these entries is a sentence of its own.
        limit: of the words, so that the two would have more than 25 together; they have not.
    """
    fail("begun anew", "behind")


class C:
    """A thing. W{long}."""
'''
    found = [(fault.line, fault.text) for fault in rules.module_faults(module)]
    assert sorted(found) == [
        (3, "Go on"),
        (6, "config: the options."),
        (10, "anew"),
        (10, "begun"),
        (14, "Wword word word word word ..."),
    ]


# "The topics are behind the newer one's start" told an operator to disable a capture instance
# whose rows were not published yet. A text that is added here was read as an instruction first.
SAYS_LAG = (
    "behind",
    " behind",
    " s behind",
    " s behind the log.",
    " s behind the last commit that it captured",
    " is behind the log, ",
    "topics behind",
    "lake's log behind",
    "lake's table behind",
    "furthest behind",
)


def test_behind_means_lag_in_every_text_that_an_operator_reads():
    other = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for folder in ("publisher", "spark_sink", "schemas", "service", "tailrace", "compose")
        for path in tracked(f"{folder}/*.py")
        if path.exists()
        for node in texts_of(ast.parse(path.read_text()))
        if re.search(r"\bbehind\b", node.value) and not says_lag(node.value)
    ]

    assert other == [], "write after, past, or at or after; or add the text to SAYS_LAG"


def says_lag(text: str) -> bool:
    """Whether a text is one of SAYS_LAG, or has one of the longer ones in it."""
    return text in SAYS_LAG or any(len(lag) > len(" s behind") and lag in text for lag in SAYS_LAG)


def texts_of(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts of a module that are no docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node
