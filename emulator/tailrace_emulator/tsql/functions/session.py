"""Functions and @@globals of the running batch, and the way to the catalog's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog import functions as catalog_functions
from tailrace_emulator.catalog.functions import ScalarFunction
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.plan import Execution, Slot
from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.user_functions import scalar_call
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions import convert
from tailrace_emulator.tsql.functions.aggregates import TAKES_DISTINCT, WINDOW_NAMES, aggregate
from tailrace_emulator.tsql.functions.registry import BUILDERS, builtin
from tailrace_emulator.tsql.syntax.nodes import Call, ColumnName, Literal, Variable
from tailrace_emulator.values.types import (
    BIGINT,
    INT,
    SMALLINT,
    SqlType,
    StorageValue,
    nvarchar,
    pack_decimal,
)

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.compilers import Expressions

_IDENTITY: Final = SqlType("numeric", precision=38)


def compile_call(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """A call of a built-in, an aggregate or a function of the catalog.

    Raises:
        SqlError: 195, 4121 or 208 for an unknown function, 174 for a wrong number of arguments.
    """
    name = node.name[-1].upper()
    if node.distinct and (len(node.name) > 1 or name not in TAKES_DISTINCT):
        raise messages.keyword_syntax("DISTINCT", node.line)
    if len(node.name) == 1:
        if name in WINDOW_NAMES:
            return aggregate(compiler, node, scope)
        entry = BUILDERS.get(name)
        if entry is not None:
            if not entry.minimum <= len(node.arguments) <= entry.maximum:
                raise messages.argument_count(node.name[0], entry.minimum)
            if entry.syntax is not None:
                return entry.syntax(compiler, node, scope)
            build = known(entry.values, "builder of a function")
            return build(compiler, [compiler.value(a, scope) for a in node.arguments])
    return _catalog_call(compiler, node, scope)


def _catalog_call(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """A function of the catalog: OBJECT_ID, SESSION_CONTEXT..."""
    schema = node.name[-2] if len(node.name) > 1 else None
    function = catalog_functions.scalar_function(
        compiler.compilation.context, schema, node.name[-1]
    )
    if function is None:
        own = scalar_call(compiler, node, scope)
        if own is None:
            scope.refuse_member(node.name, node.line, "method")
            raise messages.not_a_function(node.name, node.line)
        return own
    database = None
    if len(node.name) == 3:
        database = compiler.compilation.context.engine.databases.get(node.name[0].casefold())
        if database is None:
            raise messages.not_a_function(node.name, node.line)
    if len(node.arguments) > len(function.parameters):
        raise messages.error(8144, node.name[-1], aborts=Aborts.SCOPE)
    if len(node.arguments) < function.required:
        raise messages.error(313, f"{node.name[-1]} ... ")
    arguments = [compiler.value(a, scope) for a in node.arguments]
    if all(isinstance(a, Literal | Variable) for a in node.arguments):
        # Known before the statement runs: called once, outside of SQLite.
        slot = _constant_call(function, database, node, arguments)
        return Value(compiler.compilation.slot(("call", node), slot), function.returns)
    texts = [
        converted(value, parameter, explicit=True).sql
        for value, parameter in zip(arguments, function.parameters, strict=False)
    ]
    key = compiler.compilation.workspace.catalog_function(function, database)
    return Value(f"t_own({', '.join([str(key), *texts])})", function.returns)


def _constant_call(
    function: ScalarFunction, database: Database | None, node: Call, values: Sequence[Value]
) -> Slot:
    """A call whose arguments are constants and variables, evaluated when parameters are bound."""
    readers: list[Callable[[Execution], StorageValue]] = []
    for argument, value, parameter in zip(
        node.arguments, values, function.parameters, strict=False
    ):
        readers.append(_reader(argument, value, parameter))

    def call(execution: Execution) -> StorageValue:
        context = execution.context
        if database is not None and database is not context.database:
            context = replace(context, database=database)
        return function.call(context, *(read(execution) for read in readers))

    return call


def _reader(argument: Any, value: Value, parameter: SqlType) -> Callable[[Execution], StorageValue]:
    """Yields one argument, converted."""
    if isinstance(argument, Variable):
        name = argument.name.casefold()

        def read(execution: Execution) -> StorageValue:
            known: StorageValue = convert(
                execution.frame.values[name], execution.frame.types[name], parameter
            )
            return known

        return read
    constant: StorageValue = (
        None if value.is_null else convert(argument.value, value.type, parameter)
    )
    return lambda _: constant


# @@globals --------------------------------------------------------------------------------------


def compile_global(compiler: Expressions, name: str) -> Value:
    """An @@ variable.

    Raises:
        SqlError: 137 when there is none of that name.
    """
    folded = name.casefold()
    own = _OWN_GLOBALS.get(folded)
    if own is not None:
        sql_type, slot = own
        return Value(compiler.compilation.slot(("global", folded), slot), sql_type)
    found = catalog_functions.global_variable(compiler.compilation.context, name)
    if found is None:
        raise messages.undeclared_variable(name)

    def value(execution: Execution) -> StorageValue:
        known = catalog_functions.global_variable(execution.context, name)
        return None if known is None else known[1]

    return Value(compiler.compilation.slot(("global", folded), value), found[0])


_OWN_GLOBALS: Final[dict[str, tuple[SqlType, Slot]]] = {
    "@@nestlevel": (INT, lambda execution: execution.frame.depth),
    "@@fetch_status": (INT, lambda execution: execution.frame.fetch_status),
    "@@procid": (INT, lambda execution: execution.frame.module_id),
    "@@dbts": (
        SqlType("varbinary", length=8),
        lambda execution: execution.context.engine.row_versions.current(
            execution.context.database.database_id
        ).to_bytes(8, "big"),
    ),
}


# Functions of the running batch -----------------------------------------------------------------


def _of_execution(name: str, sql_type: SqlType, slot: Slot) -> None:
    """Registers a function without arguments that reads the execution."""

    @builtin(name, 0)
    def build(compiler: Expressions, _: list[Value]) -> Value:
        return Value(compiler.compilation.slot(("function", name), slot), sql_type)


def _handled(read: Callable[[SqlError], StorageValue]) -> Slot:
    """Reads the error that the innermost CATCH block handles."""

    def value(execution: Execution) -> StorageValue:
        errors = execution.frame.handled
        return read(errors[-1]) if errors else None

    return value


def _scope_identity(execution: Execution) -> StorageValue:
    value = execution.context.scope_identity
    return pack_decimal(value, _IDENTITY) if isinstance(value, int) else None


def _transaction_state(execution: Execution) -> StorageValue:
    if execution.context.store.trancount == 0:
        return 0
    return -1 if execution.workspace.doomed else 1


_of_execution("ERROR_NUMBER", INT, _handled(lambda error: error.number))
_of_execution("ERROR_MESSAGE", nvarchar(4000), _handled(lambda error: error.message))
_of_execution("ERROR_SEVERITY", INT, _handled(lambda error: error.severity))
_of_execution("ERROR_STATE", INT, _handled(lambda error: error.state))
_of_execution("ERROR_LINE", INT, _handled(lambda error: error.line))
_of_execution("ERROR_PROCEDURE", nvarchar(128), _handled(lambda error: error.procedure or None))
_of_execution("SCOPE_IDENTITY", _IDENTITY, _scope_identity)
_of_execution("XACT_STATE", SMALLINT, _transaction_state)
_of_execution("ROWCOUNT_BIG", BIGINT, lambda execution: execution.context.rowcount)

__all__ = ["ColumnName", "compile_call", "compile_global"]
