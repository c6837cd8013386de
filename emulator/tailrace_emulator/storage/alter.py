"""ALTER TABLE and sp_rename: columns and names. See ddl.py for the rules.

Dropping a column is a change of the catalog only, as in SQL Server: its values stay in the rows and
its id never returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import apsw

from tailrace_emulator import messages
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope, replace_table
from tailrace_emulator.storage.encoded_rows import forget_encoded
from tailrace_emulator.storage.model import Column, Table
from tailrace_emulator.storage.object_details import forget_column
from tailrace_emulator.storage.pairs_of_names import refuse_pair_of_names
from tailrace_emulator.storage.sqlite_schema import column_definition, create_index_text, index_name
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import StorageValue


def add_columns(
    target: DdlTarget,
    database: Database,
    table: Table,
    columns: Sequence[Column],
    *,
    values: Mapping[str, StorageValue] | None = None,
    command: str = "",
) -> Table:
    """Add columns; returns the new Table.

    Args:
        columns: their ``column_id`` is given out here.
        values: by column name, what existing rows get (the default of a NOT NULL column, or WITH
            VALUES); NULL where it names none.
        command: the statement's text, for the log.

    Raises:
        SqlError: 2705 when a column of that name exists, 4901 when a NOT NULL column gets no value
            and the table has rows.
    """
    values = values or {}
    with ddl_scope(target, database, table) as connection:
        next_id = max(
            table.next_column_id, max((c.column_id for c in table.columns), default=0) + 1
        )
        for column in columns:
            known = table.column(column.name)
            if known is not None:
                refuse_pair_of_names(database, known.name, column.name)
                raise messages.error(2705, column.name, f"{table.schema}.{table.name}")
            added = replace(column, column_id=next_id)
            next_id += 1
            value = values.get(column.name)
            _refuse_missing_value(connection, table, added, value)
            connection.execute(
                f'ALTER TABLE main."{table.sqlite_name}" ADD COLUMN {column_definition(added)}'
            )
            if value is not None:
                connection.execute(
                    f'UPDATE main."{table.sqlite_name}" SET {added.sqlite_name} = ?', (value,)
                )
            elif added.identity is not None:
                if isinstance(target, StoreSession):
                    target.reset_identity(table)
                _number_rows(database, connection, table, added)
            table = replace(table, columns=(*table.columns, added), next_column_id=next_id)
            table = replace_table(
                target, connection, database, table, "add_column", command, added.column_id,
                None, added.type,
            )  # fmt: skip
        return table


def drop_column(
    target: DdlTarget, database: Database, table: Table, name: str, *, command: str = ""
) -> Table:
    """Drop a column; returns the new Table.

    Raises:
        SqlError: 4924 unknown column, 5074 when an index, key or constraint uses it, 4923 when no
            column would be left but computed ones.
    """
    with ddl_scope(target, database, table) as connection:
        column = _known_column(table, name)
        users = [i.name for i in table.indexes if column.column_id in i.used_column_ids]
        users += [k.name for k in table.foreign_keys if column.column_id in k.column_ids]
        if column.default_name is not None:
            users.append(column.default_name)
        if users:
            raise messages.error(5074, "object", users[0], "column", column.name)
        changed = replace(table, columns=tuple(c for c in table.columns if c is not column))
        if all(c.computed is not None for c in changed.columns):
            raise messages.error(4923, column.name, table.name)
        forget_column(connection, database, table.object_id, column.column_id)
        return replace_table(
            target, connection, database, changed, "drop_column", command, column.column_id,
            column.type, None,
        )  # fmt: skip


def alter_column(
    target: DdlTarget,
    database: Database,
    table: Table,
    column_id: int,
    column: Column,
    convert: Callable[[StorageValue], StorageValue] | None = None,
    *,
    command: str = "",
) -> Table:
    """Change a column's type or nullability; returns the new Table.

    Args:
        column: what it becomes (its ``column_id`` is ignored).
        convert: turns each stored value into one of the new type, or raises; None keeps them.
        command: the statement's text, for the log.

    Raises:
        SqlError: 515 when it becomes NOT NULL and a row holds NULL, and what ``convert`` raises.
    """
    with ddl_scope(target, database, table) as connection:
        old = table.column_by_id(column_id)
        if old is None:
            raise messages.error(4924, "ALTER TABLE ALTER COLUMN", column.name, table.name)
        new = replace(column, column_id=column_id)
        if not new.nullable and old.nullable:
            _refuse_nulls(connection, database, table, old)
        rename = column_definition(new) != column_definition(old)
        if convert is not None or rename:
            _rewrite_column(connection, table, old, new, convert)
        changed = replace(
            table, columns=tuple(new if c.column_id == column_id else c for c in table.columns)
        )
        return replace_table(
            target, connection, database, changed, "alter_column", command, column_id, old.type,
            new.type,
        )  # fmt: skip


def rename_table(
    target: DdlTarget, database: Database, table: Table, name: str, *, command: str = ""
) -> Table:
    """Rename a table (sp_rename); returns the new Table.

    Raises:
        SqlError: 15335 when the name is taken.
    """
    with ddl_scope(target, database, table) as connection:
        other = database.table(table.schema, name)
        if other is not None and other.object_id != table.object_id:
            raise messages.error(15335, name, "OBJECT")
        return replace_table(
            target, connection, database, replace(table, name=name), "other", command
        )


def rename_part(
    target: DdlTarget, database: Database, table: Table, old: str, new: str, *, command: str
) -> Table | None:
    """Rename an index or a constraint of a table (sp_rename).

    Returns:
        The new Table; None when the table has nothing of that name.
    """
    folded = old.casefold()
    renamed = replace(
        table,
        indexes=tuple(
            replace(i, name=new) if i.name.casefold() == folded else i for i in table.indexes
        ),
        foreign_keys=tuple(
            replace(k, name=new) if k.name.casefold() == folded else k for k in table.foreign_keys
        ),
        checks=tuple(
            replace(c, name=new) if c.name.casefold() == folded else c for c in table.checks
        ),
        columns=tuple(
            replace(c, default_name=new) if (c.default_name or "").casefold() == folded else c
            for c in table.columns
        ),
    )
    if renamed == table:
        return None
    with ddl_scope(target, database, table) as connection:
        return replace_table(target, connection, database, renamed, "other", command)


def rename_column(
    target: DdlTarget, database: Database, table: Table, column_id: int, name: str, *,
    command: str = "",
) -> Table:  # fmt: skip
    """Rename a column (sp_rename); returns the new Table.

    Raises:
        SqlError: 15335 when the name is taken.
    """
    with ddl_scope(target, database, table) as connection:
        other = table.column(name)
        if other is not None and other.column_id != column_id:
            raise messages.error(15335, name, "COLUMN")
        columns = tuple(
            replace(c, name=name) if c.column_id == column_id else c for c in table.columns
        )
        changed = replace(table, columns=columns)
        return replace_table(
            target, connection, database, changed, "rename_column", command, column_id
        )


def _known_column(table: Table, name: str) -> Column:
    column = table.column(name)
    if column is None:
        raise messages.error(4924, "ALTER TABLE DROP COLUMN", name, table.name)
    return column


def _refuse_missing_value(
    connection: apsw.Connection, table: Table, column: Column, value: StorageValue
) -> None:
    if column.nullable or value is not None or column.identity or column.computed:
        return
    if column.type.name == "timestamp":
        return
    rows = fetch(connection, f'SELECT 1 FROM main."{table.sqlite_name}" LIMIT 1')
    if rows:
        raise messages.error(4901, column.name, table.name)


def _refuse_nulls(
    connection: apsw.Connection, database: Database, table: Table, column: Column
) -> None:
    rows = fetch(
        connection,
        f'SELECT 1 FROM main."{table.sqlite_name}" WHERE {column.sqlite_name} IS NULL LIMIT 1',
    )
    if rows:
        raise messages.error(
            515, column.name, f"{database.name}.{table.schema}.{table.name}", "UPDATE"
        )


def _number_rows(
    database: Database, connection: apsw.Connection, table: Table, column: Column
) -> None:
    """Give existing rows the values of a new IDENTITY column, in row order."""
    identity = column.identity
    ((count,),) = fetch(connection, f'SELECT count(*) FROM main."{table.sqlite_name}"')
    if identity is None or not count:
        return
    first = database.engine.identities.take(table, identity, count)
    connection.execute(
        f'UPDATE main."{table.sqlite_name}" SET {column.sqlite_name} = numbered.value FROM'
        " (SELECT rid AS id, ? + (row_number() OVER (ORDER BY rid) - 1) * ? AS value"
        f' FROM main."{table.sqlite_name}") AS numbered WHERE rid = numbered.id',
        (first, identity.increment),
    )
    database.engine.identities.persist(connection, table)


def _rewrite_column(
    connection: apsw.Connection,
    table: Table,
    old: Column,
    new: Column,
    convert: Callable[[StorageValue], StorageValue] | None,
) -> None:
    """Convert a column's values; where its collation changes, as a column of the new one.

    SQLite cannot change a column's collation. So such a column is added under a passing name, the
    old one is dropped and its name taken over. Indexes on it are built again.
    """
    name = table.sqlite_name
    expression = old.sqlite_name
    if convert is not None:
        function = cast("Callable[..., StorageValue]", convert)
        connection.create_scalar_function("tailrace_convert", function, 1)
        expression = f"tailrace_convert({old.sqlite_name})"
        if table.encoded is not None:
            forget_encoded(connection, table)
    indexes = [i for i in table.kept_indexes if old.column_id in i.column_ids]
    for index in indexes:
        connection.execute(f'DROP INDEX main."{index_name(table, index)}"')
    if column_definition(new) == column_definition(old):
        connection.execute(f'UPDATE main."{name}" SET {old.sqlite_name} = {expression}')
    else:
        passing = column_definition(new).replace(new.sqlite_name, f"{new.sqlite_name}_new", 1)
        connection.execute(f'ALTER TABLE main."{name}" ADD COLUMN {passing}')
        connection.execute(f'UPDATE main."{name}" SET {new.sqlite_name}_new = {expression}')
        connection.execute(f'ALTER TABLE main."{name}" DROP COLUMN {old.sqlite_name}')
        connection.execute(
            f'ALTER TABLE main."{name}" RENAME COLUMN {new.sqlite_name}_new TO {new.sqlite_name}'
        )
    for index in indexes:
        connection.execute(create_index_text(table, index))
