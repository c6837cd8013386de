"""VALUES of an INSERT: constants and variables, brought to the common type of their column.

"Table value constructor": the values of one column follow the rules of UNION ALL. Each is
converted to the type of highest precedence among them, and only then to the type of the table's
column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions import Conversion, converter
from tailrace_emulator.values.types import SqlType

if TYPE_CHECKING:
    from tailrace_emulator.tsql.syntax.nodes import Variable

DEFAULT: Final = object()
"""Stands for DEFAULT among given values."""

Cell = Callable[[Execution], Any]
"""Yields a value at execution."""

Assigner = Callable[[SqlType], Conversion | None]
"""From the type of a value to its conversion into the table's column; 206 or 257 without one."""


def united(rows: list[list[Value | None]]) -> list[list[Value | None]]:
    """Rows of VALUES in the common types of their columns; DEFAULT (None) and NULL stay.

    Raises:
        SqlError: 206 or 257 where a value does not convert to the type of the others.
    """
    types = []
    for place in range(len(rows[0])):
        values = [row[place] for row in rows]
        types.append(types_of.unite(v.type for v in values if v is not None and not v.is_null))
    return [[_as_united(v, t) for v, t in zip(row, types, strict=True)] for row in rows]


def _as_united(value: Value | None, common: SqlType) -> Value | None:
    return value if value is None or value.is_null else converted(value, common)


def constant_cell(value: Value | None, target: SqlType, assigner: Assigner) -> Cell:
    """Yields a constant, converted once if it can be.

    Args:
        value: in the common type of its column of VALUES; None for DEFAULT.
        target: the type of the table's column.
    """
    if value is None:
        return lambda _: DEFAULT
    if value.is_null:
        if value.learn is not None:
            value.learn(target)
        return lambda _: None
    conversion = assigner(value.type)
    known = value.constant.value if value.constant else None
    if conversion is None or known is None:
        return lambda _: known
    convert = conversion
    try:
        done = convert(known)
    except SqlError:
        return lambda _: convert(known)
    return lambda _: done


def variable_cell(
    node: Variable, given: Value, value: Value, target: SqlType, assigner: Assigner
) -> Cell:
    """Yields a variable's value as it is then, in the type of the table's column.

    Args:
        given: it in its own type.
        value: it in the common type of its column of VALUES.
        target: the type of the table's column.
    """
    if value.is_null:
        return constant_cell(value, target, assigner)
    name = node.name.casefold()
    convert = _in_turn(converter(given.type, value.type), assigner(value.type))
    if convert is None:
        return lambda execution: execution.frame.values[name]
    conversion = convert

    def read(execution: Execution) -> Any:
        value = execution.frame.values[name]
        return None if value is None else conversion(value)

    return read


def _in_turn(first: Conversion | None, second: Conversion | None) -> Conversion | None:
    """Two conversions as one."""
    if first is None or second is None:
        return first or second
    one, other = first, second
    return lambda value: other(one(value))
