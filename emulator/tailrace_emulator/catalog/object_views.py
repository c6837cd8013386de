"""sys.objects and its kinds: tables, procedures, views, constraints, schemas, triggers.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/object-catalog-views-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.database_objects import DatabaseObject, derived_id
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.module_texts import generated_modules
from tailrace_emulator.catalog.objects import (
    TYPE_DESCRIPTIONS,
    objects,
    schema_id,
    system_objects,
)
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.relations import table_by_id
from tailrace_emulator.catalog.visibility import definition
from tailrace_emulator.security.tokens import schema_owner
from tailrace_emulator.storage.values import DAYS_TO_1900, round_datetime
from tailrace_emulator.values.types import TICKS_PER_DAY

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

OBJECTS: Final = Columns(
    """name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!,
 type char(2)!, type_desc nvarchar(60), create_date datetime!, modify_date datetime!,
 is_ms_shipped bit!, is_published bit! = 0, is_schema_published bit! = 0"""
)
"""What every view of objects begins with."""

_GENERATED: Final = re.compile(r"(PK|UQ|DF|CK|FK)__.*__([0-9A-F]{8}|[0-9A-F]{16})")

_EPOCH: Final = DAYS_TO_1900 * TICKS_PER_DAY
"""1900-01-01: what an object without a date shows."""


def object_row(database: Database, item: DatabaseObject) -> Row:
    """The columns that every view of objects begins with."""
    return OBJECTS.row(
        name=item.name,
        object_id=item.object_id,
        schema_id=schema_id(database, item.schema),
        parent_object_id=item.parent_object_id,
        type=item.type.ljust(2),
        type_desc=TYPE_DESCRIPTIONS[item.type],
        create_date=datetime_of(item.create_ticks),
        modify_date=datetime_of(item.modify_ticks),
        is_ms_shipped=int(item.is_ms_shipped),
    )


def is_system_named(name: str) -> int:
    """1 for the name of a constraint that the server made up."""
    return int(_GENERATED.fullmatch(name) is not None)


def datetime_of(ticks: int) -> int:
    """Ticks as a datetime's storage value; 1900-01-01 for none."""
    return round_datetime(ticks) if ticks else _EPOCH


Items = Callable[["SessionContext", "Database"], Iterator[DatabaseObject]]


def _of_types(*types: str) -> Items:
    """The objects of a database of some types, or of all."""

    def items(context: SessionContext, database: Database) -> Iterator[DatabaseObject]:
        return (i for i in objects(context, database) if not types or i.type in types)

    return items


def _system(context: SessionContext, _database: Database) -> Iterator[DatabaseObject]:
    yield from system_objects(context)


def _with_system(*types: str) -> Items:
    own = _of_types(*types)

    def items(context: SessionContext, database: Database) -> Iterator[DatabaseObject]:
        yield from own(context, database)
        yield from _system(context, database)

    return items


_PROCEDURES: Final = OBJECTS.extended(
    """is_auto_executed bit! = 0, is_execution_replicated bit = 0,
 is_repl_serializable_only bit = 0, skips_repl_constraints bit = 0"""
)
_VIEWS: Final = OBJECTS.extended(
    """is_replicated bit = 0, has_replication_filter bit = 0, has_opaque_metadata bit! = 0,
 has_unchecked_assembly_data bit! = 0, with_check_option bit!, is_date_correlation_view bit! = 0,
 is_tracked_by_cdc bit = 0, has_snapshot bit = 0"""
)
_SYNONYMS: Final = OBJECTS.extended("base_object_name nvarchar(1035)")

for _name, _items in (
    ("objects", _of_types()),
    ("system_objects", _system),
    ("all_objects", _with_system()),
):

    @view(f"sys.{_name}", OBJECTS)
    def _objects(
        context: SessionContext, database: Database, items: Items = _items
    ) -> Iterator[Row]:
        for item in items(context, database):
            yield object_row(database, item)


