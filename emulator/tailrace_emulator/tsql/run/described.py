"""What a text would return, and which parameters it leaves undeclared: compiled, not run.

Drivers ask by the procedures sp_describe_first_result_set and sp_describe_undeclared_parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.user_types import resolved, scalar_type
from tailrace_emulator.tsql.run.describing import describe_parameters, describe_result
from tailrace_emulator.tsql.run.undeclared import undeclared_parameters
from tailrace_emulator.tsql.syntax.parser import parse_batch, parse_declarations
from tailrace_emulator.tsql.syntax.statements import Declare, QueryStatement

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.planner import Planner
    from tailrace_emulator.values.results import ColumnMeta, Event


def _first_result_columns(planner: Planner, text: str, frame: Frame) -> tuple[ColumnMeta, ...]:
    """Columns of a text's first result; none when it yields no result.

    Args:
        frame: holds the text's parameters; receives its variables.

    Raises:
        SqlError: the text does not compile.
    """
    for statement in parse_batch(
        text, quoted_identifier=planner.context.options.quoted_identifier
    ).statements:
        if isinstance(statement, Declare):
            for declared in statement.declarations:
                sql_type = scalar_type(planner.context.database, declared.type)
                if sql_type is not None:
                    frame.declare(declared.name, sql_type)
        elif isinstance(statement, QueryStatement) and statement.query.into is None:
            return planner.select(statement, statement.query, frame).columns
    return ()


def describe_first_result_set(planner: Planner, text: str, parameters: str) -> Iterator[Event]:
    """The events of sp_describe_first_result_set.

    Args:
        parameters: declarations of its parameters, or empty.

    Raises:
        SqlError: the text does not compile.
    """
    frame = Frame()
    for declaration in parse_declarations(parameters):
        sql_type = scalar_type(planner.context.database, declaration.type)
        if sql_type is not None:
            frame.declare(declaration.name, sql_type)
    yield from describe_result(_first_result_columns(planner, text, frame))


def describe_undeclared_parameters(planner: Planner, text: str, known: str) -> Iterator[Event]:
    """The events of sp_describe_undeclared_parameters.

    Args:
        known: declarations of the parameters that are not asked for, or empty.

    Raises:
        SqlError: the text does not compile.
    """
    database = planner.context.database
    declared = [(d.name, resolved(database, d.type)) for d in parse_declarations(known)]
    found = undeclared_parameters(planner.context, planner.workspace, text, declared)
    yield from describe_parameters(found, database)
