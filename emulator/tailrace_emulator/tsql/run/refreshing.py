"""sp_refreshview and sp_refreshsqlmodule: what the catalog says of a module is read again.

A view keeps the columns that it had when it was created. After a change of what it reads, these
procedures let the catalog show those that it has now.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-refreshview-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-refreshsqlmodule-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    Procedure,
    ProcedureParameter,
    text,
)
from tailrace_emulator.catalog.system_routines import register_routine
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.security.access import of_object
from tailrace_emulator.storage.object_details import put_columns
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.names import resolve_name
from tailrace_emulator.tsql.compile.user_types import with_types
from tailrace_emulator.tsql.definition.options import options_of, put_options
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.parser import parse_module
from tailrace_emulator.values.types import nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.tsql.definition.ddl import Definer
    from tailrace_emulator.values.results import Event

_NAME: Final = nvarchar(776)
_P = ProcedureParameter
_PARAMETERS: Final = {
    "sp_refreshview": (_P("@viewname", _NAME),),
    "sp_refreshsqlmodule": (_P("@name", _NAME), _P("@namespace", nvarchar(20), "OBJECT")),
}
for _name in _PARAMETERS:
    register_routine(_name, "P")


def refreshing(definer: Definer, name: str) -> Procedure | None:
    """The procedure of that casefolded name, None when it is another one."""
    parameters = _PARAMETERS.get(name)
    if parameters is None:
        return None
    return Procedure("sys", name, parameters, partial(_refresh, definer, name))


def _refresh(
    definer: Definer, procedure: str, context: SessionContext, args: Arguments
) -> Iterator[Event]:
    """Run one of the two.

    Raises:
        SqlError: 15165 no such module, or no ALTER on it; 15250 of another database; what the
            module does not compile for.
    """
    yield from ()
    only_views = procedure == "sp_refreshview"
    name = text(args["@viewname" if only_views else "@name"]) or ""
    namespace = "OBJECT" if only_views else (text(args["@namespace"]) or "").strip().upper()
    if namespace != "OBJECT":
        raise not_supported(f"sp_refreshsqlmodule of a {namespace}")
    module = _module(context, name)
    if module is None or (only_views and module.type != "V"):
        raise messages.error(15165, name)
    database, options = context.database, context.options
    put_options(context, options_of(options, module))
    try:
        node = parse_module(module.text, module.uses_quoted_identifier)
        if isinstance(node, CreateModule) and node.kind != "TRIGGER":
            columns = definer.module_columns(with_types(database, node), Frame(), None)
            if columns:
                put_columns(context.store, database, module.object_id, columns)
    finally:
        put_options(context, options)


def _module(context: SessionContext, name: str) -> Module | None:
    """The module of that name in the current database, if the session may alter it."""
    parts = split_name(name)
    if parts is None:
        return None
    database = context.database
    if parts.database and parts.database.casefold() != database.name.casefold():
        raise messages.error(15250)
    where = resolve_name(context, tuple(p for p in (parts.schema, parts.name) if p), 1)
    module = database.module(where.schema, where.name)
    if module is None or not context.security.has(of_object(database, module), "ALTER"):
        return None
    return module
