"""DDL: what changes schema objects.

Each function takes a *target*: a session, or the connection of an :meth:`Engine.write` in progress.
The DDL commits and rolls back with that write. For a session its transaction rules apply:
autocommit, or until the end of the open transaction, with which it rolls back. It replaces the
frozen Table, persists it, bumps ``Database.version`` and, when the table is tracked, logs a
DdlChange.

Here: schemas, tables, modules. Indexes, columns and constraints are in indexes.py, alter.py and
constraint_ddl.py and imported from here; users and permissions are in principals.py.

T-SQL text (defaults, computed columns, checks) is only kept here: tsql compiles and evaluates it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.alter import (
    add_columns,
    alter_column,
    drop_column,
    rename_column,
    rename_table,
)
from tailrace_emulator.storage.catalog_state import Module
from tailrace_emulator.storage.catalog_store import delete_entry, put_entry, table_to_text
from tailrace_emulator.storage.constraint_ddl import (
    add_constraint,
    drop_constraint,
    set_default,
    switch_constraints,
)
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope, lock_for_ddl, log_ddl
from tailrace_emulator.storage.indexes import create_index, drop_index, with_index
from tailrace_emulator.storage.model import Check, Column, EncodedColumns, ForeignKey, Index, Table
from tailrace_emulator.storage.object_details import forget_object
from tailrace_emulator.storage.pairs_of_names import refuse_pair_of_names
from tailrace_emulator.storage.principals import put_principal
from tailrace_emulator.storage.sqlite_schema import create_index_text, create_table_text

__all__ = [
    "DdlTarget",
    "add_columns",
    "add_constraint",
    "alter_column",
    "create_index",
    "create_module",
    "create_schema",
    "create_table",
    "ddl_scope",
    "drop_column",
    "drop_constraint",
    "drop_index",
    "drop_module",
    "drop_schema",
    "drop_table",
    "put_principal",
    "rename_column",
    "rename_table",
    "set_default",
    "set_tracked",
    "set_trigger_disabled",
    "switch_constraints",
]


def create_schema(target: DdlTarget, database: Database, name: str) -> int:
    """Create a schema; returns its id.

    Raises:
        SqlError: 2714 when there is one of that name.
    """
    with ddl_scope(target, database) as connection:
        if database.schema_name(name) is not None:
            raise _exists(name)
        schema_id = max((i for i in database.schemas.values() if i < 16384), default=4) + 1
        put_entry(connection, database.database_id, "schema", name, json.dumps(schema_id))
        database.engine.write_path.will_change_catalog()
        database.schemas[name] = schema_id
        database.version += 1
        return schema_id


def drop_schema(target: DdlTarget, database: Database, name: str) -> None:
    """Drop an empty schema.

    Raises:
        SqlError: 15151 when there is none, 3729 when it holds a table or module.
    """
    with ddl_scope(target, database) as connection:
        known = database.schema_name(name)
        if known is None:
            raise messages.error(15151, "drop", "schema", name)
        folded = known.casefold()
        inside = [t.name for t in database.tables() if t.schema.casefold() == folded]
        inside += [m.name for key, m in database.modules.items() if key[0] == folded]
        if inside:
            raise messages.error(3729, "drop schema", name, inside[0])
        delete_entry(connection, database.database_id, "schema", known)
        database.engine.write_path.will_change_catalog()
        del database.schemas[known]
        database.version += 1


def create_table(
    target: DdlTarget,
    database: Database,
    schema: str,
    name: str,
    columns: Sequence[Column],
    *,
    indexes: Sequence[Index] = (),
    foreign_keys: Sequence[ForeignKey] = (),
    checks: Sequence[Check] = (),
    is_ms_shipped: bool = False,
    encoded: EncodedColumns | None = None,
) -> Table:
    """Create a table.

    Args:
        schema: one that exists already.
        columns: in order; a ``column_id`` of 0 is given out here (1, 2, ...).
        indexes: those of PRIMARY KEY, UNIQUE and INDEX clauses; an ``index_id`` of 0 is given out
            here: 1 for the clustered one, 2 and on for the others.
        foreign_keys: ``referenced`` of 0 means the table itself.
        is_ms_shipped: for the tables of what stands on the engine.
        encoded: what of its rows is kept encoded.

    Returns:
        The table.

    Raises:
        SqlError: 2714 name taken, 2760 unknown schema, 2705 column named twice; 50900 for names
            that differ by case alone, where the database's collation distinguishes case.
    """
    with ddl_scope(target, database) as connection:
        known_schema = database.schema_name(schema)
        if known_schema is None:
            raise messages.error(2760, schema)
        taken = database.table(schema, name) or database.module(schema, name)
        if taken is not None:
            refuse_pair_of_names(database, taken.name, name)
        if taken or database.synonym(schema, name):
            raise _exists(name)
        object_id = database.allocate_object_id(connection)
        numbered = tuple(
            column if column.column_id else replace(column, column_id=position)
            for position, column in enumerate(columns, 1)
        )
        _refuse_repeated_names(database, name, numbered)
        now = database.engine.clock.now_ticks()
        table = Table(
            object_id=object_id,
            database_id=database.database_id,
            schema=known_schema,
            name=name,
            columns=numbered,
            foreign_keys=tuple(
                replace(key, referenced=object_id) if key.referenced == 0 else key
                for key in foreign_keys
            ),
            checks=tuple(checks),
            create_ticks=now,
            modify_ticks=now,
            is_ms_shipped=is_ms_shipped,
            encoded=encoded,
            next_column_id=max((c.column_id for c in numbered), default=0) + 1,
        )
        for index in indexes:
            table = with_index(table, index)
        lock_for_ddl(target, database, table)
        connection.execute(create_table_text(table, table.sqlite_name))
        database.engine.identities.begin(connection, table)
        for index in table.kept_indexes:
            connection.execute(create_index_text(table, index))
        database.put_table(connection, table, table_to_text(table))
        return table


def drop_table(target: DdlTarget, database: Database, table: Table, *, command: str = "") -> None:
    """Drop a table. The reader of a tracked one's log record drops what belongs to it.

    Raises:
        SqlError: 3726 when a foreign key of another table references it.
    """
    for other in database.tables():
        if other.object_id != table.object_id and any(
            key.referenced == table.object_id for key in other.foreign_keys
        ):
            raise messages.error(3726, f"{table.schema}.{table.name}")
    with ddl_scope(target, database, table) as connection:
        log_ddl(target, database, table, "drop_table", command)
        connection.execute(f'DROP TABLE main."{table.sqlite_name}"')
        connection.execute(
            "DELETE FROM identity_values WHERE database_id = ? AND object_id = ?",
            (table.database_id, table.object_id),
        )
        for trigger in database.triggers(table.object_id):
            _remove_module(connection, database, trigger)
        database.remove_table(connection, table)
        forget_object(connection, database, table.object_id)
        database.engine.write_path.after_commit(partial(database.engine.forget_table, table))


def set_tracked(target: DdlTarget, database: Database, table: Table, tracked: bool) -> Table:
    """Begin or end logging a table's changes with full images; returns the new Table."""
    with ddl_scope(target, database, table) as connection:
        below = table.next_column_id if tracked else 0
        changed = replace(table, is_tracked=tracked, tracked_below_column_id=below)
        database.put_table(connection, changed, table_to_text(changed))
        return changed


