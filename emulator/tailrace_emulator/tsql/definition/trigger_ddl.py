"""CREATE, ALTER, ENABLE and DISABLE TRIGGER."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.storage import ddl as store_ddl
from tailrace_emulator.tsql.compile.names import resolve_name

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
    from tailrace_emulator.tsql.syntax.nodes import Name
    from tailrace_emulator.tsql.syntax.switches import SwitchTrigger


def created_text(node: CreateModule) -> str:
    """The text that sys.sql_modules shows: ALTER and CREATE OR ALTER are kept as CREATE."""
    if node.mode == "CREATE":
        return node.text
    return f"CREATE {node.text[len(node.mode) :].lstrip()}"


def create_trigger(context: SessionContext, node: CreateModule) -> None:
    """CREATE, ALTER and CREATE OR ALTER TRIGGER.

    Raises:
        SqlError: 167 a temporary table, 8197 no such table, 2714 name taken, 208 nothing to alter.
            Also 2110 and 2103 of another table, 2111 a second INSTEAD OF trigger, 2113 against a
            cascade.
    """
    if node.table[-1].startswith("#"):
        raise messages.error(167, "trigger", line=node.line)
    database, table = _table(context, node.table, node)
    schema = node.name[-2] if len(node.name) > 1 and node.name[-2] else table.schema
    name = node.name[-1]
    if schema.casefold() != table.schema.casefold():
        raise messages.error(
            2103, node.mode.split()[0].lower(), messages.dotted(node.name), line=node.line
        )
    known = database.module(schema, name)
    if database.table(schema, name) or (
        known is not None and (node.mode == "CREATE" or known.type != "TR")
    ):
        raise messages.already_exists(name, node.line)
    if known is None and node.mode == "ALTER":
        raise messages.invalid_object(node.name, node.line)
    if known is not None and known.parent_id != table.object_id:
        raise messages.error(2110, name, messages.dotted(node.table), line=node.line)
    if node.is_instead_of:
        _refuse_instead_of(database, table, node, known)
    store_ddl.create_module(
        context.store,
        database,
        table.schema,
        name,
        "TR",
        created_text(node),
        parent_id=table.object_id,
        events=",".join(node.events),
        is_instead_of=node.is_instead_of,
        uses_ansi_nulls=context.options.ansi_nulls,
        uses_quoted_identifier=context.options.quoted_identifier,
    )


def _table(context: SessionContext, name: Name, node: CreateModule) -> tuple[Database, Table]:
    """The trigger's table."""
    where = resolve_name(context, name, node.line)
    table = where.database.table(where.schema, where.name)
    if table is None:
        if where.database.module(where.schema, where.name) is not None:
            raise not_supported("triggers on views")
        raise messages.error(8197, messages.dotted(name), line=node.line)
    if table.is_ms_shipped:
        raise not_supported(f"triggers on {table.schema}.{table.name}, which capture fills")
    return where.database, table


def _refuse_instead_of(
    database: Database, table: Table, node: CreateModule, known: Module | None
) -> None:
    """At most one INSTEAD OF trigger for each event, and none that a cascade would pass by."""
    for event in node.events:
        for other in database.triggers(table.object_id):
            if other is not known and other.is_instead_of and event in other.events.split(","):
                raise messages.error(
                    2111, node.name[-1], messages.dotted(node.table), event, line=node.line
                )
        cascading = any(
            (event == "DELETE" and key.on_delete != "NO_ACTION")
            or (event == "UPDATE" and key.on_update != "NO_ACTION")
            for key in table.foreign_keys
        )
        if cascading:
            raise messages.error(2113, node.name[-1], messages.dotted(node.table), line=node.line)


def find_trigger(context: SessionContext, name: Name, line: int) -> tuple[Database, Module]:
    """The trigger of that name.

    Raises:
        SqlError: 3701 for an unknown trigger.
    """
    where = resolve_name(context, name, line)
    module = where.database.module(where.schema, where.name)
    if module is None or module.type != "TR":
        raise messages.cannot_drop("trigger", messages.dotted(name))
    return where.database, module


def switch_trigger(context: SessionContext, node: SwitchTrigger) -> None:
    """ENABLE and DISABLE TRIGGER.

    Raises:
        SqlError: 4902 or 1088 no such table, 4920 no such trigger on it.
    """
    where = resolve_name(context, node.table, node.line)
    table = where.database.table(where.schema, where.name)
    if table is None:
        raise messages.error(1088, messages.dotted(node.table))
    triggers = where.database.triggers(table.object_id)
    if node.names:
        by_name = {trigger.name.casefold(): trigger for trigger in triggers}
        missing = [name for name in node.names if name[-1].casefold() not in by_name]
        if missing:
            raise messages.error(4920, missing[0][-1], messages.dotted(node.table))
        triggers = [by_name[name[-1].casefold()] for name in node.names]
    for trigger in triggers:
        store_ddl.set_trigger_disabled(context.store, where.database, trigger, node.disable)
