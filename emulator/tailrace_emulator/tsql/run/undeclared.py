"""Types of parameters that a text uses without declaring them (sp_describe_undeclared_parameters).

Compiling a text with its parameters as typeless NULLs lets every rule of typing adapt them; where
one does, it reports which type it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.catalog.procedures import find_procedure
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile.change import ChangeCompiler
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.guard import Described, Guard
from tailrace_emulator.tsql.compile.insert import InsertCompiler
from tailrace_emulator.tsql.compile.merge import MergeCompiler
from tailrace_emulator.tsql.compile.names import module_name
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.user_types import scalar_type, with_types
from tailrace_emulator.tsql.compile.values import Constant, Value
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.nodes import Name, Variable
from tailrace_emulator.tsql.syntax.parser import parse_batch, parse_module
from tailrace_emulator.tsql.syntax.statements import (
    Declare,
    Delete,
    Execute,
    Insert,
    Merge,
    QueryStatement,
    Statement,
    Update,
)
from tailrace_emulator.values.types import INT, SqlType, nvarchar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.workspace import Workspace


class _Inference(Compilation):
    """A compilation whose undeclared variables take the type of their surroundings."""

    def __init__(self, context: SessionContext, workspace: Workspace, frame: Frame) -> None:
        super().__init__(context, workspace, frame)
        self.found: dict[str, SqlType] = {}

    def variable(self, name: str) -> Value:
        """See :class:`Compilation`."""
        if name.casefold() in self.frame.types:
            return super().variable(name)

        def learn(sql_type: SqlType) -> None:
            self.found.setdefault(name.casefold(), sql_type)

        return Value("NULL", INT, constant=Constant(None), learn=learn, literal=True)


def undeclared_parameters(
    context: SessionContext,
    workspace: Workspace,
    sql: str,
    declared: Sequence[tuple[str, SqlType]] = (),
) -> list[tuple[str, SqlType]]:
    """(name, type) in order of appearance, without those that are ``declared``.

    A parameter that nothing types is nvarchar(4000). The last answer is kept: the ODBC driver
    queries again for every NULL among a statement's values, which may be hundreds.
    """
    question = (sql, tuple(declared), context.database, context.security.identity)
    last = workspace.undeclared
    if (
        last is None
        or last.question != question
        or not last.guard.holds(Frame(), workspace.local_version)
    ):
        databases = [(known, known.version) for known in context.engine.databases.values()]
        guard = Guard(databases, local_version=workspace.local_version)
        try:
            found: list[tuple[str, SqlType]] | SqlError = _infer(context, workspace, sql, declared)
        except SqlError as error:
            found = error
        last = workspace.undeclared = Described(question, guard, found)
    if isinstance(last.found, SqlError):
        raise last.found.with_traceback(None)
    return last.found


def _infer(
    context: SessionContext,
    workspace: Workspace,
    sql: str,
    declared: Sequence[tuple[str, SqlType]],
) -> list[tuple[str, SqlType]]:
    """The answer, built again."""
    statements = parse_batch(sql, quoted_identifier=context.options.quoted_identifier).statements
    names = _variables(statements)
    inference = _Inference(context, workspace, Frame())
    for name, sql_type in declared:
        inference.frame.declare(name, sql_type)
    for statement in statements:
        if isinstance(statement, Declare):
            for declaration in statement.declarations:
                declared_type = scalar_type(context.database, declaration.type)
                if declared_type is not None:
                    inference.frame.declare(declaration.name, declared_type)
        _compile(inference, statement)
    return [
        (name, inference.found.get(name.casefold(), nvarchar(4000)))
        for name in names
        if name.casefold() not in inference.frame.types
    ]


def _compile(inference: _Inference, statement: Statement) -> None:
    """Compiles a statement for what it reports."""
    if isinstance(statement, Insert):
        if statement.execute is None:
            InsertCompiler(inference, statement).compile()
    elif isinstance(statement, Update):
        ChangeCompiler(inference).update(statement)
    elif isinstance(statement, Delete):
        ChangeCompiler(inference).delete(statement)
    elif isinstance(statement, Merge):
        MergeCompiler(inference, statement).compile()
    elif isinstance(statement, QueryStatement):
        QueryCompiler(inference).query(statement.query)
    elif isinstance(statement, Execute):
        _learn_arguments(inference, statement)


def _learn_arguments(inference: _Inference, statement: Execute) -> None:
    """Arguments of EXEC have the types of the procedure's parameters."""
    name = statement.procedure
    if isinstance(name, str):
        return
    declared = _parameters_of(inference.context, name, statement.line)
    by_name = {parameter.casefold(): sql_type for parameter, sql_type in declared}
    for position, argument in enumerate(statement.arguments):
        if not isinstance(argument.value, Variable):
            continue
        if argument.name:
            sql_type = by_name.get(argument.name.casefold())
        else:
            sql_type = declared[position][1] if position < len(declared) else None
        if sql_type is not None:
            inference.found.setdefault(argument.value.name.casefold(), sql_type)


def _parameters_of(context: SessionContext, name: Name, line: int) -> list[tuple[str, SqlType]]:
    """Names and types of a procedure's parameters; none of a procedure that is not there."""
    where = module_name(context, name, line)
    module = where.database.module(where.schema, where.name)
    if module is not None and module.type == "P":
        node = parse_module(module.text, module.uses_quoted_identifier)
        typed = with_types(where.database, node) if isinstance(node, CreateModule) else None
        return [(p.name, p.type) for p in typed.parameters] if typed is not None else []
    procedure = find_procedure(context, name[-2] if len(name) > 1 else None, name[-1])
    return [(p.name, p.type) for p in procedure.parameters] if procedure is not None else []


def _variables(node: Any) -> list[str]:
    """Names of the variables in a tree, each once, in order of appearance."""
    names: dict[str, str] = {}

    def walk(part: Any) -> None:
        if isinstance(part, Variable):
            names.setdefault(part.name.casefold(), part.name)
        elif isinstance(part, tuple):
            for item in part:
                walk(item)
        else:
            for kind in type(part).__mro__:
                for slot in getattr(kind, "__slots__", ()):
                    walk(getattr(part, slot))

    walk(node)
    return list(names.values())
