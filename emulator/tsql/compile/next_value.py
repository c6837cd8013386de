"""NEXT VALUE FOR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.security.access import of_object
from emulator.storage.sequences import (
    Sequence,
)
from emulator.tsql import messages
from emulator.tsql.compile.names import resolve_name
from emulator.tsql.compile.values import Value
from emulator.tsql.syntax.nodes import NextValue
from emulator.types import StorageValue, pack_decimal

if TYPE_CHECKING:
    from emulator.storage.engine import Database
    from emulator.tsql.compile.compiler import Compilation
    from emulator.tsql.compile.scope import Scope


def next_value(compilation: Compilation, node: NextValue, scope: Scope) -> Value:
    """NEXT VALUE FOR: within one row, the same sequence gives the same value.

    Raises:
        SqlError: 208, 11719 in a subquery or function; 11728 when it runs.
    """
    if scope.parent is not None or compilation.frame.is_function:
        raise messages.compile_error(
            11719,
            "NEXT VALUE FOR function is not allowed in check constraints, default objects, computed"
            " columns, views, user-defined functions, user-defined aggregates, user-defined table"
            " types, sub-queries, common table expressions, derived tables or return statements.",
            severity=15,
            line=node.line,
        )
    where = resolve_name(compilation.context, node.name, node.line)
    compilation.depend_on(where.database)
    sequence = where.database.sequence(where.schema, where.name)
    if sequence is None:
        raise messages.invalid_object(node.name, node.line)
    compilation.access.require(of_object(where.database, sequence), "UPDATE")
    key = (where.database, sequence)
    workspace = compilation.workspace

    def take(fresh: StorageValue) -> StorageValue:
        return _taken(workspace.sequence_values, key, fresh)

    number = workspace.own_function(("sequence", *key), take)
    fresh = int(sequence.object_id not in compilation.sequences)
    compilation.sequences.add(sequence.object_id)
    return Value(f"t_own({number}, {fresh})", sequence.type, nullable=False)


def _taken(
    values: dict[int, int], key: tuple[Database, Sequence], fresh: StorageValue
) -> StorageValue:
    """A new value, or the one that the row has already."""
    database, sequence = key
    if fresh or sequence.object_id not in values:
        values[sequence.object_id], _, _ = database.engine.sequences.take(database, sequence)
    value = values[sequence.object_id]
    return pack_decimal(value, sequence.type) if sequence.type.is_decimal else value
