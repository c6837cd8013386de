"""One transaction of the source: its changes in order, and their messages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tests.envelopes.messages import Message
from tests.envelopes.tables import Key, Row, SourceTable

if TYPE_CHECKING:
    from tests.envelopes.source import Source


class Transaction:
    """The changes of one source transaction, in order."""

    def __init__(self, source: Source, lsn: Lsn) -> None:
        self.source = source
        self.lsn = lsn
        self.messages: list[Message] = []
        self._command = itertools.count(1)

    def insert(self, table: SourceTable, **row: Any) -> None:
        full = {c.name: row.get(c.name) for c in table.schema.columns}
        table.rows[table.key_of(full)] = full
        self._emit(table, "c", None, full, Operation.INSERT)

    def update(self, table: SourceTable, key: Key, /, **changes: Any) -> None:
        """Change a row; a change of its key is published as delete, tombstone and create.

        Large columns that do not change are not in the event, as CDC does not hold them.
        """
        before = table.rows.pop(key)
        after = {**before, **changes}
        table.rows[table.key_of(after)] = after
        if table.key_of(after) != key:
            seqval = self._seqval()
            self._emit(table, "d", before, None, Operation.DELETE, seqval=seqval)
            self._tombstone(table)
            self._emit(table, "c", None, after, Operation.INSERT, seqval=seqval)
            return
        unavailable = [
            c.name for c in table.schema.columns if c.type.is_large and c.name not in changes
        ]
        untold = dict.fromkeys(unavailable, self.source.placeholder)
        seen = {**after, **untold}
        self._emit(table, "u", before, seen, Operation.UPDATE_AFTER, unavailable=unavailable)

    def delete(self, table: SourceTable, key: Key) -> None:
        before = table.rows.pop(key)
        self._emit(table, "d", before, None, Operation.DELETE)
        self._tombstone(table)

    def _seqval(self) -> Lsn:
        # Deferred updates: seqval does not grow with the command id.
        return Lsn(1, self.lsn.block, 1000 - next(self._command) % 1000)

    def _emit(
        self,
        table: SourceTable,
        op: str,
        before: Row | None,
        after: Row | None,
        operation: Operation,
        *,
        seqval: Lsn | None = None,
        unavailable: Sequence[str] = (),
    ) -> None:
        position = ChangePosition(
            self.lsn, next(self._command), seqval or self._seqval(), operation
        )
        self.messages.append(self.source.message(table, op, before, after, position, unavailable))

    def _tombstone(self, table: SourceTable) -> None:
        last = self.messages[-1]
        self.messages.append(
            Message(table.topic, last.partition, None, None, last.schema_id, last.key)
        )
