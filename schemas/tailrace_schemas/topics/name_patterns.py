"""How options name tables and columns: by patterns, or by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable


def matches_name(pattern: str, name: str) -> bool:
    """Whether a pattern matches a whole name, in any case of its letters.

    A pattern is a regular expression. It is also the name that is spelled like it: names of tables
    may have ``$``, ``+``, ``?`` and brackets (Business Central's tables have ``$``). A dot matches
    any character, also the end of a line, which a name may have.
    """
    is_spelled_so = pattern.casefold() == name.casefold()
    return is_spelled_so or re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL) is not None


def spelled_as(wanted: str, names: Iterable[str]) -> str | None:
    """Find a name: the one that is spelled so, else the first that differs only in case.

    If the database distinguishes Id from ID, each is found by its own spelling.

    Returns:
        None if there is none.
    """
    found = [name for name in names if name.casefold() == wanted.casefold()]
    return wanted if wanted in found else next(iter(found), None)
