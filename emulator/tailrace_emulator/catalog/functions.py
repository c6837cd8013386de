"""The catalog's functions by name: scalar functions, table functions and @@globals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.catalog import (
    object_functions,
    principal_functions,
    session_functions,
    session_options,
    session_state,
    system_table_functions,
    text_pointers,
)
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.permission_table_functions import PERMISSION_FUNCTIONS
from tailrace_emulator.catalog.scalar_registry import SCALARS, ScalarFunction
from tailrace_emulator.catalog.session_functions import global_variable
from tailrace_emulator.catalog.system_routines import register_routine
from tailrace_emulator.catalog.table_functions import TableFunction, TableSource

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

__all__ = [
    "ScalarFunction",
    "TableFunction",
    "TableSource",
    "global_variable",
    "scalar_function",
    "table_function",
]

_DECLARING_MODULES = (
    object_functions,
    principal_functions,
    session_functions,
    session_options,
    session_state,
    system_table_functions,
    text_pointers,
)
"""Importing them registers their functions."""

_MULTI_STATEMENT = frozenset({"fn_helpcollations", "fn_listextendedproperty"})
"""Table functions of type TF; the others are inline (IF)."""

for _function in (*PERMISSION_FUNCTIONS.values(), *system_table_functions.FUNCTIONS.values()):
    register_routine(_function.name, "TF" if _function.name in _MULTI_STATEMENT else "IF")


def scalar_function(
    context: SessionContext, schema: str | None, name: str
) -> ScalarFunction | None:
    """The scalar function of that name, or None.

    Args:
        context: the session that calls it.
        schema: as written before the name; None or empty for a built-in. Functions of schema
            sys must be called with it, as in SQL Server.
    """
    key = (schema or "").casefold(), name.casefold()
    return SCALARS.get(key) or extension(context.engine).declared.functions.by_name.get(key)


def table_function(
    context: SessionContext, database: Database, schema: str, name: str
) -> TableFunction | None:
    """The table-valued function of that name in a database, or None."""
    if schema.casefold() in context.engine.extension.schemas:
        return extension(context.engine).table_function(context, database, schema, name)
    if schema.casefold() in {"sys", "dbo"}:
        folded = name.casefold()
        return PERMISSION_FUNCTIONS.get(folded) or system_table_functions.FUNCTIONS.get(folded)
    return None
