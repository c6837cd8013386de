"""What ALTER TABLE .. SWITCH demands of its two tables.

Messages 4942 to 4985 of sys.messages. SQL Server compares more (constraints, compression, text
settings); what is compared here is what can differ here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.errors import SqlError
from emulator.storage.partitions import full_name

if TYPE_CHECKING:
    from emulator.storage.database import Database
    from emulator.storage.model import Index, Table

_FAILED = "ALTER TABLE SWITCH statement failed"


def refuse_different_tables(database: Database, source: Table, target: Table) -> None:
    """Refuses tables between which rows cannot be switched.

    Raises:
        SqlError: 4955 one table, 4967 referenced by a foreign key, 4943 number of columns, 4942
            their names, 4944 their types, 4985 their nullability, 4913 and 4947 indexes.
    """
    names = full_name(database, source), full_name(database, target)
    if source.object_id == target.object_id:
        raise SqlError(
            4955,
            f"{_FAILED}. The source table '{names[0]}' and target table '{names[1]}' are same.",
        )
    _refuse_referenced(database, source, names[0])
    if len(source.columns) != len(target.columns):
        raise SqlError(
            4943,
            f"{_FAILED} because table '{names[0]}' has {len(source.columns)} columns and table"
            f" '{names[1]}' has {len(target.columns)} columns.",
        )
    for ordinal, (old, new) in enumerate(zip(source.columns, target.columns, strict=True), 1):
        if old.name.casefold() != new.name.casefold():
            raise SqlError(
                4942,
                f"{_FAILED} because column '{old.name}' at ordinal {ordinal} in table '{names[0]}'"
                f" has a different name than the column '{new.name}' at the same ordinal in table"
                f" '{names[1]}'.",
            )
        if str(old.type) != str(new.type):
            raise SqlError(
                4944,
                f"{_FAILED} because column '{old.name}' has data type {old.type} in source table"
                f" '{names[0]}' which is different from its type {new.type} in target table"
                f" '{names[1]}'.",
            )
        if old.nullable != new.nullable:
            raise SqlError(
                4985,
                f"{_FAILED} because column '{old.name}' does not have the same nullability"
                f" attribute in tables '{names[0]}' and '{names[1]}'.",
            )
    _refuse_different_indexes(source, target, names)


def _refuse_referenced(database: Database, source: Table, name: str) -> None:
    for other in database.tables():
        for key in other.foreign_keys:
            if key.referenced == source.object_id:
                raise SqlError(
                    4967,
                    f"{_FAILED}. SWITCH is not allowed because source table '{name}' contains"
                    f" primary key for constraint '{key.name}'.",
                )


def _refuse_different_indexes(source: Table, target: Table, names: tuple[str, str]) -> None:
    clustered = [
        next((i for i in table.indexes if i.clustered), None) for table in (source, target)
    ]
    for one, index in enumerate(clustered):
        if index is not None and clustered[1 - one] is None:
            raise SqlError(
                4913,
                f"{_FAILED}. The table '{names[one]}' has clustered index '{index.name}' while the"
                f" table '{names[1 - one]}' does not have clustered index.",
            )
    known = {_shape(source, index) for index in source.indexes}
    for index in target.indexes:
        if _shape(target, index) not in known:
            raise SqlError(
                4947,
                f"{_FAILED}. There is no identical index in source table '{names[0]}' for the index"
                f" '{index.name}' in target table '{names[1]}' .",
            )


def _shape(table: Table, index: Index) -> tuple[object, ...]:
    ids = [column.column_id for column in table.columns]
    return (
        tuple(ids.index(column_id) for column_id in index.column_ids),
        index.descending,
        index.unique,
        index.clustered,
        tuple(ids.index(column_id) for column_id in index.included_column_ids),
    )
