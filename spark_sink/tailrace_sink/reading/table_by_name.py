"""Find a table of a lake by the name that a person writes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from tailrace_schemas.topics.topic_names import TableName, meant_by, told_apart

_NAMES_SHOWN: Final = 5


def table_by_name(name: TableName | str, tables: Iterable[TableName]) -> TableName:
    """Return the table of a name: ``schema.table``, or with the database first, in any case.

    Raises:
        LookupError: there is none, or there are several; the text lists near names.
    """
    if isinstance(name, TableName):
        return name
    known = sorted(tables)
    meant = meant_by(name, known)
    if len(meant) > 1:
        raise LookupError(told_apart(name, meant))
    if not meant:
        raise LookupError(_near(name, known))
    return meant[0]


def _near(name: str, known: list[TableName]) -> str:
    """Name the tables that a misspelt name may mean; without any, the first few."""
    by_text = {text.casefold(): t for t in known for text in (str(t), t.in_database)}
    near = difflib.get_close_matches(name.casefold(), by_text, n=2 * _NAMES_SHOWN)
    found = list(dict.fromkeys(by_text[text].in_database for text in near))[:_NAMES_SHOWN]
    if found:
        return f"Near names: {', '.join(found)}"
    listed = ", ".join(table.in_database for table in known[:_NAMES_SHOWN]) or "none"
    more = len(known) - _NAMES_SHOWN
    return f"Its tables: {listed}" + (f" and {more} more" if more > 0 else "")
