"""Columns of a source table that its capture instance lacks: added since, or left out on purpose.

A capture instance keeps its columns. One that it lacks was added later, or its creator left it out
(``@captured_column_list``). The latter may hold what nobody may read. So a column counts as added
only on two conditions:

- Its id exceeds those of all captured columns. New columns get ids above all that were ever used.
- A statement in ``cdc.ddl_history`` that the instance has seen defines it after ADD.

Every other column was there when the instance was created, so it was left out. So was a column that
is gone by now: a statement drops it, and the instance neither captured it nor saw it added.

See: sys.tables, max_column_id_used

See: cdc.ddl_history

Inferred: does it have every ALTER TABLE since the instance was created? Does it have a DROP COLUMN
IF EXISTS that finds no column?
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
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
_BEFORE_NAME: Final = frozenset({"column", "if", "exists"})


@dataclass(frozen=True, slots=True)
class Uncaptured:
    """The columns that a capture instance lacks.

    Attributes:
        added: those that came after it, in the order of their ids.
        left_out: those that were there when it was created. Empty if it has all columns.
    """

    added: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def asked_for(self) -> tuple[str, ...]:
        """The added columns that a successor of the instance captures.

        The author of a column list decides about new columns, too.
        """
        return () if self.left_out else self.added


CAPTURES_ALL: Final = Uncaptured()


def uncaptured_columns(
    connection: Connection, instances: Iterable[CaptureInstance]
) -> dict[int, Uncaptured]:
    """Return the columns that some instances lack.

    Costs one statement if columns of a captured table were added or dropped, else none.

    Returns:
        By change table's object id; only of instances that lack some.

    Raises:
        SourceError: the server did not answer.
    """
    # See: the page of cdc.ddl_history
    found = list(instances)
    wanted = {i.object_id for i in found if _later(i) or not all(c.in_source for c in i.columns)}
    texts: defaultdict[int, list[str]] = defaultdict(list)
    if wanted:
        only = wanted if len(wanted) <= NARROWED_MAX else None
        where, ids = narrowed("WHERE", "object_id", only)
        rows = connection.query(
            f"SELECT object_id, ddl_command FROM cdc.ddl_history{where} ORDER BY ddl_lsn", *ids
        )
        for object_id, text in rows:
            texts[object_id].append(str(text))
    compared = {i.object_id: _compared(i, texts[i.object_id]) for i in found}
    return {object_id: lacks for object_id, lacks in compared.items() if lacks != CAPTURES_ALL}


def _compared(instance: CaptureInstance, ddl: Iterable[str]) -> Uncaptured:
    """Return the columns that an instance lacks.

    Args:
        ddl: the statements since it was created, in their order.
    """
    known = {column.name.casefold() for column in instance.columns}
    defined: set[str] = set()
    gone: list[str] = []
    for text in ddl:
        gone += [name for name in columns_of_drop(text) if name.casefold() not in known | defined]
        defined |= {name.casefold() for name in columns_of_add(text)}
    later = _later(instance)
    added = tuple(name for name in later.values() if name.casefold() in defined)
    others = [n for number, n in instance.not_captured.items() if later.get(number) not in added]
    return Uncaptured(added, (*others, *(name for name in gone if name not in others)))


def _later(instance: CaptureInstance) -> Mapping[int, str]:
    """Return the columns that are younger than every captured one, by id, in order."""
    newest = max((column.column_id for column in instance.columns), default=0)
    return {number: n for number, n in sorted(instance.not_captured.items()) if number > newest}


def columns_of_add(ddl: str) -> list[str]:
    """Return the columns that an ALTER TABLE statement adds.

    >>> columns_of_add("ALTER TABLE dbo.t ADD a int, [b c] bit, CONSTRAINT k CHECK (secret > 0)")
    ['a', 'b c']
    """
    items = (item for item in _items(ddl, "add") if item[0].casefold() not in _NO_COLUMN)
    return [_unquoted(item[0]) for item in items]


def columns_of_drop(ddl: str) -> list[str]:
    """Return the columns that an ALTER TABLE statement drops.

    >>> columns_of_drop("ALTER TABLE dbo.t DROP CONSTRAINT k, COLUMN IF EXISTS a, [b c]")
    ['a', 'b c']
    """
    found: list[str] = []
    is_column = False
    for item in _items(ddl, "drop"):
        first = item[0].casefold()
        is_column = first == "column" or (is_column and first != "constraint")
        named = next((word for word in item if word.casefold() not in _BEFORE_NAME), None)
        if is_column and named is not None:
            found.append(_unquoted(named))
    return found


def _items(ddl: str, verb: str) -> Iterator[list[str]]:
    """Yield the words of each part of what follows a verb of ALTER TABLE; parts have commas."""
    words = [word for word in _WORD.findall(ddl) if not word.startswith(("--", "/*"))]
    if ("alter", "column") in pairwise(word.casefold() for word in words):
        return  # ALTER COLUMN .. ADD MASKED, SPARSE and others add no column
    begin = next((n for n, word in enumerate(words, 1) if word.casefold() == verb), len(words))
    depth = 0
    item: list[str] = []
    for word in words[begin:]:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "," and depth == 0 and item:
            yield item
            item = []
        else:
            item.append(word)
    if item:
        yield item


def _unquoted(name: str) -> str:
    if name.startswith("["):
        return name[1:-1].replace("]]", "]")
    if name.startswith('"'):
        return name[1:-1].replace('""', '"')
    return name
