"""What the body of a function may not do: nothing that anyone outside of it would see.

https://learn.microsoft.com/sql/t-sql/statements/create-function-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    Join,
    Node,
    Select,
    Source,
    TableName,
    VariableTable,
)
from tailrace_emulator.tsql.syntax.statements import (
    Block,
    CursorStatement,
    Declare,
    Delete,
    Execute,
    ExecuteString,
    If,
    Insert,
    Jump,
    Merge,
    Print,
    QueryStatement,
    RaiseError,
    Return,
    SetOption,
    SetVariable,
    Statement,
    Throw,
    Transaction,
    TryCatch,
    Update,
    WaitFor,
    While,
)

_CHANGES: Final[dict[type, str]] = {
    Insert: "INSERT",
    Update: "UPDATE",
    Delete: "DELETE",
    Merge: "MERGE",
}
_SIDE_EFFECTS: Final[dict[type, str]] = {
    Print: "PRINT",
    RaiseError: "RAISERROR",
    Throw: "THROW",
    TryCatch: "BEGIN TRY",
    ExecuteString: "EXECUTE STRING",
    Execute: "EXECUTE",
    SetOption: "SET OPTION ON",
    WaitFor: "WAITFOR",
}
_CHANGING_FUNCTIONS: Final = frozenset({"NEWID", "RAND", "NEWSEQUENTIALID"})
_ALLOWED: Final = (
    Block, CursorStatement, Declare, If, Jump, QueryStatement, Return, SetVariable, While,
)  # fmt: skip


def function_type(node: CreateModule) -> str:
    """The type letters of sys.objects: FN, IF or TF."""
    if node.query is not None:
        return "IF"
    return "FN" if node.returns is not None else "TF"


def refuse_side_effects(node: CreateModule) -> None:
    """Checks a function when it is created.

    Raises:
        SqlError: 443 for a side effect, 444 for a result set, 455 without RETURN at the end.
    """
    body = node.body
    if body is None:
        return
    for statement in _statements(body):
        _refuse(statement)
    if not isinstance(_last(body), Return):
        raise messages.error(455, line=body.line)


def _last(statement: Statement) -> Statement:
    """The statement that ends a body."""
    while isinstance(statement, Block):
        statement = statement.statements[-1]
    return statement


def _statements(statement: Statement) -> Iterator[Statement]:
    """A statement and those in it."""
    yield statement
    inner: list[Statement] = []
    if isinstance(statement, Block):
        inner = list(statement.statements)
    elif isinstance(statement, If):
        inner = [statement.then, *([statement.otherwise] if statement.otherwise else [])]
    elif isinstance(statement, While):
        inner = [statement.body]
    for item in inner:
        yield from _statements(item)


def _refuse(statement: Statement) -> None:
    """One statement."""
    change = _CHANGES.get(type(statement))
    if change is not None:
        if not _is_local(statement):
            raise _side_effect(change, statement)
    elif isinstance(statement, Transaction):
        raise _side_effect(f"{statement.action} TRANSACTION", statement)
    elif isinstance(statement, QueryStatement):
        body = statement.query.body
        if not isinstance(body, Select) or not all(item.variable for item in body.items):
            raise messages.error(444, line=statement.line)
    elif not isinstance(statement, _ALLOWED):
        name = _SIDE_EFFECTS.get(type(statement), type(statement).__name__.upper())
        raise _side_effect(name, statement)
    if not isinstance(statement, Block | If | While):
        for name in _called(statement):
            if name.upper() in _CHANGING_FUNCTIONS:
                raise _side_effect(name.lower(), statement)


def _is_local(statement: Any) -> bool:
    """Whether a data statement changes a table variable."""
    target = statement.target
    if isinstance(target, VariableTable):
        return getattr(statement, "execute", None) is None
    source = getattr(statement, "source", None)
    if source is None or not isinstance(target, TableName):
        return False
    alias = target.name[-1].casefold()
    return any((table.alias or "").casefold() == alias for table in _variable_tables(source))


def _variable_tables(source: Source) -> Iterator[VariableTable]:
    """Table variables in FROM."""
    if isinstance(source, Join):
        yield from _variable_tables(source.left)
        yield from _variable_tables(source.right)
    elif isinstance(source, VariableTable):
        yield source


def _called(node: Any) -> Iterator[str]:
    """Names of built-in functions in a tree."""
    if isinstance(node, Call) and len(node.name) == 1:
        yield node.name[0]
    if isinstance(node, tuple):
        for item in node:
            yield from _called(item)
    elif isinstance(node, Node):
        for kind in type(node).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                yield from _called(getattr(node, slot))


def _side_effect(name: str, statement: Statement) -> SqlError:
    """443."""
    return messages.error(443, name, line=statement.line)
