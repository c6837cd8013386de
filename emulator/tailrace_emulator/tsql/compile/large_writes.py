"""``UPDATE .. SET column.WRITE(expression, @Offset, @Length)``.

Documented: varchar(max), nvarchar(max), varbinary(max). Offset NULL appends, and a NULL expression
cuts the value off at the offset. A length that goes beyond the end goes to the end. A NULL column
has nothing to write into. What is added counts for max text repl size, not what was there.

https://learn.microsoft.com/sql/t-sql/queries/update-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import NOT_SUPPORTED, SqlError
from tailrace_emulator.tsql.compile.targets import StoredTarget, Target
from tailrace_emulator.tsql.compile.triggered_target import TriggeredTarget
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.syntax.nodes import Call, Expression
from tailrace_emulator.tsql.syntax.text_statements import WRITE
from tailrace_emulator.values.types import BIGINT, MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace_emulator.storage.model import Column
    from tailrace_emulator.tsql.compile.expressions import ExpressionCompiler
    from tailrace_emulator.tsql.compile.scope import Scope


def is_write(node: Expression) -> bool:
    """Whether an assigned value is .WRITE()."""
    return isinstance(node, Call) and node.name == (WRITE,)


def partly_written(target: Target, positions: Iterable[int]) -> None:
    """Columns of which only what is added counts for max text repl size."""
    stored = target.stored if isinstance(target, TriggeredTarget) else target
    if isinstance(stored, StoredTarget):
        stored.written.update(positions)


def columns_set(target: Target, positions: Iterable[int]) -> None:
    """Columns that a statement sets, whether to other values or not."""
    stored = target.stored if isinstance(target, TriggeredTarget) else target
    if isinstance(stored, StoredTarget):
        stored.assigned.update(positions)


def written_value(
    compiler: ExpressionCompiler, node: Call, column: Column, target: Target, scope: Scope
) -> Value:
    """The new value of a column after .WRITE().

    Raises:
        SqlError: 258 for a column of another type.
    """
    if column.type.length != MAX or column.type.name == "xml":
        raise messages.error(258, column.type.name)
    old, data, offset, length = (compiler.value(argument, scope) for argument in node.arguments)
    engine, table = compiler.compilation.context.engine, target.table

    def write(old: Any, data: Any, offset: Any, length: Any) -> Any:
        database = engine.database_by_id(table.database_id)
        now = database.table_by_id(table.object_id) if database is not None else None
        known = now.column_by_id(column.column_id) if now is not None else None
        if database is not None and now is not None and known is not None:
            engine.extension.extending(database, now, known, data)
        return written(old, data, offset, length)

    key = ("write", table.database_id, table.object_id, column.column_id)
    number = compiler.compilation.workspace.own_function(key, write)
    texts = [
        old.sql,
        converted(data, column.type).sql,
        converted(offset, BIGINT).sql,
        converted(length, BIGINT).sql,
    ]
    return Value(f"t_own({number}, {', '.join(texts)})", column.type)


def written(old: Any, data: Any, offset: int | None, length: int | None) -> Any:
    """What .WRITE() makes of a value.

    Raises:
        SqlError: 7116 for an offset beyond its end; 50900 for NULL.
    """
    if old is None:
        raise SqlError(NOT_SUPPORTED, "Cannot call .WRITE() on a NULL value; assign a value first.")
    if offset is None:
        return old if data is None else old + data
    rest = max(0, len(old) - offset)
    gone = rest if data is None or length is None else min(length, rest)
    return spliced(old, offset, gone, data)


def spliced(old: Any, offset: int | None, length: int | None, data: Any) -> Any:
    """A value with ``length`` units from ``offset`` on replaced by ``data``.

    Args:
        old: the value, text or bytes.
        offset: where to write; None appends.
        length: how much goes; None everything from ``offset`` on.
        data: what comes instead, or None for nothing.

    Raises:
        SqlError: 7116 or 7135 for a place that is not in the value.
    """
    start = len(old) if offset is None else offset
    if not 0 <= start <= len(old):
        raise messages.error(7116, start)
    gone = len(old) - start if length is None else length
    if not 0 <= gone <= len(old) - start:
        raise messages.error(7135, gone)
    empty = b"" if isinstance(old, bytes) else ""
    return old[:start] + (empty if data is None else data) + old[start + gone :]