@view("sys.procedures", _PROCEDURES)
def _procedures(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in _of_types("P")(context, database):
        yield _PROCEDURES.row(object_row(database, item))


for _name, _items in (
    ("views", _of_types("V")),
    ("system_views", _system),
    ("all_views", _with_system("V")),
):

    @view(f"sys.{_name}", _VIEWS)
    def _views(context: SessionContext, database: Database, items: Items = _items) -> Iterator[Row]:
        checked = {m.object_id for m in database.modules.values() if m.has_check_option}
        for item in items(context, database):
            is_checked = int(item.object_id in checked)
            yield _VIEWS.row(object_row(database, item), with_check_option=is_checked)


@view("sys.synonyms", _SYNONYMS)
def _synonyms(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in _of_types("SN")(context, database):
        yield _SYNONYMS.row(object_row(database, item), base_object_name=_base_name(database, item))


def _base_name(database: Database, item: DatabaseObject) -> str | None:
    """What a synonym stands for, in brackets."""
    found = next(
        (
            s
            for s in database.state.synonyms.values()
            if s.name == item.name and s.schema == item.schema
        ),
        None,
    )
    return None if found is None else ".".join(f"[{part}]" if part else "" for part in found.base)


_TABLES: Final = OBJECTS.extended(
    """lob_data_space_id int! = 0, filestream_data_space_id int, max_column_id_used int!,
 lock_on_bulk_load bit! = 0, uses_ansi_nulls bit = 1, is_replicated bit,
 has_replication_filter bit = 0, is_merge_published bit = 0, is_sync_tran_subscribed bit = 0,
 has_unchecked_assembly_data bit! = 0, text_in_row_limit int = 0,
 large_value_types_out_of_row bit = 0, is_tracked_by_cdc bit, lock_escalation tinyint = 0,
 lock_escalation_desc nvarchar(60) = 'TABLE', is_filetable bit = 0, is_memory_optimized bit = 0,
 durability tinyint = 0, durability_desc nvarchar(60) = 'SCHEMA_AND_DATA',
 temporal_type tinyint = 0, temporal_type_desc nvarchar(60) = 'NON_TEMPORAL_TABLE',
 history_table_id int, is_remote_data_archive_enabled bit = 0, is_external bit! = 0"""
)


@view("sys.tables", _TABLES)
def _tables(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        table = table_by_id(context, database, item.object_id) if item.type == "U" else None
        if table is None:
            continue
        highest = max((column.column_id for column in table.columns), default=0)
        replicated = int(extension(context.engine).is_replicated(database, table))
        yield _TABLES.row(
            object_row(database, item),
            max_column_id_used=max(highest, table.next_column_id - 1),
            is_replicated=replicated,
            is_tracked_by_cdc=int(table.is_tracked),
        )


@view("sys.schemas", "name sysname!, schema_id int!, principal_id int")
def _schemas(_context: SessionContext, database: Database) -> Iterator[Row]:
    for name, number in database.schemas.items():
        yield name, number, schema_owner(database, name)


_KEY_CONSTRAINTS: Final = OBJECTS.extended(
    "unique_index_id int, is_system_named bit!, is_enforced bit = 1"
)


@view("sys.key_constraints", _KEY_CONSTRAINTS)
def _key_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        if item.type not in {"PK", "UQ"}:
            continue
        table = table_by_id(context, database, item.parent_object_id)
        indexes = table.indexes if table is not None else ()
        index_id = next((i.index_id for i in indexes if i.name == item.name), None)
        yield _KEY_CONSTRAINTS.row(
            object_row(database, item),
            unique_index_id=index_id,
            is_system_named=is_system_named(item.name),
        )


_FOREIGN_KEYS: Final = OBJECTS.extended(
    """referenced_object_id int, key_index_id int, is_disabled bit!,
 is_not_for_replication bit! = 0, is_not_trusted bit!, delete_referential_action tinyint,
 delete_referential_action_desc nvarchar(60), update_referential_action tinyint,
 update_referential_action_desc nvarchar(60), is_system_named bit!"""
)


@view("sys.foreign_keys", _FOREIGN_KEYS)
def _foreign_keys(context: SessionContext, database: Database) -> Iterator[Row]:
    actions = {"NO_ACTION": 0, "CASCADE": 1, "SET_NULL": 2, "SET_DEFAULT": 3}
    for item in objects(context, database):
        table = table_by_id(context, database, item.parent_object_id) if item.type == "F" else None
        keys = table.foreign_keys if table is not None else ()
        key = next((k for k in keys if k.name == item.name), None)
        if key is None:
            continue
        referenced = database.table_by_id(key.referenced)
        indexes = referenced.indexes if referenced is not None else ()
        index_id = next(
            (i.index_id for i in indexes if i.column_ids == key.referenced_column_ids), 1
        )
        yield _FOREIGN_KEYS.row(
            object_row(database, item),
            referenced_object_id=key.referenced,
            key_index_id=index_id,
            is_disabled=int(key.is_disabled),
            is_not_trusted=int(key.is_not_trusted),
            delete_referential_action=actions.get(key.on_delete, 0),
            delete_referential_action_desc=key.on_delete,
            update_referential_action=actions.get(key.on_update, 0),
            update_referential_action_desc=key.on_update,
            is_system_named=is_system_named(key.name),
        )


_FOREIGN_KEY_COLUMNS: Final = Columns(
    """constraint_object_id int!, constraint_column_id int!, parent_object_id int!,
 parent_column_id int!, referenced_object_id int!, referenced_column_id int!"""
)


@view("sys.foreign_key_columns", _FOREIGN_KEY_COLUMNS)
def _foreign_key_columns(_context: SessionContext, database: Database) -> Iterator[Row]:
    for table in database.tables():
        for key in table.foreign_keys:
            pairs = zip(key.column_ids, key.referenced_column_ids, strict=True)
            for ordinal, (column_id, referenced_id) in enumerate(pairs, 1):
                yield _FOREIGN_KEY_COLUMNS.row(
                    constraint_object_id=derived_id(table.object_id, key.name),
                    constraint_column_id=ordinal,
                    parent_object_id=table.object_id,
                    parent_column_id=column_id,
                    referenced_object_id=key.referenced,
                    referenced_column_id=referenced_id,
                )


_DEFAULT_CONSTRAINTS: Final = OBJECTS.extended(
    "parent_column_id int!, definition nvarchar(max), is_system_named bit!"
)


@view("sys.default_constraints", _DEFAULT_CONSTRAINTS)
def _default_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        table = table_by_id(context, database, item.parent_object_id) if item.type == "D" else None
        for column in table.columns if table is not None else ():
            if column.default_name == item.name:
                yield _DEFAULT_CONSTRAINTS.row(
                    object_row(database, item),
                    parent_column_id=column.column_id,
                    definition=column.default,
                    is_system_named=is_system_named(item.name),
                )


_CHECK_CONSTRAINTS: Final = OBJECTS.extended(
    """is_disabled bit!, is_not_for_replication bit! = 0, is_not_trusted bit!,
 parent_column_id int! = 0, definition nvarchar(max), uses_database_collation bit = 1,
 is_system_named bit!"""
)


@view("sys.check_constraints", _CHECK_CONSTRAINTS)
def _check_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        table = table_by_id(context, database, item.parent_object_id) if item.type == "C" else None
        for check in table.checks if table is not None else ():
            if check.name == item.name:
                yield _CHECK_CONSTRAINTS.row(
                    object_row(database, item),
                    is_disabled=int(check.is_disabled),
                    is_not_trusted=int(check.is_not_trusted),
                    definition=check.expression,
                    is_system_named=is_system_named(item.name),
                )


_TRIGGERS: Final = Columns(
    """name sysname!, object_id int!, parent_class tinyint! = 0,
 parent_class_desc nvarchar(60) = 'DATABASE', parent_id int!, type char(2)! = 'TR',
 type_desc nvarchar(60) = 'SQL_TRIGGER', create_date datetime!, modify_date datetime!,
 is_ms_shipped bit! = 1, is_disabled bit!, is_not_for_replication bit! = 0,
 is_instead_of_trigger bit!"""
)


@view("sys.triggers", _TRIGGERS)
def _triggers(context: SessionContext, database: Database) -> Iterator[Row]:
    for trigger in extension(context.engine).database_triggers(database):
        created = datetime_of(trigger.create_ticks)
        yield _TRIGGERS.row(
            name=trigger.name,
            object_id=derived_id(0, trigger.name),
            parent_id=0,
            create_date=created,
            modify_date=created,
            is_disabled=0,
            is_instead_of_trigger=0,
        )
    for module in database.modules.values():
        if module.type == "TR":
            created, modified = datetime_of(module.create_ticks), datetime_of(module.modify_ticks)
            yield _TRIGGERS.row(
                name=module.name,
                object_id=module.object_id,
                parent_class=1,
                parent_class_desc="OBJECT_OR_COLUMN",
                parent_id=module.parent_id,
                create_date=created,
                modify_date=modified,
                is_ms_shipped=0,
                is_disabled=int(module.is_disabled),
                is_instead_of_trigger=int(module.is_instead_of),
            )


_TRIGGER_EVENTS: Final = Columns(
    """object_id int!, type int!, type_desc nvarchar(60), is_first bit = 0, is_last bit = 0,
 event_group_type int, event_group_type_desc nvarchar(60), is_trigger_event bit = 1"""
)


@view("sys.trigger_events", _TRIGGER_EVENTS)
def _trigger_events(context: SessionContext, database: Database) -> Iterator[Row]:
    for trigger in extension(context.engine).database_triggers(database):
        for number, name in trigger.events:
            object_id = derived_id(0, trigger.name)
            yield _TRIGGER_EVENTS.row(object_id=object_id, type=number, type_desc=name)
    kinds = {"INSERT": 1, "UPDATE": 2, "DELETE": 3}
    for module in database.modules.values():
        if module.type == "TR":
            for event in module.events.split(","):
                yield _TRIGGER_EVENTS.row(
                    object_id=module.object_id, type=kinds[event], type_desc=event
                )


_SQL_MODULES: Final = Columns(
    """object_id int!, definition nvarchar(max), uses_ansi_nulls bit = 1,
 uses_quoted_identifier bit = 1, is_schema_bound bit = 0, uses_database_collation bit = 0,
 is_recompiled bit = 0, null_on_null_input bit = 0, execute_as_principal_id int"""
)


@view("sys.sql_modules", _SQL_MODULES)
def _sql_modules(context: SessionContext, database: Database) -> Iterator[Row]:
    for module in database.modules.values():
        yield _SQL_MODULES.row(
            object_id=module.object_id,
            definition=definition(context, database, module),
            uses_ansi_nulls=int(module.uses_ansi_nulls),
            uses_quoted_identifier=int(module.uses_quoted_identifier),
            is_schema_bound=int(module.object_id in database.state.bindings),
        )
    for item, text in generated_modules(context, database):
        yield _SQL_MODULES.row(object_id=item.object_id, definition=text)


_SYSSTAT: Final = {"S": 1, "V": 2, "U": 3, "P": 4, "D": 6, "TR": 8}


_SYSOBJECTS: Final = Columns(
    """name sysname!, id int!, xtype char(2)!, uid smallint, info smallint = 0, status int = 0,
 base_schema_ver int = 0, replinfo int = 0, parent_obj int!, crdate datetime!,
 ftcatid smallint = 0, schema_ver int = 0, stats_schema_ver int = 0, type char(2),
 userstat smallint = 0, sysstat smallint, indexdel smallint = 0, refdate datetime!,
 version int = 0, deltrig int = 0, instrig int = 0, updtrig int = 0, seltrig int = 0,
 category int = 0, cache smallint = 0"""
)


@view("sys.sysobjects", _SYSOBJECTS)
def _sysobjects(context: SessionContext, database: Database) -> Iterator[Row]:
    """Of the status words only the kind in ``sysstat & 0xf`` is shown: old scripts read it."""
    for item in objects(context, database):
        made, letters = datetime_of(item.create_ticks), item.type.ljust(2)
        yield _SYSOBJECTS.row(
            name=item.name,
            id=item.object_id,
            xtype=letters,
            uid=schema_id(database, item.schema),
            parent_obj=item.parent_object_id,
            crdate=made,
            type=letters,
            sysstat=_SYSSTAT.get(item.type, 0),
            refdate=made,
        )
