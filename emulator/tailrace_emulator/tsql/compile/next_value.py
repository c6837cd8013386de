"""NEXT VALUE FOR."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.security.access import of_object
from tailrace_emulator.storage.model import Sequence
from tailrace_emulator.tsql.compile.names import resolve_name
from tailrace_emulator.tsql.compile.sequence_rules import not_in_subqueries
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.syntax.nodes import Call, NextValue, Over
from tailrace_emulator.values.types import StorageValue, pack_decimal

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.plan import Execution
    from tailrace_emulator.tsql.compile.scope import Scope


def next_value(compiler: Expressions, node: NextValue, scope: Scope) -> Value:
    """NEXT VALUE FOR: within one row, the same sequence gives the same value.

    Raises:
        SqlError: 208, 11719 in a subquery or function, 11727 with two different OVER clauses,
            11716, 11717, 11718, 11737 an OVER clause that cannot be; 11728 when it runs.
    """
    compilation = compiler.compilation
    if scope.parent is not None or compilation.frame.is_function:
        raise not_in_subqueries(node.line)
    where = resolve_name(compilation.context, node.name, node.line)
    compilation.depend_on(where.database)
    sequence = where.database.sequence(where.schema, where.name)
    if sequence is None:
        raise messages.invalid_object(node.name, node.line)
    compilation.access.require(of_object(where.database, sequence), "UPDATE")
    key = (where.database, sequence)
    workspace = compilation.workspace
    rank = ""
    if node.over is not None:
        _check_order(node.over, node.line, allowed=compilation.takes_ordered_sequences)
        rank = compiler.value(Call(("ROW_NUMBER",), (), node.line, over=node.over), scope).sql
    if compilation.sequences.setdefault(sequence.object_id, rank) != rank:
        raise messages.error(11727, line=node.line)
    if rank:
        values = OrderedValues(where.database, sequence)
        number = workspace.own_function(("ordered sequence", *key), values.taken)
        run = compilation.slot(("ordered sequence", *key), _next_run)
        return Value(f"t_own({number}, {run}, {rank})", sequence.type, nullable=False)

    def take(fresh: StorageValue) -> StorageValue:
        return _taken(workspace.sequence_values, key, fresh)

    number = workspace.own_function(("sequence", *key), take)
    fresh = int(sequence.object_id not in compilation.taken_sequences)
    compilation.taken_sequences.add(sequence.object_id)
    return Value(f"t_own({number}, {fresh})", sequence.type, nullable=False)


def _check_order(over: Over, line: int, *, allowed: bool) -> None:
    """The OVER clause has an order and nothing else."""
    number = 0
    if not allowed:
        number = 11717
    elif over.partition:
        number = 11716
    elif over.frame:
        number = 11737
    elif not (over.order or over.base):
        number = 11718
    if number:
        raise messages.error(number, line=line)


_RUNS: Final = itertools.count(1)


def _next_run(_: Execution) -> StorageValue:
    """Another number for each execution of a plan: each takes values of its own."""
    return next(_RUNS)


class OrderedValues:
    """The values that one execution takes of a sequence, by the place of the row in the order."""

    def __init__(self, database: Database, sequence: Sequence) -> None:
        self.key = (database, sequence)
        self._run: StorageValue = None
        self._values: list[StorageValue] = []

    def taken(self, run: StorageValue, rank: int) -> StorageValue:
        """The value of the row at a place, 1-based; rows may come in any order."""
        if run != self._run:
            self._run, self._values = run, []
        while len(self._values) < rank:
            self._values.append(_taken({}, self.key, True))
        return self._values[rank - 1]


def _taken(
    values: dict[int, int], key: tuple[Database, Sequence], fresh: StorageValue
) -> StorageValue:
    """A new value, or the one that the row has already."""
    database, sequence = key
    if fresh or sequence.object_id not in values:
        taken, _, _ = database.engine.sequences.take(database, sequence)
        values[sequence.object_id] = taken
    value = values[sequence.object_id]
    return pack_decimal(value, sequence.type) if sequence.type.is_decimal else value
