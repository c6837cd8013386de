"""What the catalog stores next to tables and modules: columns of views, properties, synonyms.

Each is DDL like any other: it takes a target (see ddl.py) and rolls back with its transaction. It
goes with the object that it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import apsw

from tailrace_emulator import messages
from tailrace_emulator.storage.catalog_state import ExtendedProperty, ModuleParameter, Synonym
from tailrace_emulator.storage.catalog_store import (
    BINDING,
    COLUMNS,
    PARAMETERS,
    PROPERTY,
    STATISTICS,
    SYNONYM,
    delete_entry,
    put_entry,
)
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope
from tailrace_emulator.storage.model import Column, Statistics


def put_columns(
    target: DdlTarget, database: Database, object_id: int, columns: Sequence[Column]
) -> None:
    """Keep the columns that a view had when it was created."""
    with ddl_scope(target, database) as connection:
        text = json.dumps([asdict(column) for column in columns])
        put_entry(connection, database.database_id, COLUMNS, str(object_id), text)
        database.engine.write_path.will_change_catalog()
        database.state.columns[object_id] = tuple(columns)
        database.version += 1


def put_parameters(
    target: DdlTarget, database: Database, object_id: int, parameters: Sequence[ModuleParameter]
) -> None:
    """Keep the parameters that a module has."""
    if not parameters and object_id not in database.state.parameters:
        return
    with ddl_scope(target, database) as connection:
        text = json.dumps([asdict(parameter) for parameter in parameters])
        put_entry(connection, database.database_id, PARAMETERS, str(object_id), text)
        database.engine.write_path.will_change_catalog()
        database.state.parameters[object_id] = tuple(parameters)
        database.version += 1


def put_statistics(
    target: DdlTarget, database: Database, object_id: int, statistics: Sequence[Statistics]
) -> None:
    """Store the statistics that users created on a table."""
    with ddl_scope(target, database) as connection:
        text = json.dumps([asdict(found) for found in statistics])
        put_entry(connection, database.database_id, STATISTICS, str(object_id), text)
        database.engine.write_path.will_change_catalog()
        database.state.statistics[object_id] = tuple(statistics)


def put_binding(
    target: DdlTarget,
    database: Database,
    object_id: int,
    references: frozenset[tuple[int, int]] | None,
) -> None:
    """Keep what a schema-bound module refers to; None: it is not schema-bound (any more)."""
    if references is None and object_id not in database.state.bindings:
        return
    with ddl_scope(target, database) as connection:
        if references is None:
            delete_entry(connection, database.database_id, BINDING, str(object_id))
            database.engine.write_path.will_change_catalog()
            del database.state.bindings[object_id]
            return
        text = json.dumps(sorted(references))
        put_entry(connection, database.database_id, BINDING, str(object_id), text)
        database.engine.write_path.will_change_catalog()
        database.state.bindings[object_id] = references


def put_property(target: DdlTarget, database: Database, found: ExtendedProperty) -> None:
    """Add or replace an extended property."""
    with ddl_scope(target, database) as connection:
        text = json.dumps(asdict(found))
        put_entry(connection, database.database_id, PROPERTY, _property_key(found), text)
        database.engine.write_path.will_change_catalog()
        database.state.properties[found.key] = found


def drop_property(target: DdlTarget, database: Database, found: ExtendedProperty) -> None:
    """Remove an extended property."""
    with ddl_scope(target, database) as connection:
        _remove_property(connection, database, found)


def _remove_property(
    connection: apsw.Connection, database: Database, found: ExtendedProperty
) -> None:
    delete_entry(connection, database.database_id, PROPERTY, _property_key(found))
    database.engine.write_path.will_change_catalog()
    database.state.properties.pop(found.key, None)


def _property_key(found: ExtendedProperty) -> str:
    return "/".join(str(part) for part in found.key)


def create_synonym(
    target: DdlTarget, database: Database, schema: str, name: str, base: tuple[str, ...]
) -> Synonym:
    """Create a synonym; whether its base exists is not looked at, as in SQL Server.

    Raises:
        SqlError: 2714 name taken, 2760 unknown schema.
    """
    with ddl_scope(target, database) as connection:
        known_schema = database.schema_name(schema)
        if known_schema is None:
            raise messages.error(2760, schema)
        taken = (
            database.table(schema, name)
            or database.module(schema, name)
            or database.synonym(schema, name)
        )
        if taken:
            raise messages.error(2714, name)
        synonym = Synonym(
            database.allocate_object_id(connection),
            known_schema,
            name,
            base,
            database.engine.clock.now_ticks(),
        )
        text = json.dumps(asdict(synonym))
        put_entry(connection, database.database_id, SYNONYM, str(synonym.object_id), text)
        database.engine.write_path.will_change_catalog()
        database.state.synonyms[known_schema.casefold(), name.casefold()] = synonym
        database.version += 1
        return synonym


def drop_synonym(target: DdlTarget, database: Database, synonym: Synonym) -> None:
    """Drop a synonym."""
    with ddl_scope(target, database) as connection:
        delete_entry(connection, database.database_id, SYNONYM, str(synonym.object_id))
        database.engine.write_path.will_change_catalog()
        del database.state.synonyms[synonym.schema.casefold(), synonym.name.casefold()]
        database.version += 1
        forget_object(connection, database, synonym.object_id)


def forget_object(connection: apsw.Connection, database: Database, object_id: int) -> None:
    """Remove what is kept of an object that is being dropped."""
    if object_id in database.state.columns:
        delete_entry(connection, database.database_id, COLUMNS, str(object_id))
        database.engine.write_path.will_change_catalog()
        del database.state.columns[object_id]
    if object_id in database.state.parameters:
        delete_entry(connection, database.database_id, PARAMETERS, str(object_id))
        database.engine.write_path.will_change_catalog()
        del database.state.parameters[object_id]
    if object_id in database.state.bindings:
        delete_entry(connection, database.database_id, BINDING, str(object_id))
        database.engine.write_path.will_change_catalog()
        del database.state.bindings[object_id]
    if object_id in database.state.statistics:
        delete_entry(connection, database.database_id, STATISTICS, str(object_id))
        database.engine.write_path.will_change_catalog()
        del database.state.statistics[object_id]
    for found in list(database.state.properties.values()):
        if found.class_id == 1 and found.major_id == object_id:
            _remove_property(connection, database, found)


def forget_column(
    connection: apsw.Connection, database: Database, object_id: int, column_id: int
) -> None:
    """Remove the properties of a column that is being dropped."""
    for found in list(database.state.properties.values()):
        if (found.class_id, found.major_id, found.minor_id) == (1, object_id, column_id):
            _remove_property(connection, database, found)
