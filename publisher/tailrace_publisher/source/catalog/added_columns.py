"""Columns that were added to a source table since its capture instance was created.

A capture instance keeps its columns, so a column that it lacks was either added later or left out
on purpose (``@captured_column_list``). One that is left out may hold what nobody may read, so it
must never be taken for an added one. A column is an added one only if both hold:

- Its id exceeds those of all captured columns. SQL Server gives ids in ascending order.
- A statement in ``cdc.ddl_history`` that the instance has seen defines it after ADD.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.capture_catalog import NARROWED_MAX, narrowed

_WORD: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/|N?'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]|\"(?:[^\"]|\"\")*\"|[\w@#$]+|\S",
    re.DOTALL,
)
_NO_COLUMN: Final = frozenset(
    {"constraint", "primary", "unique", "check", "foreign", "default", "index", "period"}
)
"""First words of what ADD adds, in addition to columns."""


def added_columns(
    connection: Connection, instances: Iterable[CaptureInstance]
) -> dict[int, Sequence[str]]:
    """Return the columns that some instances lack because they were added later.

    Costs one statement if an instance lacks a column that may be an added one, else none.

    Returns:
        Names in the order of their ids, by change table's object id; only of instances that lack
        some.

    Raises:
        SourceError: the server did not answer.
    """
    wanted = {i.object_id: later for i in instances if (later := _later(i))}
    if not wanted:
        return {}
    where, ids = narrowed("WHERE", "object_id", wanted if len(wanted) <= NARROWED_MAX else None)
    defined: defaultdict[int, set[str]] = defaultdict(set)
    rows = connection.query(f"SELECT object_id, ddl_command FROM cdc.ddl_history{where}", *ids)
    for object_id, text in rows:
        if object_id in wanted:
            defined[object_id] |= {name.casefold() for name in columns_of_add(str(text))}
    found = {
        object_id: [name for name in names.values() if name.casefold() in defined[object_id]]
        for object_id, names in wanted.items()
    }
    return {object_id: names for object_id, names in found.items() if names}


def _later(instance: CaptureInstance) -> Mapping[int, str]:
    """Return the columns that are younger than every captured one, by id, in order."""
    newest = max((column.column_id for column in instance.columns), default=0)
    return {number: n for number, n in sorted(instance.not_captured.items()) if number > newest}


def columns_of_add(ddl: str) -> list[str]:
    """Return the columns that an ALTER TABLE statement adds.

    >>> columns_of_add("ALTER TABLE dbo.t ADD a int, [b c] bit, CONSTRAINT k CHECK (secret > 0)")
    ['a', 'b c']
    """
    found: list[str] = []
    depth, is_first, is_adding = 0, False, False
    for word in _WORD.findall(ddl):
        if word.startswith(("--", "/*")):
            continue
        if is_first and depth == 0:
            is_first = False
            if word.casefold() not in _NO_COLUMN:
                found.append(_unquoted(word))
        elif not is_adding:
            is_adding = is_first = word.casefold() == "add"
        elif word in "()":
            depth += 1 if word == "(" else -1
        elif word == "," and depth == 0:
            is_first = True
    return found


def _unquoted(name: str) -> str:
    if name.startswith("["):
        return name[1:-1].replace("]]", "]")
    if name.startswith('"'):
        return name[1:-1].replace('""', '"')
    return name
