"""What compiling a query passes around: its text and columns, and a SELECT in parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.syntax.nodes import Expression, Top


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query's text and columns (their ``sql`` is the text that yields them)."""

    text: str
    columns: list[Value]
    limited: bool = False


@dataclass(slots=True)
class Limits:
    """What bounds the rows of a query."""

    top: Top | None = None
    offset: Expression | None = None
    fetch: Expression | None = None


@dataclass(frozen=True, slots=True)
class Core:
    """A SELECT in parts: its list, what it is ordered by, and the text from FROM on."""

    columns: list[Value]
    orders: list[tuple[Value, bool]]
    tail: str
    scope: Scope
    distinct: bool = False

    def selected(self, texts: list[str], extra: str = "") -> str:
        """The SELECT of these texts as v0, v1, ..."""
        named = ", ".join(f"{text} AS v{n}" for n, text in enumerate(texts))
        return f"SELECT {'DISTINCT ' if self.distinct else ''}{named}{extra}{self.tail}"

    def terms(self) -> list[str]:
        """ORDER BY terms of the SELECT itself."""
        return ordering(self.orders)

    def extended(self, *, aggregated: bool = False) -> str:
        """The SELECT with what it is ordered by as further columns.

        ``aggregated`` adds a last one that makes it an aggregate query, which SQLite must see.
        """
        texts = [c.collated if self.distinct else c.sql for c in self.columns]
        texts += [value.sql for value, _ in self.orders]
        return self.selected([*texts, "0 * count(*)"] if aggregated else texts)

    def outer_terms(self) -> list[str]:
        """ORDER BY terms of a query around the extended SELECT."""
        return [
            replace(value, sql=f"v{n}").collated + (" DESC" if descending else "")
            for n, (value, descending) in enumerate(self.orders, len(self.columns))
        ]


def ordering(orders: list[tuple[Value, bool]]) -> list[str]:
    """ORDER BY terms; a constant orders nothing, and SQLite would read a number as an ordinal."""
    return [
        value.collated + (" DESC" if descending else "")
        for value, descending in orders
        if value.constant is None
    ]
