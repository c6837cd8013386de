"""Multi-part object names as catalog functions and procedures take them, in strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine

_CLOSING = {"[": "]", '"': '"'}


GLOBAL_PREFIX: Final = "##"
"""Of temporary tables that every session sees."""


def is_local_temporary(name: str) -> bool:
    """Whether a table of that name is the session's own: #t, and not ##t."""
    return name.startswith("#") and not name.startswith(GLOBAL_PREFIX)


_TEMPORARY_NAME_LENGTH: Final = 116
"""Names of temporary objects are filled up with underscores, then 12 hexadecimal digits."""


def name_in_tempdb(name: str, number: int) -> str:
    """The name under which tempdb keeps a temporary object: ``number`` distinguishes sessions."""
    return f"{name.ljust(_TEMPORARY_NAME_LENGTH, '_')}{number:012X}"


def name_of_its_session(name: str) -> str:
    """A name of tempdb as the session wrote it that made the object."""
    if not is_local_temporary(name) or len(name) <= _TEMPORARY_NAME_LENGTH:
        return name
    return name[:_TEMPORARY_NAME_LENGTH].rstrip("_")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """``database.schema.name``; parts that were not given are empty."""

    name: str
    schema: str = ""
    database: str = ""


def name_parts(text: str) -> list[str] | None:
    """The parts of a name, unquoted; None when it is not a name of one to four parts."""
    parts: list[str] = []
    position = 0
    while True:
        closing = _CLOSING.get(text[position : position + 1])
        if closing is None:
            end = text.find(".", position)
            end = len(text) if end < 0 else end
            parts.append(text[position:end].strip())
        else:
            end = text.find(closing, position + 1)
            while end >= 0 and text[end + 1 : end + 2] == closing:
                end = text.find(closing, end + 2)
            if end < 0:
                return None
            parts.append(text[position + 1 : end].replace(closing * 2, closing))
            end += 1
        if end >= len(text):
            break
        if text[end] != ".":
            return None
        position = end + 1
    if not 1 <= len(parts) <= 4 or not parts[-1]:
        return None
    return parts


def split_name(text: str) -> ObjectName | None:
    """An object's name in its parts; None when it is not a name of one to four parts."""
    parts = name_parts(text)
    if parts is None:
        return None
    database, schema, name = ["", "", *parts][-3:]
    return ObjectName(name, schema, database)


def database_of(engine: Engine, current: Database, name: str) -> Database | None:
    """The database of that name, the current one for an empty name, None for an unknown one."""
    return engine.databases.get(name.casefold()) if name else current
