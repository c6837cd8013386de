"""sys.objects and its kinds: tables, procedures, views, constraints, schemas, triggers.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/object-catalog-views-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from emulator.catalog.generated_texts import generated_modules
from emulator.catalog.objects import (
    TYPE_DESCRIPTIONS,
    DatabaseObject,
    derived_id,
    objects,
    schema_id,
    system_objects,
)
from emulator.catalog.registry import Columns, Row, view
from emulator.catalog.relations import table_by_id
from emulator.catalog.visibility import definition
from emulator.cdc.capture_instance import is_enabled
from emulator.cdc.metadata_tables import DDL_TRIGGER
from emulator.cdc.replication import is_replicated
from emulator.security.tokens import schema_owner
from emulator.storage.values import DAYS_TO_1900, round_datetime
from emulator.types import TICKS_PER_DAY

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database

OBJECT_COLUMNS: Final = """name sysname!, object_id int!, principal_id int, schema_id int!,
 parent_object_id int!, type char(2)!, type_desc nvarchar(60), create_date datetime!,
 modify_date datetime!, is_ms_shipped bit!, is_published bit!, is_schema_published bit!"""

_GENERATED: Final = re.compile(r"(PK|UQ|DF|CK|FK)__.*__([0-9A-F]{8}|[0-9A-F]{16})")

_EPOCH: Final = DAYS_TO_1900 * TICKS_PER_DAY
"""1900-01-01: what an object without a date shows."""


def object_row(database: Database, item: DatabaseObject) -> Row:
    """The columns that every view of objects begins with."""
    return (
        item.name,
        item.object_id,
        None,
        schema_id(database, item.schema),
        item.parent_object_id,
        item.type.ljust(2),
        TYPE_DESCRIPTIONS[item.type],
        datetime_of(item.create_ticks),
        datetime_of(item.modify_ticks),
        int(item.is_ms_shipped),
        0,
        0,
    )


def is_system_named(name: str) -> int:
    """1 for the name of a constraint that the server made up."""
    return int(_GENERATED.fullmatch(name) is not None)


def datetime_of(ticks: int) -> int:
    """Ticks as a datetime's storage value; 1900-01-01 for none."""
    return round_datetime(ticks) if ticks else _EPOCH


def _of_types(*types: str) -> Callable[[SessionContext, Database], Iterator[Row]]:
    def produce(context: SessionContext, database: Database) -> Iterator[Row]:
        for item in objects(context, database):
            if not types or item.type in types:
                yield object_row(database, item)

    return produce


def _system(_context: SessionContext, database: Database) -> Iterator[Row]:
    for item in system_objects():
        yield object_row(database, item)


def _with_system(*types: str) -> Callable[[SessionContext, Database], Iterator[Row]]:
    def produce(context: SessionContext, database: Database) -> Iterator[Row]:
        yield from _of_types(*types)(context, database)
        yield from _system(context, database)

    return produce


_VIEW_COLUMNS: Final = (
    OBJECT_COLUMNS
    + """, is_replicated bit, has_replication_filter bit, has_opaque_metadata bit!,
 has_unchecked_assembly_data bit!, with_check_option bit!, is_date_correlation_view bit!,
 is_tracked_by_cdc bit, has_snapshot bit"""
)

view("sys.objects", OBJECT_COLUMNS)(_of_types())
view("sys.system_objects", OBJECT_COLUMNS)(_system)
view("sys.all_objects", OBJECT_COLUMNS)(_with_system())
view(
    "sys.procedures",
    OBJECT_COLUMNS
    + """, is_auto_executed bit!, is_execution_replicated bit,
 is_repl_serializable_only bit, skips_repl_constraints bit""",
)(lambda context, database: ((*row, 0, 0, 0, 0) for row in _of_types("P")(context, database)))
for _name, _produce in (
    ("views", _of_types("V")),
    ("system_views", _system),
    ("all_views", _with_system("V")),
):

    @view(f"sys.{_name}", _VIEW_COLUMNS)
    def _views(
        context: SessionContext,
        database: Database,
        produce: Callable[[SessionContext, Database], Iterator[Row]] = _produce,
    ) -> Iterator[Row]:
        checked = {m.object_id for m in database.modules.values() if m.has_check_option}
        for row in produce(context, database):
            yield (*row, 0, 0, 0, 0, int(row[1] in checked), 0, 0, 0)


view("sys.synonyms", OBJECT_COLUMNS + ", base_object_name nvarchar(1035)")(
    lambda context, database: (
        (*row, _base_name(database, str(row[0]), row[3]))
        for row in _of_types("SN")(context, database)
    )
)


def _base_name(database: Database, name: str, schema: object) -> str | None:
    """What a synonym stands for, in brackets."""
    found = next(
        (
            s
            for s in database.state.synonyms.values()
            if s.name == name and schema_id(database, s.schema) == schema
        ),
        None,
    )
    return None if found is None else ".".join(f"[{part}]" if part else "" for part in found.base)


