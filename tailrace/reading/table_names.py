"""Table names as people type them: ``dbo.orders``, ``[my schema].[odd.name]``."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = r"(?:\[((?:[^\]]|\]\])+)\]|([^.\[\]]+))"
_NAME: Final = re.compile(rf"{_PART}\.{_PART}")


class TableNameError(ValueError):
    """A text that names no table; its words say what would."""


def parse_table(text: str) -> tuple[str, str]:
    """Schema and table of a name.

    Raises:
        TableNameError: it is not schema.table.
    """
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise TableNameError(
            f"{text!r} is not a table: write schema.table, as in dbo.orders; a part with dots or"
            " brackets goes into brackets, as in [my schema].[odd.name]"
        )
    schema, table = found[1] or found[2], found[3] or found[4]
    return _unquoted(schema, quoted=bool(found[1])), _unquoted(table, quoted=bool(found[3]))


def splits(text: str) -> list[tuple[str, str]]:
    """Return what a name without brackets may mean: a split at each of its dots."""
    dots = (index for index, char in enumerate(text) if char == ".")
    return [(text[:dot], text[dot + 1 :]) for dot in dots if 0 < dot < len(text) - 1]


def _unquoted(part: str, *, quoted: bool) -> str:
    return part.replace("]]", "]") if quoted else part
