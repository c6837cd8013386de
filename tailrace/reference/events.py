"""docs/events.md, generated from the calls that log, so that the two cannot differ.

``python -m tailrace.reference.events docs/events.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = {
    "publisher": ROOT / "publisher" / "tailrace_publisher",
    "sink": ROOT / "spark_sink" / "tailrace_sink",
    "both, and the page": ROOT / "service" / "tailrace_service",
    "verify --continuous": ROOT / "tailrace" / "verify",
}
_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "exception")
_LOGGERS: Final = ("_log", "log")

_HEAD = """# Events

What the daemons log. With `--log-format json` (or `TAILRACE_LOG_FORMAT=json`) each line is one JSON
object with `timestamp`, `level`, `program`, `event` and the event's fields; without it the same is
written for people. `reason` is an error's text, `effect` what follows from it, `fix` what to do. No
field has a secret, or a row's values other than the key that an error names.

This page is generated: `python -m tailrace.reference.events docs/events.md`.
"""


@dataclass(frozen=True, slots=True)
class LogCall:
    """One call that logs.

    Attributes:
        level: its level; exception counts as error.
        fields: names of its fields; "..." where some are computed.
        file: where it stands, below the clone's root.
    """

    event: str
    level: str
    fields: tuple[str, ...]
    file: str


class UnnamedEvent(Exception):
    """A call that logs something else than a literal name: it could not be in the catalogue."""


def document() -> str:
    """The whole page."""
    parts = [_HEAD]
    for program, folder in PROGRAMS.items():
        calls: dict[str, list[LogCall]] = {}
        for call in sorted(_calls_below(folder), key=lambda call: (call.event, call.file)):
            calls.setdefault(call.event, []).append(call)
        parts.append(
            f"\n## {program}\n\n| event | level | fields | logged by |\n|---|---|---|---|\n"
        )
        parts += [_row(event, found) for event, found in calls.items()]
    return "".join(parts)


def _row(event: str, calls: list[LogCall]) -> str:
    levels = sorted({call.level for call in calls}, key=_LEVELS.index)
    fields = dict.fromkeys(name for call in calls for name in call.fields)
    files = dict.fromkeys(call.file for call in calls)
    told_by = ", ".join(f"[{Path(file).name}](../{file})" for file in files)
    named = ", ".join(f"`{name}`" for name in fields)
    return f"| `{event}` | {', '.join(levels)} | {named} | {told_by} |\n"


def _calls_below(folder: Path) -> Iterator[LogCall]:
    for path in sorted(folder.rglob("*.py")):
        yield from calls_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())


def calls_in(text: str, file: str) -> Iterator[LogCall]:
    """The calls of a module that log.

    Args:
        file: what to call it.

    Raises:
        UnnamedEvent: the name of an event is computed.
    """
    tree = ast.parse(text)
    aliases: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            level = _level_of(node.value)
            if level is not None:
                aliases.setdefault(node.targets[0].id, set()).add(level)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        level = _level_of(node.func)
        levels = {level} if level is not None else set()
        if isinstance(node.func, ast.Name):
            levels = aliases.get(node.func.id, set())
        for each in levels:
            yield from _log_calls(node, each, file)


def _level_of(node: ast.expr) -> str | None:
    """The level of ``_log.warning`` or ``self._log.warning``."""
    if not isinstance(node, ast.Attribute) or node.attr not in _LEVELS:
        return None
    owner = node.value
    name = owner.id if isinstance(owner, ast.Name) else None
    if isinstance(owner, ast.Attribute):
        name = owner.attr
    if name not in _LOGGERS:
        return None
    return "error" if node.attr == "exception" else node.attr


def _log_calls(node: ast.Call, level: str, file: str) -> Iterator[LogCall]:
    first = node.args[0] if node.args else None
    names = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
    fields = tuple(keyword.arg or "..." for keyword in node.keywords)
    for name in names:
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            raise UnnamedEvent(f"{file}:{node.lineno}: give the event a literal name")
        yield LogCall(name.value, level, fields, file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of all log events.")
    parser.add_argument("page", type=Path, help="docs/events.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
