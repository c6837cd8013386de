"""Text that runs: EXEC (text) and sp_executesql."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile.arguments import (
    Given,
    bind_arguments,
    convert_argument,
    place_of,
)
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.user_types import resolved
from tailrace_emulator.tsql.run.table_arguments import take_table
from tailrace_emulator.tsql.syntax.definition_statements import ProcedureParameterDefinition
from tailrace_emulator.tsql.syntax.parser import parse_batch, parse_declarations
from tailrace_emulator.tsql.syntax.statements import ExecuteString
from tailrace_emulator.tsql.syntax.type_names import NamedType
from tailrace_emulator.values.results import DatabaseChanged, Event, ReturnStatus, ReturnValue
from tailrace_emulator.values.types import MAX, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.run.running import TextScopes

_UNICODE: Final = frozenset({"nchar", "nvarchar", "ntext"})
_SHOWN_MAX: Final = 1000
"""Characters of a text that error 8178 shows."""


def execute_string(runner: TextScopes, node: ExecuteString, frame: Frame) -> Iterator[Event]:
    """``EXEC (text)``: it sees no variables; USE in it ends with it."""
    text = runner.interpreter.evaluate(node.text, frame, nvarchar(MAX))
    if text is None:
        return
    yield from _run_text(runner, str(text), runner.frame(frame))


def _run_text(runner: TextScopes, text: str, frame: Frame) -> Iterator[Event]:
    """A batch in a frame."""
    database = runner.context.database
    options = runner.context.options
    try:
        block = parse_batch(text, quoted_identifier=options.quoted_identifier)
    except SqlError as error:
        raise runner.reported(error, frame) from error
    try:
        yield from runner.counted(runner.run_body(block, frame), frame)
    finally:
        if runner.context.database is not database:
            old = runner.context.database
            runner.context.database = database
            yield DatabaseChanged(old.name, database.name, old.collation, database.collation)


def execute_sql(runner: TextScopes, given: Sequence[Given], caller: Frame) -> Iterator[Event]:
    """``EXEC sp_executesql @statement, @params, ..``."""
    for text, name in zip(given[:2], ("@statement", "@params"), strict=False):
        is_text = isinstance(text.value, str) and text.type.name in _UNICODE
        if not is_text and not (name == "@params" and text.value is None):
            raise _wrong_text(name)
    if not given:
        raise _wrong_text("@statement")
    declarations: tuple[ProcedureParameterDefinition, ...] = ()
    if len(given) > 1 and given[1].value is not None:
        declarations = parse_declarations(str(given[1].value))
    frame = runner.frame(caller)
    bound = bind_arguments("sp_executesql", [(d.name, d.type) for d in declarations], given[2:])
    database = runner.context.database
    declarations = tuple(
        replace(d, type=resolved(database, d.type, number))
        for number, d in enumerate(declarations, 1)
    )
    for declaration in declarations:
        argument = bound.get(declaration.name.casefold())
        if argument is None:
            raise messages.error(8178, _query_text(given), declaration.name)
        if isinstance(declaration.type, NamedType):
            named = (declaration.name, declaration.type)
            take_table(runner.interpreter, database, frame, named, argument)
            continue
        declared = declaration.type.collated(frame.collation)
        value = convert_argument(argument, declared, "sp_executesql", declaration.name)
        frame.declare(declaration.name, declared, value)
    yield from _run_text(runner, str(given[0].value), frame)
    for declaration in declarations:
        argument = bound[declaration.name.casefold()]
        if declaration.output and argument.output:
            yield ReturnValue(
                argument.name or declaration.name,
                declaration.type,
                frame.values[declaration.name.casefold()],
                place_of(argument, given),
            )
    yield ReturnStatus(0)


def _query_text(given: Sequence[Given]) -> str:
    """Declarations and text as error 8178 shows them."""
    return f"({given[1].value!s}){str(given[0].value)[:_SHOWN_MAX]}"


def _wrong_text(parameter: str) -> SqlError:
    """214."""
    return messages.error(214, parameter, "ntext/nchar/nvarchar", procedure="sp_executesql")
