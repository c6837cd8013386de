"""Transactions of users: several statements over several tables, with the log records of each."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.log import Log
from tests.simulation.sqlserver.rows import Change, Column, Row, Table

KEYS: Final = 9  # few, so that rows come and go and meet each other
_LARGE: Final = 1 << 40


@dataclass(slots=True)
class Writer:
    """One transaction that is being made.

    Attributes:
        database: the primary's state.
        log: gives the LSNs of the changes.
        rng: chooses.
        reserved: LSNs that were given out before: an older transaction's, which commits late.
        next_row: a new name for a row.
        moves_keys: whether keys may move from row to row; read through query functions, such a
            table stops for want of an order.
        changes: what it has done.
    """

    database: Database
    log: Log
    rng: random.Random
    reserved: list[bytes]
    next_row: int
    moves_keys: bool = True
    changes: list[Change] = field(default_factory=list)
    _command: int = 0
    _large: int = 0
    _rows: dict[int, dict[int, Row]] = field(default_factory=dict)

    def statement(self, rows_max: int = 3) -> None:
        """One statement on one table."""
        self._command = self._command or self.rng.randrange(2)
        self._command += 1
        tables = [table for table in self.database.tables.values() if not table.is_dropped]
        if not tables:
            return
        table = self.rng.choice(tables)
        rows = self._rows.setdefault(table.object_id, dict(table.rows))
        kind = self.rng.choice(("insert", "insert", "update", "update", "delete", "key"))
        count = self.rng.randrange(1, rows_max + 1)
        if kind == "insert" or not rows:
            self._insert(table, rows, count)
            return
        chosen = self.rng.sample(sorted(rows), min(count, len(rows)))
        if kind == "delete":
            for row_id in chosen:
                self._change(table, row_id, rows.pop(row_id), None)
        elif kind == "update" or not table.key or not self.moves_keys:
            for row_id in chosen:
                before = rows[row_id]
                rows[row_id] = {**before, **self._values(table)}
                self._change(table, row_id, before, rows[row_id])
        else:
            self._change_keys(table, rows, chosen)

    def _insert(self, table: Table, rows: dict[int, Row], count: int) -> None:
        for _ in range(count):
            key = {column: self.rng.randrange(KEYS) for column in table.key}
            row = {column.column_id: None for column in table.columns} | self._values(
                table, everything=True
            )
            row |= key
            if table.key and any(table.key_of(r) == table.key_of(row) for r in rows.values()):
                continue
            row_id = self.next_row
            self.next_row += 1
            rows[row_id] = row
            self._change(table, row_id, None, row)

    def _change_keys(self, table: Table, rows: dict[int, Row], chosen: list[int]) -> None:
        """An update of the last key column: of one row, or of several, which is deferred."""
        column = table.key[-1]
        if not self._is_ordered(table):
            chosen = chosen[:1]  # the order of a deferred update is lost there, for any reader
        by = self.rng.choice((1, 1, 10))
        after = {row_id: {**rows[row_id], column: rows[row_id][column] + by} for row_id in chosen}
        others = {table.key_of(row) for row_id, row in rows.items() if row_id not in after}
        if any(table.key_of(row) in others for row in after.values()):
            return
        deletes, self._command = self._command, self._command + 1
        for row_id in chosen:
            change = Change(
                table.object_id,
                row_id,
                deletes,
                self._seqval(),
                rows[row_id],
                after[row_id],
                is_key_change=True,
                second_command_id=self._command if len(chosen) > 1 else deletes,
            )
            self.changes.append(change)
        rows.update(after)

    def _is_ordered(self, table: Table) -> bool:
        return all(i.is_ordered_by_command_id for i in self.database.instances_of(table.object_id))

    def _values(self, table: Table, *, everything: bool = False) -> Mapping[int, Any]:
        """New values of some columns that are not of the key."""
        free = [column for column in table.columns if column.column_id not in table.key]
        if not everything and free:
            free = self.rng.sample(free, self.rng.randrange(1, len(free) + 1))
        return {column.column_id: self._value(column) for column in free}

    def _value(self, column: Column) -> Any:
        if self.rng.random() < 0.1 and column.type != "nvarchar(max)":
            return None
        number = self.rng.randrange(1000)
        if column.type == "nvarchar(max)":
            self._large += 1  # never what it was: then it would count as left alone
            return f"large{number}.{self._large}"
        if column.type == "varchar(20)" and number < 200:
            return f"\u00fc{number}"  # not ASCII
        if column.type == "bigint":
            return number + _LARGE
        return number if column.type == "int" else f"t{number}"

    def _change(self, table: Table, row_id: int, before: Row | None, after: Row | None) -> None:
        self.changes.append(
            Change(table.object_id, row_id, self._command, self._seqval(), before, after)
        )

    def _seqval(self) -> bytes:
        return self.reserved.pop(0) if self.reserved else self.log.next_lsn(0)
