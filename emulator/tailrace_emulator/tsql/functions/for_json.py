"""FOR JSON: rows as an array of objects.

https://learn.microsoft.com/sql/relational-databases/json/format-query-results-as-json-with-for-json-sql-server
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.functions.json_text import escaped
from tailrace_emulator.tsql.functions.sqlite_functions import AGGREGATES

_CACHED: Final = 256


@dataclass(frozen=True, slots=True)
class JsonSpec:
    """How rows become JSON; compiled text carries it as text.

    Attributes:
        root: name of what stands around everything, or None.
        nulls: whether INCLUDE_NULL_VALUES is given.
        wrapped: whether the rows are in brackets.
        paths: of each column, the names of the objects around it and its own.
        quoted: of each column, whether its text is written as a string.
    """

    root: str | None
    nulls: bool
    wrapped: bool
    paths: tuple[tuple[str, ...], ...]
    quoted: tuple[bool, ...]

    def text(self) -> str:
        """The spec, as :func:`spec_of` reads it."""
        return json.dumps([self.root, self.nulls, self.wrapped, self.paths, self.quoted])


@lru_cache(maxsize=_CACHED)
def spec_of(text: str) -> JsonSpec:
    """The spec that compiled text carries."""
    root, nulls, wrapped, paths, quoted = json.loads(text)
    return JsonSpec(root, nulls, wrapped, tuple(map(tuple, paths)), tuple(quoted))


def check_paths(paths: Sequence[tuple[str, ...]]) -> None:
    """Refuses columns that would make one object twice.

    Raises:
        SqlError: 13601 for such a column.
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

    def step(self, text: str, *values: Any) -> None:
        """A row."""
        spec = self.spec = self.spec or spec_of(text)
        tree: dict[str, Any] = {}
        for path, quoted, value in zip(spec.paths, spec.quoted, values, strict=True):
            if value is None and not spec.nulls:
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
        spec = self.spec
        inner = ",".join(self.rows)
        if spec.wrapped:
            inner = f"[{inner}]"
        return f'{{"{escaped(spec.root)}":{inner}}}' if spec.root is not None else inner


def _written(tree: dict[str, Any]) -> str:
    parts = [
        f'"{escaped(name)}":{_written(value) if isinstance(value, dict) else value}'
        for name, value in tree.items()
    ]
    return "{" + ",".join(parts) + "}"


AGGREGATES.append(("t_for_json", ForJson, -1))
