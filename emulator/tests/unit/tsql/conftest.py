"""A session of the embedded server without its wire: T-SQL in, rows and events out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tailrace_emulator.catalog.context import SessionContext
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.serving.batch import BatchRunner
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import UNIX_EPOCH_TICKS, ManualClock
from tailrace_emulator.values.results import (
    ColumnMeta,
    ErrorMessage,
    Event,
    Message,
    Parameter,
    ResultSet,
    ReturnStatus,
    ReturnValue,
    Rows,
    StatementDone,
)
from tailrace_emulator.values.types import SqlType

NOW = UNIX_EPOCH_TICKS + 1_600_000_000 * 10_000_000  # 2020-09-13 12:26:40


@dataclass
class Outcome:
    """What a batch did."""

    sets: list[list[tuple[Any, ...]]] = field(default_factory=list)
    columns: list[tuple[ColumnMeta, ...]] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    counts: list[int | None] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    status: int | None = None

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Rows of the last result set."""
        return self.sets[-1]

    @property
    def types(self) -> list[str]:
        """Types of the last result set."""
        return [str(c.type) for c in self.columns[-1]]


class Session:
    """One session."""

    def __init__(self, engine: Engine, session_id: int, database: str = "shop") -> None:
        store = StoreSession(engine, session_id)
        self.context = SessionContext(
            engine=engine,
            database=engine.database(database),
            store=store,
            session_id=session_id,
            login="sa",
        )
        self.runner = BatchRunner(self.context)

    def __call__(self, sql: str, *parameters: tuple[str, SqlType, Any]) -> Outcome:
        """Runs a batch; an error that ends it is among the outcome's errors."""
        given = [Parameter(name, sql_type, value) for name, sql_type, value in parameters]
        return self.collect(self.runner.run(sql, given))

    def call(self, procedure: str, parameters: Sequence[Parameter] = ()) -> Outcome:
        """Calls a procedure as RPC."""
        return self.collect(self.runner.call(procedure, parameters))

    def collect(self, events: Iterator[Event]) -> Outcome:
        """Drains events."""
        outcome = Outcome()
        try:
            for event in events:
                self._take(outcome, event)
        except SqlError as error:
            outcome.errors.append(error.number)
            outcome.texts.append(error.message)
        return outcome

    def _take(self, outcome: Outcome, event: Event) -> None:
        if isinstance(event, ResultSet):
            outcome.sets.append([])
            outcome.columns.append(event.columns)
        elif isinstance(event, Rows):
            outcome.sets[-1] += event.rows
        elif isinstance(event, ErrorMessage):
            outcome.errors.append(event.number)
            outcome.texts.append(event.text)
        elif isinstance(event, Message):
            outcome.messages.append(event.text)
        elif isinstance(event, StatementDone):
            outcome.counts.append(event.count)
        elif isinstance(event, ReturnValue):
            outcome.outputs[event.name] = event.value
        elif isinstance(event, ReturnStatus):
            outcome.status = event.value

    def value(self, expression: str) -> Any:
        """The value of one expression."""
        outcome = self(f"SELECT {expression}")
        assert not outcome.errors, outcome.texts
        return outcome.rows[0][0]

    def text(self, expression: str) -> Any:
        """The value of one expression as SQL Server prints it."""
        return self.value(f"CONVERT(varchar(200), {expression})")

    def type(self, expression: str) -> str:
        """The type of one expression."""
        outcome = self(f"SELECT {expression}")
        assert outcome.columns, outcome.texts
        return outcome.types[0]


@pytest.fixture
def engine(tmp_path) -> Iterator[Engine]:
    engine = Engine(tmp_path, ManualClock(NOW))
    engine.create_database("shop")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def calculator(tmp_path_factory) -> Iterator[Session]:
    """A session for expressions that need no table; all tests share it."""
    engine = Engine(tmp_path_factory.mktemp("calculator"), ManualClock(NOW))
    engine.create_database("shop")
    session = Session(engine, 50)
    yield session
    session.context.store.close()
    engine.close()


@pytest.fixture
def sql(engine) -> Iterator[Session]:
    session = Session(engine, 51)
    yield session
    session.context.store.close()


@pytest.fixture
def other(engine) -> Iterator[Session]:
    """A second session."""
    session = Session(engine, 52)
    yield session
    session.context.store.close()
