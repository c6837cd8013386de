"""docs/python.md, generated from the docstrings of what docs/api.md calls public.

``python -m tailrace.reference.python docs/python.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tailrace import lake, spark, subscribe, testing
from tailrace.lake.cut import Cut as LakeCut
from tailrace.lake.reader import Lake
from tailrace.reading.lake_session import configured_session, lake_session
from tailrace_sink import changes, history, read, run
from tailrace_sink.reading.cut import Cut
from tailrace_sink.reading.reader import LakeReader

_HEAD: Final = """# Python

The names that are public and stable ([what that means](api.md)), with their docstrings.

This page is generated: `python -m tailrace.reference.python docs/python.md`.
"""
_SECTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "tailrace_sink": (read, LakeReader, Cut, changes, history, run),
    "tailrace.lake": (lake.open, Lake, LakeCut),
    "tailrace.spark": tuple(getattr(spark, name) for name in spark.__all__),
    "tailrace.reading.lake_session": (lake_session, configured_session),
    "tailrace.subscribe": (
        *(subscribe.subscribe, subscribe.Feed, subscribe.Start, subscribe.Options),
        *(subscribe.Subscription, subscribe.Change, subscribe.Transaction, subscribe.SchemaChanged),
        *(
            subscribe.SnapshotStarted,
            subscribe.SnapshotFinished,
            subscribe.PatchFinished,
            subscribe.Closed,
        ),
    ),
    "tailrace.testing": tuple(getattr(testing, name) for name in testing.__all__),
}
_RETURNED: Final = ("tailrace_sink", "tailrace.lake")
"""Modules whose classes are returned by functions, and not built by users."""
_PART: Final = re.compile(r"(Args|Attributes|Returns|Yields|Raises):")
_ENTRY: Final = re.compile(r" {4}(\S[^:\n]*): (.*)")
_ROLE: Final = re.compile(r":\w+:`~?")
_EXAMPLE: Final = re.compile(r"(?m)^::\n\n((?:(?: {4}.*)?\n)+)")
_LINE_MAX: Final = 60


def document() -> str:
    """Return the page's text."""
    parts = [_HEAD]
    for module, names in _SECTIONS.items():
        parts.append(f"## {module}\n")
        for item in names:
            parts += _class(item) if inspect.isclass(item) else [_entry("###", item, item.__name__)]
    return "\n".join(parts)


def _class(item: type) -> Iterator[str]:
    is_built_by_users = not item.__module__.startswith(_RETURNED)
    has_signature = is_built_by_users and "__init__" in vars(item)
    yield _entry("###", item, item.__name__, _signature(item) if has_signature else "")
    public = [base.__name__ for base in item.__mro__[1:] if base in _SECTIONS["tailrace.testing"]]
    if public:
        yield f"Has everything that {' and '.join(public)} has.\n"
    for name, member in vars(item).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield _entry("####", member, f"{item.__name__}.{name}", "")
        elif inspect.isfunction(member):
            yield _entry("####", member, f"{item.__name__}.{name}")
        elif isinstance(member, classmethod):
            yield _entry("####", getattr(item, name), f"{item.__name__}.{name}")


def _entry(level: str, item: Any, name: str, signature: str | None = None) -> str:
    shown = _signature(item) if signature is None else signature
    call = f"```python\n{name}{shown}\n```\n\n" if shown else ""
    return f"{level} {name}\n\n{call}{_text(inspect.getdoc(item) or '')}\n"


def _signature(item: Callable[..., Any]) -> str:
    """Return the parameters, one a line if they are many; annotations as they are written."""
    signature = inspect.signature(item)
    shown: list[str] = []
    for parameter in signature.parameters.values():
        has_star = any(text.startswith("*") for text in shown)
        is_first_named = parameter.kind is parameter.KEYWORD_ONLY and not has_star
        shown += ["*"] if is_first_named else []
        shown += [] if parameter.name == "self" else [_parameter(parameter)]
    returns = "" if inspect.isclass(item) else f" -> {signature.return_annotation}"
    line = f"({', '.join(shown)}){returns}"
    if len(line) < _LINE_MAX:
        return line
    rows = "".join(f"    {text},\n" for text in shown)
    return f"(\n{rows}){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    return f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _text(docstring: str) -> str:
    """Return a docstring as Markdown: its parts as lists, its example as a block."""
    parts = [_part(paragraph) for paragraph in docstring.split("\n\n")]
    text = _ROLE.sub("`", "\n\n".join(parts).replace("``", "`"))
    return _EXAMPLE.sub(_block, f"{text}\n").rstrip()


def _part(paragraph: str) -> str:
    """Return a paragraph; the entries of Args and the like as a list."""
    title, _, rest = paragraph.partition("\n")
    if not _PART.fullmatch(title):
        return paragraph
    if not _ENTRY.match(rest):
        return f"{title}\n\n{textwrap.dedent(rest)}"
    lines = (_ENTRY.sub(r"- `\1`: \2", line) for line in rest.splitlines())
    listed = "\n".join(line if line[0] == "-" else f"  {line.lstrip()}" for line in lines)
    return f"{title}\n\n{listed}"


def _block(match: re.Match[str]) -> str:
    return f"```python\n{textwrap.dedent(match[1]).strip()}\n```\n\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of the Python names.")
    parser.add_argument("page", type=Path, help="docs/python.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
