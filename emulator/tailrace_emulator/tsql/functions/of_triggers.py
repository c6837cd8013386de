"""Functions of triggers: COLUMNS_UPDATED(), TRIGGER_NESTLEVEL(). UPDATE(column) is a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.plan import Execution, Slot
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.values.types import INT, StorageValue, varbinary

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.workspace import Workspace

_COLUMNS_UPDATED = varbinary(128)
"""1,024 columns, a bit each."""


@builtin("COLUMNS_UPDATED", 0)
def _columns_updated(compiler: Expressions, _: list[Value]) -> Value:
    def read(execution: Execution) -> StorageValue:
        firing = execution.frame.trigger
        return None if firing is None else firing.columns_updated()

    return Value(compiler.compilation.slot(("columns_updated",), read), _COLUMNS_UPDATED)


@builtin("TRIGGER_NESTLEVEL", 0, 3)
def _trigger_nest_level(compiler: Expressions, given: list[Value]) -> Value:
    """Without arguments, of all triggers; else of one, or of its kind and category."""

    def literal(position: int) -> StorageValue:
        value = given[position].constant if len(given) > position else None
        return value.value if value is not None else None

    kind, category = str(literal(1) or "").upper(), str(literal(2) or "DML").upper()
    if kind not in {"", "AFTER", "IOT"} or category not in {"DML", "DDL"}:
        raise messages.error(195, kind or category, "option of trigger_nestlevel")

    def count(workspace: Workspace, object_id: StorageValue) -> int:
        return sum(
            (not object_id or trigger.object_id == object_id)
            and kind in {"", "IOT" if trigger.is_instead_of else "AFTER"}
            and category == "DML"
            for trigger in workspace.triggers
        )

    if not given:
        read: Slot = lambda execution: count(execution.workspace, None)  # noqa: E731
        return Value(compiler.compilation.slot(("trigger_nestlevel",), read), INT)
    workspace = compiler.compilation.workspace
    key = ("trigger_nestlevel", kind, category)
    number = workspace.own_function(key, lambda object_id: count(workspace, object_id))
    return Value(f"t_own({number}, {given[0].sql})", INT)
