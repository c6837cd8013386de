"""Queries of a change table that name all captured columns in order take their kept bytes.

Only the select list of a finished plan changes: the run of those columns becomes one value. All the
rest (conditions, order, TOP, parameters) is as compiled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from emulator.storage.encoded_rows import kept_columns
from emulator.tsql.names import resolve_name
from emulator.tsql.nodes import Query, Select, TableName

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.model import Table
    from emulator.tsql.plan import Hole, Plan

_FIRST: Final = re.compile(r"(?:SELECT |, )(\w+)\.(c\d+) AS v(\d+)(?=, | FROM )")


@dataclass(frozen=True, slots=True)
class EncodedRun:
    """A plan whose columns ``first`` to ``first + count`` come as one value, encoded.

    Attributes:
        plan: the plan.
        table: the change table.
        first: the first of the columns.
        count: how many.
    """

    plan: Plan
    table: Table
    first: int
    count: int


def encoded_run(context: SessionContext, query: Query, plan: Plan) -> EncodedRun | None:
    """The plan with encoded columns, where the query is of that kind."""
    encoding = context.engine.row_encoding
    body = query.body
    if encoding is None or not isinstance(body, Select) or query.common_tables:
        return None
    if body.distinct or query.for_clause is not None or not isinstance(body.source, TableName):
        return None
    if body.source.name[-1].startswith("#"):
        return None
    where = resolve_name(context, body.source.name, body.source.line)
    table = where.database.table(where.schema, where.name)
    columns = () if table is None else kept_columns(table)
    if table is None or not columns:
        return None
    names = [column.sqlite_name for column in columns]
    found = _run(plan.parts, names)
    if found is None:
        return None
    key, first, run = found
    values = ", ".join(f"{key}.{name}" for name in names)
    layout = encoding.layout(columns)
    value = (
        f"CASE WHEN {key}.layout = {layout} THEN {key}.encoded"
        f" ELSE encode_row({layout}, {values}) END AS v{first}"
    )
    changed = replace(plan, parts=_with(plan.parts, run, value))
    if plan.fast_parts:
        fast = _run(plan.fast_parts, names)
        if fast != found:
            return None
        changed = replace(changed, fast_parts=_with(plan.fast_parts, run, value))
    return EncodedRun(changed, table, first, len(columns))


def _run(parts: tuple[str | Hole, ...], names: list[str]) -> tuple[str, int, str] | None:
    """The table's alias, the first column's number and the text of the run in the select list."""
    text = parts[0]
    if not isinstance(text, str) or not text.startswith("SELECT "):
        return None
    listed = text[: text.find(" FROM ")]
    for match in _FIRST.finditer(text, 0, len(listed) + len(" FROM ")):
        key, name, first = match[1], match[2], int(match[3])
        if name == names[0]:
            run = ", ".join(f"{key}.{n} AS v{first + i}" for i, n in enumerate(names))
            if listed.count(run) == 1 and f"{run}," in f"{listed},":
                return key, first, run
    return None


def _with(parts: tuple[str | Hole, ...], run: str, value: str) -> tuple[str | Hole, ...]:
    return (str(parts[0]).replace(run, value, 1), *parts[1:])
