"""SET FMTONLY ON: the columns of every result, and nothing is done; SET NOEXEC ON: not even they.

Drivers ask so for the columns of a table or a text. Every branch of IF is gone through, and the
body of WHILE once.

https://learn.microsoft.com/sql/t-sql/statements/set-fmtonly-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.user_types import scalar_type
from tailrace_emulator.tsql.syntax.nodes import Select
from tailrace_emulator.tsql.syntax.statements import (
    Block,
    Declare,
    Execute,
    ExecuteString,
    If,
    QueryStatement,
    SetOption,
    Statement,
    TryCatch,
    Use,
    While,
)
from tailrace_emulator.values.results import Event, ResultSet, StatementDone

if TYPE_CHECKING:
    from tailrace_emulator.catalog.set_options import SetOptions
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.planner import Planner


_DEFERRED: Final = frozenset({208, 1087})
"""Names of tables, which are looked for when a statement is run."""


def is_formatted(node: Statement, options: SetOptions) -> bool:
    """Whether a statement is looked at instead of run; SET and USE are run, NOEXEC's but NOEXEC."""
    if options.noexec:
        return not isinstance(node, Block) and not (
            isinstance(node, SetOption) and "NOEXEC" in node.options
        )
    return not isinstance(node, SetOption | Use | Block)


def format_only(planner: Planner, node: Statement, frame: Frame) -> Iterator[Event]:
    """What a statement yields under SET FMTONLY ON, or nothing under SET NOEXEC ON.

    Raises:
        SqlError: a query does not compile; 50900 for EXECUTE under FMTONLY.
    """
    if planner.context.options.noexec:
        _compile_only(planner, node, frame)
        return
    if isinstance(node, QueryStatement):
        if not _yields_nothing(node):
            yield ResultSet(planner.select(node, node.query, frame).columns)
            yield StatementDone("select", 0)
    elif isinstance(node, Declare):
        _declare(node, frame, planner.context.database)
    elif isinstance(node, Block):
        for statement in node.statements:
            yield from format_only(planner, statement, frame)
    elif isinstance(node, If):
        yield from format_only(planner, node.then, frame)
        if node.otherwise is not None:
            yield from format_only(planner, node.otherwise, frame)
    elif isinstance(node, While):
        yield from format_only(planner, node.body, frame)
    elif isinstance(node, Execute | ExecuteString):
        raise not_supported("EXECUTE under SET FMTONLY ON")
    elif isinstance(node, TryCatch):
        raise not_supported("TRY under SET FMTONLY ON")


def _compile_only(planner: Planner, node: Statement, frame: Frame) -> None:
    """Looks for errors in queries, as far as what they name exists."""
    if isinstance(node, QueryStatement) and not _yields_nothing(node):
        try:
            planner.select(node, node.query, frame)
        except SqlError as error:
            if error.number not in _DEFERRED:
                raise
    elif isinstance(node, Declare):
        for declaration in node.declarations:
            sql_type = scalar_type(planner.context.database, declaration.type)
            if sql_type is not None:
                frame.declare(declaration.name, sql_type)
    elif isinstance(node, If):
        _compile_only(planner, node.then, frame)
        if node.otherwise is not None:
            _compile_only(planner, node.otherwise, frame)
    elif isinstance(node, While):
        _compile_only(planner, node.body, frame)
    elif isinstance(node, Block):
        for statement in node.statements:
            _compile_only(planner, statement, frame)


def _yields_nothing(node: QueryStatement) -> bool:
    """Whether a SELECT fills a table or variables."""
    body = node.query.body
    return node.query.into is not None or (
        isinstance(body, Select) and any(item.variable for item in body.items)
    )


def _declare(node: Declare, frame: Frame, database: Database) -> None:
    """Variables of no value, for the statements that name them."""
    for declaration in node.declarations:
        sql_type = scalar_type(database, declaration.type)
        if sql_type is None:
            raise not_supported("table variables under SET FMTONLY ON")
        frame.declare(declaration.name, sql_type)
