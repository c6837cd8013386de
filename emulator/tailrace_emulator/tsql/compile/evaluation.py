"""Values that are needed before their statement runs: arguments of table functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation

_SLOT: Final = re.compile(r"\?(\d+)")


def argument_reader(
    compilation: Compilation, values: list[Value]
) -> Callable[[Execution], tuple[StorageValue, ...]]:
    """Evaluates compiled scalars by themselves, with the parameters of their statement.

    Args:
        values: without columns; subqueries are not possible here.
    """
    if all(v.constant is not None for v in values):
        known = tuple(v.constant.value for v in values if v.constant is not None)
        return lambda _: known
    text = compilation.finished("SELECT " + ", ".join(v.sql for v in values))
    if "\x01" in text:
        raise not_supported("a subquery as the argument of a table function")
    used = max((int(n) for n in _SLOT.findall(text)), default=0)

    def read(execution: Execution) -> tuple[StorageValue, ...]:
        connection = execution.workspace.connection
        (row,) = connection.execute(text, execution.bindings[:used]).fetchall()
        return tuple(row)

    return read
