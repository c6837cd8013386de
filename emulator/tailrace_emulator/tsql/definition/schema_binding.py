"""WITH SCHEMABINDING: the references of views and functions, and what they keep from going.

A view or an inline function is bound by the columns that its query uses. The statements of other
functions are not compiled when they are created. They are bound by the columns of their tables
whose names occur in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.bindings import Binding, Reference
from tailrace_emulator.tsql.compile.names import resolve_name
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    ColumnName,
    CommonTable,
    FunctionTable,
    SelectItem,
    Star,
    TableName,
)
from tailrace_emulator.tsql.syntax.walk import walk

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Column, Table
    from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
    from tailrace_emulator.tsql.syntax.nodes import Name


def begin_binding(database: Database, node: CreateModule) -> Binding | None:
    """What notes the references of a view or function; None when it is not schema-bound.

    Raises:
        SqlError: 1054 for ``*`` in a select list.
    """
    if not node.is_schema_bound:
        return None
    for found in walk((node.query, node.body)):
        if isinstance(found, SelectItem) and isinstance(found.expression, Star):
            raise messages.error(1054)
    return Binding(database, node.kind.lower(), node.name)


def note_body(context: SessionContext, binding: Binding, node: CreateModule) -> None:
    """Note what the statements of a function name.

    Raises:
        SqlError: the same as :meth:`Binding.note`.
    """
    nodes = list(walk(node.body))
    common = {found.name.casefold() for found in nodes if isinstance(found, CommonTable)}
    names = {found.parts[-1].casefold() for found in nodes if isinstance(found, ColumnName)}
    for found in nodes:
        if isinstance(found, TableName):
            name = found.name
            if (len(name) == 1 and name[0].casefold() in common) or name[-1].startswith("#"):
                continue
            where = resolve_name(context, name, found.line)
            binding.note(name, where)
            table = where.database.table(where.schema, where.name)
            if table is not None:
                used = (c.column_id for c in table.columns if c.name.casefold() in names)
                binding.found.update((table.object_id, column_id) for column_id in used)
        elif isinstance(found, FunctionTable | Call) and (
            len(found.name) > 1 or isinstance(found, FunctionTable)
        ):
            where = resolve_name(context, found.name, found.line)
            if where.database.module(where.schema, where.name) is not None:
                binding.note(found.name, where)


def _users(database: Database, reference: Reference) -> Iterator[Module]:
    """The modules that a reference binds, oldest first."""
    for module in sorted(database.modules.values(), key=lambda m: m.object_id):
        if reference in database.state.bindings.get(module.object_id, ()):
            yield module


def bound_users(database: Database, table: Table, column: Column) -> list[str]:
    """The names of the schema-bound modules that use a column."""
    return [module.name for module in _users(database, (table.object_id, column.column_id))]


def refuse_bound_change(database: Database, action: str, object_id: int, name: Name) -> None:
    """Before an object is dropped or altered as a whole.

    Raises:
        SqlError: 3729 when a schema-bound view or function refers to it.
    """
    for module in _users(database, (object_id, 0)):
        raise messages.error(3729, action, messages.dotted(name), module.name)
