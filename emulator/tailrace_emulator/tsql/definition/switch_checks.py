"""What ALTER TABLE .. SWITCH demands of its two tables.

Messages 4942 to 4985 of sys.messages. SQL Server compares more (constraints, compression, text
settings); what is compared here is what can differ here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.storage.partitions import full_name

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Index, Table


def refuse_different_tables(database: Database, source: Table, target: Table) -> None:
    """Refuses tables between which rows cannot be switched.

    Raises:
        SqlError: 4955 one table, 4967 referenced by a foreign key, 4943 number of columns, 4942
            their names. Also 4944 their types, 4985 their nullability, 4913 and 4947 indexes.
    """
    names = full_name(database, source), full_name(database, target)
    if source.object_id == target.object_id:
        raise messages.error(4955, names[0], names[1])
    _refuse_referenced(database, source, names[0])
    if len(source.columns) != len(target.columns):
        raise messages.error(4943, names[0], len(source.columns), names[1], len(target.columns))
    for ordinal, (old, new) in enumerate(zip(source.columns, target.columns, strict=True), 1):
        if old.name.casefold() != new.name.casefold():
            raise messages.error(4942, old.name, ordinal, names[0], new.name, names[1])
        if str(old.type) != str(new.type):
            raise messages.error(4944, old.name, old.type, names[0], new.type, names[1])
        if old.nullable != new.nullable:
            raise messages.error(4985, old.name, names[0], names[1])
    _refuse_different_indexes(source, target, names)


def _refuse_referenced(database: Database, source: Table, name: str) -> None:
    for other in database.tables():
        for key in other.foreign_keys:
            if key.referenced == source.object_id:
                raise messages.error(4967, name, key.name)


def _refuse_different_indexes(source: Table, target: Table, names: tuple[str, str]) -> None:
    clustered = [
        next((i for i in table.indexes if i.clustered), None) for table in (source, target)
    ]
    for one, index in enumerate(clustered):
        if index is not None and clustered[1 - one] is None:
            raise messages.error(4913, names[one], index.name, names[1 - one])
    known = {_shape(source, index) for index in source.indexes}
    for index in target.indexes:
        if _shape(target, index) not in known:
            raise messages.error(4947, names[0], index.name, names[1])


def _shape(table: Table, index: Index) -> tuple[object, ...]:
    ids = [column.column_id for column in table.columns]
    return (
        tuple(ids.index(column_id) for column_id in index.column_ids),
        index.descending,
        index.unique,
        index.clustered,
        tuple(ids.index(column_id) for column_id in index.included_column_ids),
    )
