"""SET FMTONLY ON: the columns of every result, and nothing is done.

Drivers ask so for the columns of a table or a text. Every branch of IF is gone through, and the
body of WHILE once.

https://learn.microsoft.com/sql/t-sql/statements/set-fmtonly-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emulator.errors import not_supported
from emulator.results import Event, ResultSet, StatementDone
from emulator.tsql.compile.user_types import scalar_type
from emulator.tsql.syntax.nodes import Select
from emulator.tsql.syntax.statements import (
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

if TYPE_CHECKING:
    from emulator.storage.engine import Database
    from emulator.tsql.compile.frames import Frame
    from emulator.tsql.compile.planner import Planner


def is_formatted(node: Statement) -> bool:
    """Whether a statement is told of instead of run; SET and USE are run."""
    return not isinstance(node, SetOption | Use | Block)


def format_only(planner: Planner, node: Statement, frame: Frame) -> Iterator[Event]:
    """What a statement yields under SET FMTONLY ON.

    Raises:
        SqlError: a query does not compile; 50900 for EXECUTE.
    """
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


def _yields_nothing(node: QueryStatement) -> bool:
    """Whether a SELECT fills a table or variables."""
    body = node.query.body
    return isinstance(body, Select) and (
        body.into is not None or any(item.variable for item in body.items)
    )


def _declare(node: Declare, frame: Frame, database: Database) -> None:
    """Variables of no value, for the statements that name them."""
    for declaration in node.declarations:
        sql_type = scalar_type(database, declaration.type)
        if sql_type is None:
            raise not_supported("table variables under SET FMTONLY ON")
        frame.declare(declaration.name, sql_type)
