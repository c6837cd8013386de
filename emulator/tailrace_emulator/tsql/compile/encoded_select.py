"""Queries of a table that keeps columns encoded, naming all of these in order, take their bytes.

Only the select list of a finished plan changes: the run of those columns becomes one value. All the
rest (joins, conditions, order, TOP, parameters) is as compiled. The rows may also come through a
function over such a table. They may be joined with other tables, as long as it is no outer join
that can leave its side empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator.storage.encoded_rows import kept_columns
from tailrace_emulator.tsql.compile.plan import TableHole
from tailrace_emulator.tsql.compile.source_holes import FunctionHole
from tailrace_emulator.tsql.syntax.nodes import (
    FunctionTable,
    Join,
    Query,
    Select,
    Source,
    TableName,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.plan import Hole, Plan

_ALIAS: Final = re.compile(r" AS (\w+)\b")


@dataclass(frozen=True, slots=True)
class EncodedRun:
    """A plan whose columns ``first`` to ``first + count`` come as one value, encoded.

    Attributes:
        table: the table that keeps them.
        first: the first of the columns.
    """

    plan: Plan
    table: Table
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """Kept rows in FROM: their table, as what the query names them, and their SQLite columns."""

    table: Table
    shown: str
    key: str
    names: tuple[str, ...]


def encoded_run(context: SessionContext, query: Query, plan: Plan) -> EncodedRun | None:
    """The plan with encoded columns, where the query is of that kind."""
    encoding = context.engine.row_encoding
    body = query.body
    if encoding is None or not isinstance(body, Select) or query.common_tables:
        return None
    if body.distinct or body.group_by or body.source is None or query.for_clause is not None:
        return None
    kept = _kept(plan.parts)
    if kept is None:
        return None
    if [is_there for name, is_there in _named(body.source) if name == kept.shown] != [True]:
        return None
    columns = kept_columns(kept.table)
    found = _run(plan.parts, kept)
    if found is None:
        return None
    first, run = found
    if [c.type for c in plan.columns[first : first + len(columns)]] != [c.type for c in columns]:
        return None
    values = ", ".join(f"{kept.key}.{name}" for name in kept.names)
    layout = encoding.layout(columns)
    value = (
        f"CASE WHEN {kept.key}.layout = {layout} THEN {kept.key}.encoded"
        f" ELSE encode_row({layout}, {values}) END AS v{first}"
    )
    changed = replace(plan, parts=_with(plan.parts, run, value))
    if plan.fast_parts:
        if _kept(plan.fast_parts) != kept or _run(plan.fast_parts, kept) != found:
            return None
        changed = replace(changed, fast_parts=_with(plan.fast_parts, run, value))
    return EncodedRun(changed, kept.table, first, len(columns))


def _named(source: Source, is_there: bool = True) -> Iterator[tuple[str, bool]]:
    """Names in FROM, and whether each has a row in every row of the result."""
    if isinstance(source, TableName | FunctionTable):
        yield source.name[-1].casefold(), is_there
    elif isinstance(source, Join):
        yield from _named(source.left, is_there and source.kind not in {"RIGHT", "FULL"})
        yield from _named(source.right, is_there and source.kind in {"INNER", "CROSS", "RIGHT"})


def _kept(parts: Sequence[str | Hole]) -> _Kept | None:
    """The one source of kept rows in a plan; None where there is none, or another one."""
    found: list[_Kept] = []
    for hole, behind in zip(parts, (*parts[1:], ""), strict=True):
        if isinstance(hole, TableHole):
            table, shown = hole.table, hole.table.name
            names = tuple(column.sqlite_name for column in kept_columns(table))
        elif isinstance(hole, FunctionHole) and hole.function.encoded_table is not None:
            table, shown = hole.function.encoded_table, hole.function.name
            width, count = len(hole.function.columns), len(kept_columns(table))
            names = tuple(f"v{n}" for n in range(width - count, width))
        else:
            continue
        alias = _ALIAS.match(behind) if isinstance(behind, str) else None
        if kept_columns(table) and alias is not None:
            found.append(_Kept(table, shown.casefold(), alias[1], names))
    return found[0] if len(found) == 1 else None


def _run(parts: Sequence[str | Hole], kept: _Kept) -> tuple[int, str] | None:
    """The first column's number and the text of the run in the select list."""
    text = parts[0]
    if not isinstance(text, str) or not text.startswith("SELECT "):
        return None
    listed = text[: text.find(" FROM ")]
    begins = re.compile(rf"(?:SELECT |, ){kept.key}\.{kept.names[0]} AS v(\d+)(?=, |$)")
    for match in begins.finditer(listed):
        first = int(match[1])
        run = ", ".join(f"{kept.key}.{n} AS v{first + i}" for i, n in enumerate(kept.names))
        # A subquery in the list has a list of its own.
        before = listed[: match.start()]
        is_outermost = before.count("(") == before.count(")")
        if is_outermost and listed.count(run) == 1 and f"{run}," in f"{listed},":
            return first, run
    return None


def _with(parts: tuple[str | Hole, ...], run: str, value: str) -> tuple[str | Hole, ...]:
    return (str(parts[0]).replace(run, value, 1), *parts[1:])
