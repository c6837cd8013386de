"""Arguments of procedures: given by position or name, in the types of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.tsql.conversions import convert
from tailrace_emulator.values.results import Parameter, TableRows
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.local_tables import LocalTable


@dataclass(frozen=True, slots=True)
class Given:
    """An argument as passed: its value and type, or its table; ``is_default`` for DEFAULT."""

    name: str
    type: SqlType
    value: StorageValue
    output: bool = False
    is_default: bool = False
    table: LocalTable | TableRows | None = None


def bind_arguments(
    procedure: str, declared: Sequence[tuple[str, SqlType]], given: Sequence[Given]
) -> dict[str, Given]:
    """Arguments by casefolded parameter name.

    Raises:
        SqlError: 8144 too many, 8145 unknown name, 119 positional after named, 8143 twice.
    """
    if given and not declared and procedure != "sp_executesql":
        raise messages.error(8146, procedure, procedure=procedure)
    if len(given) > len(declared):
        raise messages.error(8144, procedure, state=2, procedure=procedure)
    names = {name.casefold(): name for name, _ in declared}
    bound: dict[str, Given] = {}
    named = False
    for position, argument in enumerate(given):
        if argument.name:
            named = True
            folded = argument.name.casefold()
            if folded not in names:
                raise messages.error(8145, argument.name, procedure, procedure=procedure)
        else:
            if named:
                raise messages.error(119, position + 1)
            folded = declared[position][0].casefold()
        if folded in bound:
            raise messages.error(8143, names[folded], procedure=procedure)
        bound[folded] = argument
    return bound


def convert_argument(
    argument: Given, target: SqlType, procedure: str, parameter: str
) -> StorageValue:
    """An argument in its parameter's type."""
    del procedure, parameter
    if argument.table is not None:
        raise messages.error(206, "table", target.name, state=2, aborts=Aborts.STATEMENT)
    converted: StorageValue = convert(argument.value, argument.type, target)
    return converted


def place_of(argument: Given, given: Sequence[Given]) -> int:
    """Where among those given an argument is."""
    return next(place for place, other in enumerate(given) if other is argument)


def missing_argument(procedure: str, parameter: str) -> SqlError:
    """201."""
    return messages.error(201, procedure, parameter, procedure=procedure)


def given_parameters(parameters: Sequence[Parameter]) -> list[Given]:
    """Parameters of an RPC as arguments."""
    return [Given(p.name, p.type, p.value, p.output, p.is_default, p.table) for p in parameters]