@view(
    "sys.tables",
    OBJECT_COLUMNS
    + """, lob_data_space_id int!, filestream_data_space_id int, max_column_id_used int!,
 lock_on_bulk_load bit!, uses_ansi_nulls bit, is_replicated bit, has_replication_filter bit,
 is_merge_published bit, is_sync_tran_subscribed bit, has_unchecked_assembly_data bit!,
 text_in_row_limit int, large_value_types_out_of_row bit, is_tracked_by_cdc bit,
 lock_escalation tinyint, lock_escalation_desc nvarchar(60), is_filetable bit,
 is_memory_optimized bit, durability tinyint, durability_desc nvarchar(60), temporal_type tinyint,
 temporal_type_desc nvarchar(60), history_table_id int, is_remote_data_archive_enabled bit,
 is_external bit!""",
)
def _tables(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        table = table_by_id(context, database, item.object_id) if item.type == "U" else None
        if table is None:
            continue
        highest = max((column.column_id for column in table.columns), default=0)
        replicated = int(is_replicated(database, table))
        yield (
            *object_row(database, item),
            *(0, None, max(highest, table.next_column_id - 1), 0, 1, replicated, 0, 0, 0, 0, 0, 0),
            int(table.is_tracked_by_cdc),
            *(0, "TABLE", 0, 0, 0, "SCHEMA_AND_DATA", 0, "NON_TEMPORAL_TABLE", None, 0, 0),
        )


@view("sys.schemas", "name sysname!, schema_id int!, principal_id int")
def _schemas(_context: SessionContext, database: Database) -> Iterator[Row]:
    for name, number in database.schemas.items():
        yield name, number, schema_owner(database, name)


@view(
    "sys.key_constraints",
    OBJECT_COLUMNS + ", unique_index_id int, is_system_named bit!, is_enforced bit",
)
def _key_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        if item.type not in {"PK", "UQ"}:
            continue
        table = table_by_id(context, database, item.parent_object_id)
        indexes = table.indexes if table is not None else ()
        index_id = next((i.index_id for i in indexes if i.name == item.name), None)
        yield (*object_row(database, item), index_id, is_system_named(item.name), 1)


@view(
    "sys.foreign_keys",
    OBJECT_COLUMNS
    + """, referenced_object_id int, key_index_id int, is_disabled bit!,
 is_not_for_replication bit!, is_not_trusted bit!, delete_referential_action tinyint,
 delete_referential_action_desc nvarchar(60), update_referential_action tinyint,
 update_referential_action_desc nvarchar(60), is_system_named bit!""",
)
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
        yield (
            *object_row(database, item),
            *(key.referenced, index_id, int(key.is_disabled), 0, int(key.is_not_trusted)),
            *(actions.get(key.on_delete, 0), key.on_delete),
            *(actions.get(key.on_update, 0), key.on_update, is_system_named(key.name)),
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


@view(
    "sys.default_constraints",
    OBJECT_COLUMNS + ", parent_column_id int!, definition nvarchar(max), is_system_named bit!",
)
def _default_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        table = table_by_id(context, database, item.parent_object_id) if item.type == "D" else None
        for column in table.columns if table is not None else ():
            if column.default_name == item.name:
                yield (
                    *object_row(database, item),
                    *(column.column_id, column.default, is_system_named(item.name)),
                )


@view(
    "sys.check_constraints",
    OBJECT_COLUMNS
    + """, is_disabled bit!, is_not_for_replication bit!, is_not_trusted bit!,
 parent_column_id int!, definition nvarchar(max), uses_database_collation bit,
 is_system_named bit!""",
)
def _check_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for item in objects(context, database):
        table = table_by_id(context, database, item.parent_object_id) if item.type == "C" else None
        for check in table.checks if table is not None else ():
            if check.name == item.name:
                yield (
                    *object_row(database, item),
                    *(
                        int(check.is_disabled),
                        0,
                        int(check.is_not_trusted),
                        0,
                        check.expression,
                        1,
                        is_system_named(item.name),
                    ),
                )


_TRIGGERS: Final = Columns(
    """name sysname!, object_id int!, parent_class tinyint! = 0,
 parent_class_desc nvarchar(60) = 'DATABASE', parent_id int!, type char(2)! = 'TR',
 type_desc nvarchar(60) = 'SQL_TRIGGER', create_date datetime!, modify_date datetime!,
 is_ms_shipped bit! = 1, is_disabled bit!, is_not_for_replication bit! = 0,
 is_instead_of_trigger bit!"""
)


@view("sys.triggers", _TRIGGERS)
def _triggers(_context: SessionContext, database: Database) -> Iterator[Row]:
    if is_enabled(database):
        created = datetime_of(0)
        yield _TRIGGERS.row(
            name=DDL_TRIGGER,
            object_id=derived_id(0, DDL_TRIGGER),
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
def _trigger_events(_context: SessionContext, database: Database) -> Iterator[Row]:
    kinds = {"INSERT": 1, "UPDATE": 2, "DELETE": 3}
    for module in database.modules.values():
        if module.type == "TR":
            for event in module.events.split(","):
                yield _TRIGGER_EVENTS.row(
                    object_id=module.object_id, type=kinds[event], type_desc=event
                )


_MODULE_OPTIONS: Final = (1, 1, 0, 0, 0, 0, None)


@view(
    "sys.sql_modules",
    """object_id int!, definition nvarchar(max), uses_ansi_nulls bit, uses_quoted_identifier bit,
 is_schema_bound bit, uses_database_collation bit, is_recompiled bit, null_on_null_input bit,
 execute_as_principal_id int""",
)
def _sql_modules(context: SessionContext, database: Database) -> Iterator[Row]:
    for module in database.modules.values():
        settings = int(module.uses_ansi_nulls), int(module.uses_quoted_identifier)
        is_bound = int(module.object_id in database.state.bindings)
        text = definition(context, database, module)
        yield module.object_id, text, *settings, is_bound, *_MODULE_OPTIONS[3:]
    for item, text in generated_modules(context, database):
        yield item.object_id, text, *_MODULE_OPTIONS


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
    """Of the status words only the kind in ``sysstat & 0xf`` is told: old scripts ask for it."""
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