def create_module(
    target: DdlTarget,
    database: Database,
    schema: str,
    name: str,
    kind: str,
    text: str,
    *,
    parent_id: int = 0,
    events: str = "",
    is_instead_of: bool = False,
    uses_ansi_nulls: bool = True,
    uses_quoted_identifier: bool = True,
) -> Module:
    """Create or replace a stored T-SQL object (kind P, V, FN, IF, TF, TR).

    Args:
        schema: an existing schema, spelled as created.
        kind: type letters as of sys.objects.
        parent_id: see :class:`Module`, as the next two.
        events: what a trigger fires on.
        is_instead_of: whether a trigger replaces its statement.
        uses_ansi_nulls: see :class:`Module`, as the next.
        uses_quoted_identifier: whether "x" is a name in it.
    """
    with ddl_scope(target, database) as connection:
        known = database.module(schema, name)
        object_id = known.object_id if known else database.allocate_object_id(connection)
        now = database.engine.clock.now_ticks()
        module = Module(
            object_id,
            schema,
            name,
            kind,
            text,
            known.create_ticks if known else now,
            now,
            parent_id,
            events,
            is_instead_of,
            is_disabled=known is not None and known.is_disabled,
            uses_ansi_nulls=uses_ansi_nulls,
            uses_quoted_identifier=uses_quoted_identifier,
        )
        _put_module(connection, database, module)
        return module


def set_trigger_disabled(
    target: DdlTarget, database: Database, trigger: Module, disabled: bool
) -> None:
    """DISABLE TRIGGER and ENABLE TRIGGER."""
    with ddl_scope(target, database) as connection:
        _put_module(connection, database, replace(trigger, is_disabled=disabled))


def _put_module(connection: apsw.Connection, database: Database, module: Module) -> None:
    key = str(module.object_id)
    put_entry(connection, database.database_id, "module", key, json.dumps(asdict(module)))
    database.engine.write_path.will_change_catalog()
    database.modules[module.schema.casefold(), module.name.casefold()] = module
    database.version += 1


def rename_module(target: DdlTarget, database: Database, module: Module, name: str) -> Module:
    """Rename a stored T-SQL object (sp_rename); its text keeps the old name, as in SQL Server.

    Raises:
        SqlError: 15335 when the name is taken.
    """
    with ddl_scope(target, database) as connection:
        taken = database.table(module.schema, name) or database.module(module.schema, name)
        if taken is not None and taken.object_id != module.object_id:
            raise messages.error(15335, name, "OBJECT")
        database.engine.write_path.will_change_catalog()
        del database.modules[module.schema.casefold(), module.name.casefold()]
        renamed = replace(module, name=name, modify_ticks=database.engine.clock.now_ticks())
        _put_module(connection, database, renamed)
        return renamed


def drop_module(target: DdlTarget, database: Database, module: Module) -> None:
    """Drop a stored T-SQL object."""
    with ddl_scope(target, database) as connection:
        _remove_module(connection, database, module)


def _remove_module(connection: apsw.Connection, database: Database, module: Module) -> None:
    delete_entry(connection, database.database_id, "module", str(module.object_id))
    forget_object(connection, database, module.object_id)
    database.engine.write_path.will_change_catalog()
    del database.modules[module.schema.casefold(), module.name.casefold()]
    database.version += 1


def _exists(name: str) -> SqlError:
    return messages.error(2714, name)


def _refuse_repeated_names(database: Database, table: str, columns: Sequence[Column]) -> None:
    seen: dict[str, str] = {}
    for column in columns:
        folded = column.name.casefold()
        if folded in seen:
            refuse_pair_of_names(database, seen[folded], column.name)
            raise messages.error(2705, column.name, table, state=3)
        seen[folded] = column.name
