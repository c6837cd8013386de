"""What the pages promise can be looked at: links lead somewhere, guarantees have their tests."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tailrace.cli.root import cli

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in found.stdout.splitlines() if (path := ROOT / line).is_file()]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in _LINK.findall(text) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


def test_every_command_on_the_pages_has_the_options_that_it_is_given():
    wrong = []
    for page in pages():
        if page.name == "CHANGELOG.md" or page.parent.name == "adr":
            continue  # which tell of earlier releases, too
        blocks = "\n".join(re.findall(r"```.*?```", page.read_text("utf-8"), re.DOTALL))
        for name, rest in re.findall(r"(?m)^[ $]*tailrace ([a-z-]+)(.*)$", blocks):
            command = cli.commands.get(name)
            options = re.findall(r"(?<= )--[a-z-]+", rest.partition(" #")[0])
            known = {option for p in command.params for option in p.opts} if command else set()
            wrong += [f"{page.name}: {name} {o}" for o in options if o not in known]
            wrong += [] if command else [f"{page.name}: {name}"]
    assert wrong == []


def test_every_guarantee_has_tests_that_are_there_and_one_number():
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (\d+) \| (.+?) \| (.+) \|$", page)
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    for number, _, held_by in rows:
        files = [ROOT / "docs" / link for link in _LINK.findall(held_by)]
        assert files, number
        for file in files:
            assert file.is_file(), (number, file)
            assert re.search(r"(?m)^def test_", file.read_text(encoding="utf-8")), file


def test_make_test_holds_every_guarantee_that_needs_spark():
    """Of those held only by tests with Spark, a file has the mark with the number."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    asked = 0
    for number, _, held_by in re.findall(r"(?m)^\| (\d+) \| (.+?) \| (.+) \|$", page):
        files = [ROOT / "docs" / link for link in _LINK.findall(held_by)]
        if all({"sink", "end_to_end"} & set(file.parts[-4:-1]) for file in files):
            asked += 1
            mark = re.compile(rf"(guarantee|Stories)\({number}\b")
            assert any(mark.search(file.read_text(encoding="utf-8")) for file in files), number
    assert asked > 5


def test_every_failure_has_a_command_and_tests_that_are_there():
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        shown = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)", section.partition("\nShown by ")[2])
        assert shown, title
        assert "\n```\ntailrace " in section, title
        for file in shown:
            assert "\ndef test_" in (ROOT / file).read_text(encoding="utf-8"), (title, file)


def test_every_page_is_on_the_site():
    docs = ROOT / "docs"
    listed: set[Path] = set()
    for index in docs.rglob("index.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text("utf-8"), re.DOTALL):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    listed |= set(index.parent.glob(f"{line}.md"))
    here = {page for page in pages() if page.is_relative_to(docs)}
    assert here - listed - {docs / "index.md"} == set()


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=str)
def test_pictures_can_be_drawn_and_say_what_they_show(picture: Path):
    root = ET.parse(picture).getroot()  # noqa: S314 - our own
    assert root.get("aria-label")
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_the_changelog_has_a_short_line_for_each_change():
    newest = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## 0.1.0")[0]
    entries = newest.partition("### Tailrace")[2].splitlines()
    long = [line for line in entries if len(line.removeprefix("- ").split()) > 25]
    assert long == []
    assert [line for line in entries if line.startswith(" ")] == []


def test_the_readme_of_a_package_leads_to_every_file_that_decides():
    found = (ROOT / "docs" / "where.md").read_text("utf-8").partition("|---|")[2]
    for link in _LINK.findall(found):
        package, _, path = link.removeprefix("../").partition("/")
        assert f"]({path})" in (ROOT / package / "README.md").read_text("utf-8"), link


def test_the_readme_leads_to_every_example_and_a_test_runs_each():
    readme = (ROOT / "README.md").read_text("utf-8")
    tests = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")]
    found = (ROOT / "examples").iterdir()
    examples = {path.name for path in found if path.name[0] not in "._"} - {"README.md"}
    assert len(examples) > 10
    for name in sorted(examples):
        assert f"](examples/{name}" in readme, name
        named = re.compile(rf'"{name.removesuffix(".py")}(\.py)?"')
        assert any(named.search(text) for text in tests), f"no test runs {name}"


@pytest.mark.parametrize("program", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_without_arguments_says_how_it_is_called(
    program: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "argv", [program.name])
    with pytest.raises(SystemExit, match=f"\npython {re.escape(program.name)} "):
        runpy.run_path(str(program), run_name="__main__")


def test_every_public_name_of_python_can_be_imported():
    table = (ROOT / "docs" / "api.md").read_text("utf-8").partition("## Python")[2]
    rows = re.findall(r"(?m)^\| `([\w.]+)` \| (.+) \|$", table.partition("\n## ")[0])
    assert rows
    missing = [
        f"{module}.{name}"
        for module, names in rows
        for name in re.findall(r"`(\w+)`", names)
        if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []


def test_pages_of_the_site_link_to_no_page_outside_it():
    """The site cannot show such a page; `make docs` would fail."""
    docs, emulator = ROOT / "docs", ROOT / "emulator" / "docs"
    outside = []
    for page in pages():
        if page.is_relative_to(docs) and not page.is_relative_to(docs / "emulator"):
            links = [link.partition("#")[0] for link in _LINK.findall(page.read_text("utf-8"))]
            targets = {link: (page.parent / link).resolve() for link in links if "://" not in link}
            outside += [
                f"{page.name}: {link}"
                for link, target in targets.items()
                if target.suffix == ".md"
                and not (target.is_relative_to(docs) or target.is_relative_to(emulator))
            ]
    assert outside == []
