"""FOR JSON: rows as an array of objects.

https://learn.microsoft.com/sql/relational-databases/json/format-query-results-as-json-with-for-json-sql-server
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from emulator import messages
from emulator.tsql.functions.json_text import escaped
from emulator.tsql.functions.sqlite_functions import AGGREGATES
from emulator.tsql.syntax.nodes import ForClause


@dataclass(frozen=True, slots=True)
class JsonSpec:
    """How rows become JSON.

    Attributes:
        clause: the FOR clause.
        paths: of each column, the names of the objects around it and its own.
        quoted: of each column, whether its text is written as a string.
    """

    clause: ForClause
    paths: tuple[tuple[str, ...], ...]
    quoted: tuple[bool, ...]


SPECS: Final[list[JsonSpec]] = []
"""By the number under which compiled text names them."""


def spec_number(spec: JsonSpec) -> int:
    """Registers a spec."""
    SPECS.append(spec)
    return len(SPECS) - 1


def check_paths(paths: Sequence[tuple[str, ...]]) -> None:
    """Refuses columns that would make one object twice.

    Raises:
        SqlError: 13601.
    """
    seen: set[tuple[str, ...]] = set()
    objects: set[tuple[str, ...]] = set()
    previous: tuple[str, ...] = ()
    for path in paths:
        parents = {path[:n] for n in range(1, len(path))}
        reopened = any(
            parent in objects and previous[: len(parent)] != parent for parent in parents
        )
        if path in seen or path in objects or seen & parents or reopened:
            raise messages.error(13601, ".".join(path))
        seen.add(path)
        objects |= parents
        previous = path


class ForJson:
    """The aggregate: one row after another, then the whole text."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.spec: JsonSpec | None = None

    def step(self, number: int, *values: Any) -> None:
        """A row."""
        spec = self.spec = SPECS[number]
        tree: dict[str, Any] = {}
        for path, quoted, value in zip(spec.paths, spec.quoted, values, strict=True):
            if value is None and not spec.clause.nulls:
                continue
            place = tree
            for name in path[:-1]:
                place = place.setdefault(name, {})
            text = "null" if value is None else f'"{escaped(value)}"' if quoted else value
            place[path[-1]] = text
        self.rows.append(_written(tree))

    def inverse(self, *_: Any) -> None:
        """Not used: never a window."""

    def value(self) -> Any:
        """The text now."""
        return self.final()

    def final(self) -> Any:
        """The whole text; NULL without rows."""
        if self.spec is None:
            return None
        clause = self.spec.clause
        inner = ",".join(self.rows)
        if clause.wrapped:
            inner = f"[{inner}]"
        return f'{{"{escaped(clause.root)}":{inner}}}' if clause.root is not None else inner


def _written(tree: dict[str, Any]) -> str:
    parts = [
        f'"{escaped(name)}":{_written(value) if isinstance(value, dict) else value}'
        for name, value in tree.items()
    ]
    return "{" + ",".join(parts) + "}"


AGGREGATES.append(("t_for_json", ForJson, -1))
