"""Two writers that never stop, and the DDL that comes between their transactions."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import pyodbc

from bench.verify_load.changes import CHANGES, Statement, of_clicks

_PAUSE_S: Final = 0.4
_HELD_S: Final = 0.3
"""How long the second writer leaves its transactions open after each statement, at most."""
_CLICKS_EVERY_S: Final = 60.0
_ROLLED_BACK: Final = 0.05
_EXPECTED: Final = frozenset({"23000", "40001"})
"""SQLSTATE of a key that is there already, and of a deadlock."""


class Writer:
    """One connection that commits transactions at random.

    Attributes:
        rows: that its committed transactions changed.
        refused: statements by SQLSTATE, after which a transaction was rolled back.
        pausing: held during each transaction.
    """

    def __init__(self, database: str, seed: int, held_s: float) -> None:
        self.rows = self.transactions = 0
        self.refused: Counter[str] = Counter()
        self.pausing = threading.Lock()
        self.failure: Exception | None = None
        self.new_columns: list[str] = []
        self._database = database
        self._chance = random.Random(seed)  # noqa: S311 - data
        self._held_s = held_s
        self._clicked = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer {seed}")

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present transaction."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with closing(pyodbc.connect(self._database, autocommit=False)) as connection:
                while not self._stop.is_set():
                    with self.pausing:
                        self._transaction(connection)
                    self._stop.wait(self._chance.random() * _PAUSE_S)
        except Exception as error:  # noqa: BLE001 - raised by the benchmark's own thread
            self.failure = error

    def _transaction(self, connection: pyodbc.Connection) -> None:
        rows, sql = 0, ""
        try:
            for _ in range(self._chance.choice((1, 1, 2, 8))):
                sql, parameters = self._next()
                rows += max(0, connection.execute(sql, *parameters).rowcount)
                self._stop.wait(self._chance.random() * self._held_s)
            if self._chance.random() < _ROLLED_BACK:
                connection.rollback()
                return
            connection.commit()
        except pyodbc.Error as error:
            if error.args[0] not in _EXPECTED:
                error.add_note(sql)
                raise
            self.refused[error.args[0]] += 1
            connection.rollback()
            return
        self.rows += rows
        self.transactions += 1

    def _next(self) -> Statement:
        if not self._held_s and time.monotonic() > self._clicked + _CLICKS_EVERY_S:
            self._clicked = time.monotonic()
            return of_clicks(self._chance)
        if self.new_columns and self._chance.random() < 0.05:
            column, key = self._chance.choice(self.new_columns), self._chance.randrange(2_000)
            return f"UPDATE dbo.evolving SET {column} = ? WHERE id % 2000 = ?", [f"v{key}", key]
        return self._chance.choice(CHANGES)(self._chance)


class Writers:
    """All writers, and DDL while none has a transaction open."""

    def __init__(self, database: str, seed: int) -> None:
        self._database = database
        self._all = (Writer(database, seed, 0.0), Writer(database, seed + 1, _HELD_S))
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self.ddl: list[str] = []

    @contextmanager
    def working(self) -> Iterator[None]:
        """Write while the block runs."""
        for writer in self._all:
            writer.start()
        try:
            yield
        finally:
            for writer in self._all:
                writer.stop()
        self.check()

    @contextmanager
    def changing_columns(self, every_s: float) -> Iterator[None]:
        """Add, widen and drop columns while the block runs."""

        def run() -> None:
            try:
                while not self._stop.wait(every_s):
                    self._change_columns()
            except pyodbc.Error as error:
                self._failure = error

        thread = threading.Thread(target=run, name="DDL")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Commit nothing while the block runs."""
        with ExitStack() as stack:
            for writer in self._all:
                stack.enter_context(writer.pausing)
            yield

    def check(self) -> None:
        """Raise what ended a writer."""
        for failure in (self._failure, *(writer.failure for writer in self._all)):
            if failure is not None:
                raise failure

    @property
    def rows(self) -> int:
        """Rows that committed transactions changed."""
        return sum(writer.rows for writer in self._all)

    @property
    def transactions(self) -> int:
        """Transactions that were committed."""
        return sum(writer.transactions for writer in self._all)

    @property
    def refused(self) -> dict[str, int]:
        """Transactions rolled back after an error, by SQLSTATE."""
        return dict(sum((writer.refused for writer in self._all), Counter[str]()))

    def _change_columns(self) -> None:
        """Change one column; rows have values in a new one before it is captured."""
        number = len(self.ddl)
        added = f"extra_{number}"
        statement = (
            f"ALTER TABLE dbo.evolving ADD {added} varchar(20) NULL",
            f"ALTER TABLE dbo.evolving ALTER COLUMN name varchar({21 + number})",
            f"ALTER TABLE dbo.evolving ADD rank_{number} int NOT NULL DEFAULT 7",
            f"ALTER TABLE dbo.evolving DROP COLUMN extra_{number - 3}",
            f"ALTER TABLE dbo.accounts ADD more_{number} int NULL",
            "ALTER TABLE dbo.evolving ALTER COLUMN amount bigint",
        )[number % 6]
        with self.paused(), closing(pyodbc.connect(self._database, autocommit=True)) as source:
            source.execute(statement)
            if number % 6 == 0:
                source.execute(f"UPDATE dbo.evolving SET {added} = 'early' WHERE id % 100 = 0")
            for writer in self._all:
                if number % 6 == 0:
                    writer.new_columns = [added]
                elif number % 6 == 3:
                    writer.new_columns = []
        self.ddl.append(statement)
