"""Replaying the day against the source: one connection, transactions in time order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.demo.flights import SourceTransaction

if TYPE_CHECKING:
    import pyodbc

Wait = Callable[[Callable[[], bool], str], None]
"""Waits for a condition; the text says that it holds."""
_WAIT_S: Final = 180
_PAUSE_S: Final = 0.05


@dataclass(slots=True)
class ReplayProgress:
    """What was replayed so far; read by the live view from another thread.

    Attributes:
        started: monotonic seconds; later by the time that the replay stood still.
    """

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
    """Return the progress of a replay that has not started."""
    return ReplayProgress(
        transactions_total=len(day),
        statements_total=sum(len(transaction.statements) for transaction in day),
    )


class Replay:
    """Runs the transactions in order, in a thread.

    Args:
        connection: to the airline's database; autocommit is switched off here.
        progress: updated as it goes.
        before: what else is done, by how many transactions come before it; it may wait.

    Attributes:
        failure: what ended it before its time.
    """

    def __init__(
        self,
        connection: pyodbc.Connection,
        day: list[SourceTransaction],
        progress: ReplayProgress,
        before: Mapping[int, Callable[[pyodbc.Connection, Wait], object]],
    ) -> None:
        self._connection = connection
        self._day = day
        self._progress = progress
        self._before = before
        self._stop = threading.Event()
        self._over = threading.Event()
        self.failure: Exception | None = None

    @contextmanager
    def running(self, rate: float) -> Iterator[None]:
        """Replay while the block runs, at most that many statements per second (0: no limit)."""
        thread = threading.Thread(target=self._work, args=(rate,), name="replay")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def has_ended(self, wait_s: float) -> bool:
        """Whether it has; waits so long for it."""
        return self._over.wait(wait_s)

    def _work(self, rate: float) -> None:
        try:
            self._replay(rate)
        except Exception as error:  # noqa: BLE001 - raised again by the conductor
            self.failure = error
        finally:
            self._over.set()

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not reached():
            if self._stop.wait(_PAUSE_S) or time.monotonic() > deadline:
                raise TimeoutError(f"not within {_WAIT_S} s: {what}")

    def _replay(self, rate: float) -> None:
        progress, connection = self._progress, self._connection
        connection.autocommit = False
        cursor = connection.cursor()
        progress.started = time.monotonic()
        for number, transaction in enumerate(self._day):
            if rate:
                due = progress.started + progress.statements / rate
                self._stop.wait(max(0.0, due - time.monotonic()))
            if self._stop.is_set():
                break
            if number in self._before:
                stands = time.monotonic()
                self._before[number](connection, self._wait)
                progress.started += time.monotonic() - stands
            for sql, parameters in transaction.statements:
                cursor.execute(sql, parameters)
            connection.commit()
            progress.transactions += 1
            progress.statements += len(transaction.statements)
            progress.clock = f"{transaction.at:%d %b %H:%M}"
            progress.kinds[transaction.kind] = progress.kinds.get(transaction.kind, 0) + 1
        cursor.close()
        progress.finished = time.monotonic()
