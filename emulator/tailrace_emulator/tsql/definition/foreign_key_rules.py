"""What a foreign key must satisfy when it is created.

Error numbers and texts: the catalogue of error messages, 1753 to 1787 and 8139. The rule of cycles:
https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-1785-database-engine-error
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.storage.model import Column, ForeignKey, Index, Table

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.values.types import SqlType

NO_ACTION: Final = "NO_ACTION"


@dataclass(frozen=True, slots=True)
class Referencing:
    """The table that a foreign key is created on.

    Attributes:
        object_id: 0 while the table itself is being created.
        indexes: its keys and indexes.
        foreign_keys: those that it has already.
    """

    object_id: int
    name: str
    columns: Sequence[Column]
    indexes: Sequence[Index]
    foreign_keys: Sequence[ForeignKey]


def checked_foreign_key(
    database: Database, own: Referencing, key: ForeignKey, referenced: str
) -> ForeignKey:
    """The key as it is kept: without named columns it references the primary key.

    Args:
        database: where both tables are.
        own: the table that gets it.
        key: ``referenced`` is 0 or ``own.object_id`` for the table itself.
        referenced: the referenced table as the statement names it.

    Raises:
        SqlError: 1773, 1774, 1776, 8139 no such key there; 1753, 1757, 1778 other types; 1761,
            1762, 1785, 1787 an action that cannot be.
    """
    parent = None if key.referenced in {0, own.object_id} else database.table_by_id(key.referenced)
    columns = own.columns if parent is None else parent.columns
    indexes = own.indexes if parent is None else parent.indexes
    key = _with_referenced(own, key, indexes, referenced)
    if not any(
        index.unique
        and not index.filter
        and set(index.column_ids) == set(key.referenced_column_ids)
        for index in indexes
    ):
        raise messages.error(1776, referenced, key.name)
    ours = _by_id(own.columns, key.column_ids)
    for child, theirs in zip(ours, _by_id(columns, key.referenced_column_ids), strict=True):
        _refuse_types(own, key, referenced, child, theirs)
    _refuse_actions(database, own, key, ours)
    return key


def _with_referenced(
    own: Referencing, key: ForeignKey, indexes: Sequence[Index], referenced: str
) -> ForeignKey:
    """The key with the columns that it references."""
    if key.referenced_column_ids:
        if len(key.referenced_column_ids) != len(key.column_ids):
            raise messages.error(8139, own.name)
        return key
    primary = next((index for index in indexes if index.primary_key), None)
    if primary is None:
        raise messages.error(1773, key.name, referenced)
    if len(primary.column_ids) != len(key.column_ids):
        raise messages.error(1774, key.name, referenced)
    return replace(key, referenced_column_ids=primary.column_ids)


def _by_id(columns: Sequence[Column], ids: Sequence[int]) -> list[Column]:
    found = {column.column_id: column for column in columns}
    return [found[column_id] for column_id in ids]


def _refuse_types(
    own: Referencing, key: ForeignKey, referenced: str, child: Column, theirs: Column
) -> None:
    """Both columns have one type, one length and one collation."""
    pair = referenced, theirs.name, own.name, child.name, key.name
    a, b = theirs.type, child.type
    if _type_name(a) != _type_name(b):
        raise messages.error(1778, *pair)
    if (a.length, a.precision, a.scale) != (b.length, b.precision, b.scale):
        raise messages.error(1753, *pair)
    if (a.collation or "").casefold() != (b.collation or "").casefold():
        raise messages.error(1757, *pair)


def _type_name(sql_type: SqlType) -> str:
    return "decimal" if sql_type.name == "numeric" else sql_type.name


def _refuse_actions(
    database: Database, own: Referencing, key: ForeignKey, columns: Sequence[Column]
) -> None:
    """The actions suit the columns, the table's triggers and the other foreign keys."""
    actions = {key.on_delete, key.on_update}
    if "SET_NULL" in actions and any(not column.nullable for column in columns):
        raise messages.error(1761, key.name)
    if "SET_DEFAULT" in actions and any(not c.nullable and c.default is None for c in columns):
        raise messages.error(1762, key.name)
    for trigger in database.triggers(own.object_id):
        events = trigger.events.split(",") if trigger.is_instead_of else []
        if ("DELETE" in events and key.on_delete == "CASCADE") or (
            "UPDATE" in events and key.on_update != NO_ACTION
        ):
            raise messages.error(1787, key.name, own.name)
    if actions != {NO_ACTION} and _has_two_paths(_Actions(database, own, key)):
        raise messages.error(1785, key.name, own.name)


class _Actions:
    """Which tables change when a table's rows are deleted or updated, with a new key in place."""

    def __init__(self, database: Database, own: Referencing, key: ForeignKey) -> None:
        self.children: dict[int, list[tuple[int, ForeignKey]]] = {}
        self.parents: dict[int, set[int]] = {}
        keys = [
            (table.object_id, known)
            for table in database.tables()
            if table.object_id != own.object_id
            for known in table.foreign_keys
        ]
        self.start = own.object_id
        for child, known in [*keys, *((own.object_id, k) for k in (*own.foreign_keys, key))]:
            if {known.on_delete, known.on_update} != {NO_ACTION}:
                parent = known.referenced or own.object_id
                self.children.setdefault(parent, []).append((child, known))
                self.parents.setdefault(child, set()).add(parent)

    def ancestors(self) -> set[int]:
        """The tables whose changes may reach the new key's table, and that table."""
        found, open_ids = {self.start}, [self.start]
        while open_ids:
            for parent in self.parents.get(open_ids.pop(), ()):
                if parent not in found:
                    found.add(parent)
                    open_ids.append(parent)
        return found

    def reached(self, table_id: int, event: str) -> Iterator[int]:
        """Every table that an event changes, once for each path; a cycle never ends."""
        for child, key in self.children.get(table_id, ()):
            action = key.on_delete if event == "DELETE" else key.on_update
            if action == NO_ACTION:
                continue
            yield child
            is_deleted = event == "DELETE" and action == "CASCADE"
            yield from self.reached(child, "DELETE" if is_deleted else "UPDATE")


def _has_two_paths(actions: _Actions) -> bool:
    """Whether one DELETE or UPDATE would come to a table twice."""
    for start in actions.ancestors():
        for event in ("DELETE", "UPDATE"):
            seen = {start}
            for table_id in actions.reached(start, event):
                if table_id in seen:
                    return True
                seen.add(table_id)
    return False


def referencing(table: Table) -> Referencing:
    """A table that exists."""
    return Referencing(
        table.object_id, table.name, table.columns, table.indexes, table.foreign_keys
    )
