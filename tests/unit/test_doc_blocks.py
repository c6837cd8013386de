"""What the pages show for copying fits the code: configurations, calls, versions."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tailrace.settings.load import load
from tailrace_compose.local.jars import locked
from tests.least_options import LEAST

ROOT = Path(__file__).parents[2]
SECTIONS = {"publisher", "sink", "kafka", "registry", "prefix", "tracing"}
GENERATED = {"configuration.md", "python.md"}


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Page and text of each block, without the indentation of a list."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        if page.name in GENERATED or "adr" in page.parts:
            continue
        found = re.findall(rf"(?ms)^ *```{language}\n(.*?)^ *```", page.read_text("utf-8"))
        yield from ((page.name, textwrap.dedent(text)) for text in found)


def with_least(shown: dict[str, Any]) -> dict[str, Any]:
    """A configuration that lacks only what the page shows, with that in it."""
    options = dict(shown)
    for name in ("kafka", "registry", "prefix"):
        options.setdefault(name, LEAST[name])
    publisher = dict(options.get("publisher", {}))
    publisher["source"] = {**LEAST["source"], **publisher.get("source", {})}
    if "password_file" in publisher["source"]:
        del publisher["source"]["password"]
    sink = {"lake": "/lake", **options.get("sink", {})}
    return options | {"publisher": publisher, "sink": sink}


@pytest.mark.parametrize(("page", "text"), list(blocks("yaml")))
def test_each_configuration_on_the_pages_is_accepted(page: str, text: str, tmp_path: Path):
    shown = yaml.safe_load(text)
    if not set(shown) <= SECTIONS:
        pytest.skip(f"{page} shows a part of a section")
    file = tmp_path / "tailrace.yaml"
    file.write_text(yaml.safe_dump(with_least(shown)), "utf-8")
    load(file, {}).check()


@pytest.mark.parametrize(("page", "text"), list(blocks("python")))
def test_each_call_on_the_pages_fits_its_function(page: str, text: str):
    tree = ast.parse(text, page)
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tailrace"):
            module = importlib.import_module(str(node.module))
            names |= {alias.name: getattr(module, alias.name) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = names.get(node.func.id)
            if function is not None:
                keywords = {keyword.arg or "": None for keyword in node.keywords}
                inspect.signature(function).bind(*node.args, **keywords)


def test_the_jars_for_spark_submit_are_the_locked_ones():
    page = (ROOT / "docs" / "spark-cluster.md").read_text("utf-8")
    shown = set(re.findall(r"[\w.]+:[\w.-]+_2\.13:[\d.]+", page))
    known = {":".join(item.coordinate[:3]) for item in locked("spark")}
    assert shown
    assert shown <= known
