"""The columns that a view has from its creation: what the catalog says of it.

https://learn.microsoft.com/sql/t-sql/statements/create-view-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.storage.model import Column, Identity
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.sequence_rules import not_in_subqueries
from tailrace_emulator.tsql.compile.through import is_updatable
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.nodes import Select, TableName
from tailrace_emulator.tsql.syntax.walk import walk

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation


def view_columns(compilation: Compilation, node: CreateModule) -> tuple[Column, ...]:
    """Names and types of a view's columns; of an identity column that it is one, not its seed.

    Raises:
        SqlError: what the query does not compile for; 1033 ORDER BY without TOP, 8158 and 8159 for
            a wrong number of names, 4511 for a column without one. Also 4506 for a name given
            twice, 4508 a temporary table, 4510 WITH CHECK OPTION of a view through which nothing
            can be changed.
    """
    query = known(node.query, "query of a view")
    body = query.body
    if any(isinstance(found, TableName) and found.name[-1][:1] == "#" for found in walk(query)):
        raise messages.error(4508, line=node.line)
    limited = query.offset is not None or (isinstance(body, Select) and body.top is not None)
    if query.order_by and not limited:
        raise messages.error(1033, line=node.line)
    values = QueryCompiler(compilation).query(query).columns
    if compilation.sequences:
        raise not_in_subqueries(node.line)
    if node.has_check_option and not (isinstance(body, Select) and is_updatable(body)):
        raise messages.error(4510, line=node.line)
    names = node.column_names or tuple(value.name for value in values)
    if len(names) != len(values):
        more = len(values) > len(names)
        raise messages.error(8158 if more else 8159, node.name[-1], line=node.line)
    seen: set[str] = set()
    columns = []
    for number, (name, value) in enumerate(zip(names, values, strict=True), 1):
        if not name:
            raise messages.error(4511, number, line=node.line)
        if name.casefold() in seen:
            raise messages.error(4506, name, node.name[-1], line=node.line)
        seen.add(name.casefold())
        identity = Identity() if value.identity else None
        columns.append(Column(number, name, value.type, value.nullable, identity))
    return tuple(columns)
