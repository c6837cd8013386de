"""Replaying the day against the source: one connection, transactions in time order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.demo.flights import SourceTransaction

if TYPE_CHECKING:
    import pyodbc


@dataclass(slots=True)
class ReplayProgress:
    """What was replayed so far; read by the live view from another thread."""

    transactions_total: int
    statements_total: int
    transactions: int = 0
    statements: int = 0
    clock: str = ""
    started: float = 0.0
    finished: float | None = None
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Statements per second since the start."""
        if not self.started:
            return 0.0
        elapsed = (self.finished or time.monotonic()) - self.started
        return self.statements / elapsed if elapsed > 0 else 0.0


def plan(day: list[SourceTransaction]) -> ReplayProgress:
    """The progress of a replay that has not begun."""
    return ReplayProgress(
        transactions_total=len(day),
        statements_total=sum(len(transaction.statements) for transaction in day),
    )


def replay(
    connection: pyodbc.Connection,
    day: list[SourceTransaction],
    progress: ReplayProgress,
    *,
    rate: float,
    stop: threading.Event,
    before: Mapping[int, Callable[[pyodbc.Connection], None]],
) -> None:
    """Run the transactions in order, at most ``rate`` statements per second (0: no limit).

    Args:
        connection: to the airline's database; autocommit is switched off here.
        day: in time order.
        progress: updated as it goes.
        rate: statements per second.
        stop: set to end between two transactions.
        before: what else is done, by how many transactions come before it.
    """
    connection.autocommit = False
    cursor = connection.cursor()
    progress.started = time.monotonic()
    for number, transaction in enumerate(day):
        if rate:
            due = progress.started + progress.statements / rate
            stop.wait(max(0.0, due - time.monotonic()))
        if stop.is_set():
            break
        if number in before:
            before[number](connection)
        for sql, parameters in transaction.statements:
            cursor.execute(sql, parameters)
        connection.commit()
        progress.transactions += 1
        progress.statements += len(transaction.statements)
        progress.clock = f"{transaction.at:%d %b %H:%M}"
        progress.kinds[transaction.kind] = progress.kinds.get(transaction.kind, 0) + 1
    cursor.close()
    progress.finished = time.monotonic()
