"""Filegroups and files of a database: names only, everything lies in one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.database import Database

PRIMARY: Final = "PRIMARY"
_OPTION: Final = "filegroups"


@dataclass(frozen=True, slots=True)
class Filegroup:
    """A filegroup; ``files`` are the logical names of those that were added to it."""

    data_space_id: int
    name: str
    is_default: bool = False
    files: tuple[str, ...] = ()


PRIMARY_ID: Final = 1
"""data_space_id of the filegroup PRIMARY."""


def filegroups(database: Database) -> list[Filegroup]:
    """The filegroups of a database; PRIMARY is the first."""
    stored = database.options.get(_OPTION)
    if not isinstance(stored, str):
        return [Filegroup(1, PRIMARY, True)]
    return [Filegroup(**{**raw, "files": tuple(raw["files"])}) for raw in json.loads(stored)]


def find_filegroup(database: Database, name: str) -> Filegroup | None:
    """The filegroup of that name, case-insensitively, or None."""
    folded = name.casefold()
    return next((g for g in filegroups(database) if g.name.casefold() == folded), None)


def add_filegroup(connection: apsw.Connection, database: Database, name: str) -> None:
    """ALTER DATABASE .. ADD FILEGROUP, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 1921 when there is one of that name.
    """
    known = filegroups(database)
    if find_filegroup(database, name) is not None:
        raise messages.error(1828, name)
    data_space_id = max(group.data_space_id for group in known) + 1
    _save(connection, database, [*known, Filegroup(data_space_id, name)])


def add_file(connection: apsw.Connection, database: Database, group: str, file: str) -> None:
    """ALTER DATABASE .. ADD FILE .. TO FILEGROUP, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 5041 for a filegroup that does not exist, 1828 for a file name that is taken.
    """
    if find_filegroup(database, group) is None:
        raise messages.error(5028, group)
    known = filegroups(database)
    if any(file.casefold() in {f.casefold() for f in g.files} for g in known):
        raise messages.error(1828, file)
    folded = group.casefold()
    _save(
        connection,
        database,
        [replace(g, files=(*g.files, file)) if g.name.casefold() == folded else g for g in known],
    )


def make_default(connection: apsw.Connection, database: Database, name: str) -> None:
    """ALTER DATABASE .. MODIFY FILEGROUP .. DEFAULT, inside an :meth:`Engine.write`."""
    folded = name.casefold()
    _save(
        connection,
        database,
        [replace(g, is_default=g.name.casefold() == folded) for g in filegroups(database)],
    )


def remove_filegroup(connection: apsw.Connection, database: Database, name: str) -> None:
    """ALTER DATABASE .. REMOVE FILEGROUP, inside an :meth:`Engine.write`.

    Raises:
        SqlError: 5031 for PRIMARY, 5042 for one that has files.
    """
    folded = name.casefold()
    known = filegroups(database)
    group = find_filegroup(database, name)
    if group is None or group.data_space_id == 1 or group.files:
        raise messages.error(5042, "filegroup", name)
    _save(connection, database, [g for g in known if g.name.casefold() != folded])


def _save(connection: apsw.Connection, database: Database, groups: list[Filegroup]) -> None:
    database.set_option(_OPTION, json.dumps([asdict(group) for group in groups]), connection)
