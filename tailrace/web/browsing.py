"""Browsing a table's events: which key is meant, and what was searched for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.explain.row import parse_key
from tailrace.reading.change_rows import NotThere
from tailrace.reading.event_text import json_value, time_text

if TYPE_CHECKING:
    from tailrace.reading.newest_events import Found, Key


@dataclass(frozen=True, slots=True)
class Browsed:
    """What was found.

    Attributes:
        lines: one for each event, or what kept them from being read.
        searched: in words; empty if nothing was.
    """

    lines: tuple[str, ...]
    searched: str = ""


def wanted_by(asked: str) -> Callable[[Key | None], bool]:
    """Whether an event's key is the one that a text means; any key if the text is empty.

    Raises (when called):
        NotThere: the text does not fit the key of the events, or they have none.
    """

    def is_wanted(key: Key | None) -> bool:
        if not asked:
            return True
        if key is None:
            raise NotThere("the events of this table have no key: browse them by time")
        return _plain(parse_key(list(key), asked)) == _plain(key)

    return is_wanted


def _plain(key: Mapping[str, Any]) -> dict[str, str]:
    """A key with its values as the page shows them: a text has no types."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, default=json_value).strip('"')
        for name, value in key.items()
    }


def searched(found: Found) -> str:
    """How far a search got."""
    if not found.records:
        return "No record was there to search."
    count = f"{found.records} record" + ("" if found.records == 1 else "s")
    span = f"published from {time_text(found.from_ms)} to {time_text(found.to_ms)}"
    if found.is_whole:
        return f"Everything asked for was searched: {count}, {span}."
    return f"Searched: {count}, {span}. For others give a time, or run tailrace tail."
