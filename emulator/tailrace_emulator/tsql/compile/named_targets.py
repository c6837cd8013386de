"""The table that a data statement names, as what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import is_local_temporary
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.firing import PSEUDO_TABLES
from tailrace_emulator.tsql.compile.names import base_object
from tailrace_emulator.tsql.compile.targets import LocalTarget, StoredTarget, Target
from tailrace_emulator.tsql.compile.triggered_target import TriggeredTarget
from tailrace_emulator.tsql.syntax.nodes import TableName, VariableTable

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation


def resolve_target(compilation: Compilation, node: TableName | VariableTable) -> Target:
    """The table that a statement names.

    Raises:
        SqlError: 208, 1087; 259 for a system view; 50900 for a view.
    """
    target = _named_target(compilation, node)
    if any(column.type.name == "sql_variant" for column in target.table.columns):
        compilation.generic = False  # a sql_variant keeps the declared length of its value
    return target


def _named_target(compilation: Compilation, node: TableName | VariableTable) -> Target:
    if isinstance(node, VariableTable):
        local = compilation.frame.tables.get(node.name.casefold())
        compilation.depend_on_local_tables()
        if local is None:
            raise messages.undeclared_table_variable(node.name)
        if node.name.casefold() in compilation.frame.read_only:
            raise messages.error(10700, node.name)
        return LocalTarget(local)
    if is_local_temporary(node.name[-1]):
        local = compilation.workspace.temporary.get(node.name[-1].casefold())
        compilation.depend_on_local_tables()
        if local is None:
            raise messages.invalid_object(node.name, node.line)
        return LocalTarget(local)
    if compilation.frame.trigger is not None and node.name[-1].casefold() in PSEUDO_TABLES:
        raise messages.error(286, line=node.line)
    where = base_object(compilation.context, node.name, node.line)
    compilation.depend_on(where.database)
    table = where.database.table(where.schema, where.name)
    if table is None:
        if where.database.module(where.schema, where.name) is not None:
            raise not_supported("changing rows through a view")
        if where.schema.casefold() in {"sys", "information_schema"}:
            raise messages.error(259, line=node.line)
        raise messages.invalid_object(node.name, node.line)
    target = StoredTarget(table, where.database)
    triggers = [m for m in where.database.triggers(table.object_id) if not m.is_disabled]
    if not triggers:
        return target
    return TriggeredTarget(target, tuple(triggers), compilation.workspace)
