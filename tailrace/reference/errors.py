"""docs/errors.md, generated from the errors' own classes, so that the two cannot differ.

``python -m tailrace.reference.errors docs/errors.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

_HEAD: Final = """# Errors

What the programs raise on purpose, by the name that logs (`error`), /status and the page show. The
text of an error names table, column, option and what to do; this page says what kind it is.

- *waits*: the daemon retries automatically, with growing pauses, and logs it (`retrying`).
- *table*: it stops one table, which leaves the cuts; the others continue, and
  `tailrace snapshot` brings it back when its reason is fixed.
- *ends*: the daemon ends with 1 and the text; its supervisor starts it again.

To subscribers both are raised: after *waits* the same call may succeed later, after *ends* not.

This page is generated: `python -m tailrace.reference.errors docs/errors.md`.
"""
_PACKAGES: Final = {
    "publisher": ("tailrace_publisher",),
    "sink": ("tailrace_sink",),
    "both": ("tailrace_schemas", "tailrace_service"),
    "subscribers": ("tailrace.subscribe",),
}
_BASES: Final = frozenset(
    {"PublisherError", "SinkError", "RegistryError", "TableError", "SubscribeError"}
)


def document() -> str:
    """The page's text."""
    parts = [_HEAD]
    for title, packages in _PACKAGES.items():
        errors = sorted((error for name in packages for error in _errors(name)), key=_name)
        lines = "\n".join(_line(error) for error in errors)
        parts.append(
            f"## {title}\n\n| error | what becomes of it | what it says |\n|---|---|---|\n{lines}\n"
        )
    return "\n".join(parts)


def _name(error: type[Exception]) -> str:
    return error.__name__


def _errors(package: str) -> Iterator[type[Exception]]:
    """Errors that say of themselves whether waiting helps, without the bases of others."""
    for module in _modules(importlib.import_module(package)):
        for name, found in vars(module).items():
            if not isinstance(found, type) or not issubclass(found, Exception):
                continue
            is_own = found.__module__ == module.__name__ and name not in _BASES
            if is_own and hasattr(found, "retryable"):
                yield found


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def _line(error: type[Exception]) -> str:
    text = inspect.getdoc(error) or ""
    first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
    return f"| `{error.__name__}` | {_fate(error)} | {first} |"


def _fate(error: type[Exception]) -> str:
    if getattr(error, "retryable", False):
        return "waits"
    is_of_table = getattr(error, "of_one_table", None)
    if is_of_table is None:
        is_of_table = any(base.__name__ == "TableError" for base in error.__mro__)
    return "table, else ends" if is_of_table else "ends"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of all errors.")
    parser.add_argument("page", type=Path, help="docs/errors.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
