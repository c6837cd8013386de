"""CREATE and DROP TYPE, and the parameters that modules declare.

https://learn.microsoft.com/sql/t-sql/statements/create-type-transact-sql
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.storage.catalog_state import ModuleParameter
from tailrace_emulator.storage.model import UserType
from tailrace_emulator.storage.user_types import create_user_type, drop_user_type
from tailrace_emulator.tsql.compile.names import ObjectName, resolve_name
from tailrace_emulator.tsql.compile.user_types import find_type, no_type, resolved
from tailrace_emulator.tsql.definition.definitions import DefinitionBuilder
from tailrace_emulator.tsql.syntax.type_names import NamedType, unknown_type

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.syntax.definition_statements import (
        CreateModule,
        ProcedureParameterDefinition,
    )
    from tailrace_emulator.tsql.syntax.nodes import Name
    from tailrace_emulator.tsql.syntax.type_statements import CreateType
    from tailrace_emulator.values.types import SqlType


def create_type(context: SessionContext, node: CreateType, compilation: Compilation) -> None:
    """CREATE TYPE.

    Raises:
        SqlError: 219, 2760; 2715 and what columns raise.
    """
    where = _place(context, node.name, node.line)
    made = UserType(0, where.schema, where.name)
    if node.type is not None:
        base = node.type
        if isinstance(base, NamedType):
            raise unknown_type(base.name, node.line)
        made = replace(made, type=base, nullable=node.nullable)
    else:
        builder = DefinitionBuilder(compilation, where.name)
        parts = builder.parts(node.columns, node.constraints)
        if parts.foreign_keys:
            raise messages.syntax("FOREIGN", node.line)
        indexes = tuple(replace(i, index_id=n) for n, i in enumerate(parts.indexes, 1))
        made = replace(made, columns=tuple(parts.columns), indexes=indexes, text=node.text)
    create_user_type(context.store, where.database, made)


def _place(context: SessionContext, name: Name, line: int) -> ObjectName:
    """Where a type is created: in the current database only."""
    if len(name) > 2:
        raise messages.error(117, "type", messages.dotted(name), 1, line=line)
    return resolve_name(context, name, line)


def drop_type(context: SessionContext, name: Name, line: int) -> None:
    """DROP TYPE.

    Raises:
        SqlError: 218 there is none, 3732 something uses it.
    """
    where = _place(context, name, line)
    database = where.database
    found = database.user_type(where.schema, where.name)
    if found is None:
        raise no_type(messages.dotted(name))
    user = _user_of(database, found)
    if user is not None:
        raise messages.error(3732, messages.dotted(name), user)
    drop_user_type(context.store, database, found)


def _user_of(database: Database, found: UserType) -> str | None:
    """The name of a table, module or table type that uses a type."""
    wanted = found.user_type_id
    for table in database.tables():
        if any(column.user_type_id == wanted for column in table.columns):
            return table.name
    for other in database.state.user_types.values():
        if any(column.user_type_id == wanted for column in other.columns):
            return other.name
    for module in database.modules.values():
        parameters = database.state.parameters.get(module.object_id, ())
        if any(parameter.user_type_id == wanted for parameter in parameters):
            return module.name
    return None


def module_parameters(database: Database, node: CreateModule) -> list[ModuleParameter]:
    """What the catalog keeps of a module's parameters, checked.

    Raises:
        SqlError: 2715 unknown type; 352 a table type without READONLY, 346 READONLY without one.
    """
    made: list[ModuleParameter] = []
    if node.returns is not None:
        made.append(_parameter(database, "", node.returns, 1))
    for number, parameter in enumerate(node.parameters, 1):
        kept = _parameter(database, parameter.name, parameter.type, number)
        _check_readonly(parameter, is_table=kept.type is None)
        made.append(replace(kept, is_output=parameter.output, is_readonly=parameter.readonly))
    return made


def _parameter(database: Database, name: str, declared: SqlType, ordinal: int) -> ModuleParameter:
    sql_type = resolved(database, declared, ordinal)
    used = find_type(database, declared.parts) if isinstance(declared, NamedType) else None
    is_table = isinstance(sql_type, NamedType)
    return ModuleParameter(
        name, None if is_table else sql_type, used.user_type_id if used is not None else 0
    )


def _check_readonly(parameter: ProcedureParameterDefinition, *, is_table: bool) -> None:
    """Table types are READONLY, and nothing else is."""
    if is_table and not parameter.readonly:
        raise messages.error(352, parameter.name)
    if parameter.readonly and not is_table:
        raise messages.error(346, parameter.name)
