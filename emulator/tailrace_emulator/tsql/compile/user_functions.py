"""Calls of users' functions, compiled.

A scalar function becomes a call of SQLite's ``t_own``. An inline one becomes its own query, with
the arguments in place of its parameters. One that fills a table variable runs before the statement
if its arguments are constants and variables. Otherwise it runs for each row of its caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.security.access import of_object
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.access import chain_of
from tailrace_emulator.tsql.compile.masks import refusing_masked
from tailrace_emulator.tsql.compile.names import base_object
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.user_types import with_types
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.syntax import literals
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.nodes import DefaultMark, Expression, Literal, Variable
from tailrace_emulator.tsql.syntax.parser import parse_module
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.compilers import Expressions, Sources
    from tailrace_emulator.tsql.compile.scope import Scope
    from tailrace_emulator.tsql.syntax.nodes import Call, FunctionTable, Name

_TABLE_TYPES: Final = frozenset({"IF", "TF"})


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of a database, with its definition."""

    database: Database
    module: Module
    node: CreateModule

    @property
    def place(self) -> tuple[Database, str, str]:
        """Where the function runner finds it."""
        return self.database, self.module.schema, self.module.name


@dataclass(frozen=True, slots=True)
class FilledTableHole:
    """The rows of a function that fills a table variable, made before the statement runs."""

    function: UserFunction
    read: object
    width: int

    def text(self, execution: Execution) -> str:
        """See :class:`tailrace_emulator.tsql.compile.plan.Hole`."""
        read = self.read
        arguments = read(execution) if callable(read) else ()
        rows = execution.workspace.functions.table(*self.function.place, arguments)
        columns = ", ".join(f"v{n}" for n in range(self.width))
        return f"(SELECT {columns} FROM {execution.rows(rows)} LIMIT -1)"


def find_function(
    compilation: Compilation, name: Name, line: int, types: frozenset[str]
) -> UserFunction | None:
    """The user's function of that name and one of those types, or None."""
    if name[-2:-1] and name[-2].casefold() == "sys":
        return None
    try:
        where = base_object(compilation.context, name, line)
    except SqlError:
        return None
    module = where.database.module(where.schema, where.name)
    if module is None or module.type not in types:
        return None
    compilation.depend_on(compilation.context.database)
    compilation.depend_on(where.database)
    if compilation.binding is not None:
        compilation.binding.note(name, where)
    permission = "EXECUTE" if module.type == "FN" else "SELECT"
    compilation.access.require(of_object(where.database, module), permission)
    statement = parse_module(module.text, module.uses_quoted_identifier)
    node = known(statement if isinstance(statement, CreateModule) else None, "function")
    return UserFunction(where.database, module, with_types(where.database, node))


def table_function_of(compilation: Compilation, node: FunctionTable) -> UserFunction | None:
    """The user's table-valued function that FROM calls, or None."""
    return find_function(compilation, node.name, node.line, _TABLE_TYPES)


def scalar_call(compiler: Expressions, node: Call, scope: Scope) -> Value | None:
    """A call of a user's scalar function; None when there is none of that name.

    Raises:
        SqlError: 313, 8144 wrong number of arguments.
    """
    if len(node.name) < 2:
        return None
    compilation = compiler.compilation
    found = find_function(compilation, node.name, node.line, frozenset({"FN"}))
    if found is None:
        return None
    values = _arguments(compiler, found, node.name, node.arguments, scope, node.line)
    workspace = compilation.workspace
    place = found.place

    def call(*given: StorageValue) -> StorageValue:
        return workspace.functions.scalar(*place, given)

    number = workspace.own_function(("scalar", *place), call)
    text = ", ".join([str(number), *(value.sql for value in values)])
    returns = known(found.node.returns, "type of a function")
    if returns.is_character and returns.collation is None:
        returns = replace(returns, collation=found.database.collation)
    return Value(f"t_own({text})", returns)


def called(
    compiler: Sources, found: UserFunction, node: FunctionTable, outside: Scope
) -> tuple[str, list[Value]]:
    """A query that yields v0, v1, .. of a table-valued function, and its columns.

    Args:
        outside: what its arguments may name: the sources before APPLY.
    """
    with refusing_masked(compiler.compilation, "arguments of a table function"):
        values = _arguments(
            compiler.expressions, found, node.name, node.arguments, outside, node.line
        )
    if found.node.query is not None:
        return _inline(compiler, found, values)
    columns = _columns(found)
    compilation = compiler.compilation
    names = ", ".join(f"v{n}" for n in range(len(columns)))
    if all(isinstance(a, Literal | Variable | DefaultMark) for a in node.arguments):
        reader = compiler.argument_reader(values) if values else None
        hole = compilation.hole(FilledTableHole(found, reader, len(columns)))
        return f"SELECT {names} FROM {hole}", columns
    workspace, place = compilation.workspace, found.place

    def call(*given: StorageValue) -> StorageValue:
        return workspace.functions.packed(*place, given)

    number = workspace.own_function(("packed", *place), call)
    text = ", ".join([str(number), *(value.sql for value in values)])
    unpacked = ", ".join(f"t_unpack(value, {n}) AS v{n}" for n in range(len(columns)))
    return f"SELECT {unpacked} FROM json_each(t_own({text}))", columns


def _inline(
    compiler: Sources, found: UserFunction, values: Sequence[Value]
) -> tuple[str, list[Value]]:
    """The query of an inline function, compiled in its own database."""
    compilation = compiler.compilation
    node = found.node
    names = [parameter.name.casefold() for parameter in node.parameters]
    if len(compilation.parameters) >= 32:
        raise messages.error(217, 32)
    access = compilation.access
    outer_chain, access.chain = access.chain, chain_of(found.database, found.module)
    compilation.parameters.append(dict(zip(names, values, strict=True)))
    binding, compilation.binding = compilation.binding, None
    try:
        query = known(node.query, "query of an inline function")
        with (
            compilation.inside(found.database),
            compilation.under(ansi_nulls=found.module.uses_ansi_nulls),
        ):
            return compiler.queries.elsewhere(query)
    finally:
        compilation.parameters.pop()
        compilation.binding = binding
        access.chain = outer_chain


def _columns(found: UserFunction) -> list[Value]:
    """The columns of the table variable that a function fills."""
    columns = found.database.state.columns.get(found.module.object_id, ())
    return [Value("NULL", column.type, column.nullable, name=column.name) for column in columns]


def _arguments(
    compiler: Expressions,
    found: UserFunction,
    name: Name,
    given: Sequence[Expression],
    scope: Scope,
    line: int,
) -> list[Value]:
    """Arguments in the types of their parameters.

    Raises:
        SqlError: 313 too few, or DEFAULT where there is none; 8144 too many.
    """
    parameters = found.node.parameters
    shown = messages.dotted(name)
    if len(given) > len(parameters):
        raise messages.error(8144, shown, line=line, aborts=Aborts.SCOPE)
    if len(given) < len(parameters):
        raise messages.error(313, shown, line=line)
    values = []
    for argument, parameter in zip(given, parameters, strict=True):
        if isinstance(argument, DefaultMark):
            argument = parameter.default or literals.NULL  # noqa: PLW2901
        value = compiler.value(argument, scope)
        explicit = value.type.is_character and parameter.type.is_character
        target = parameter.type
        if target.is_character and target.collation is None:
            target = replace(target, collation=found.database.collation)
        values.append(converted(value, target, explicit=explicit))
    return values
