"""The values that sequences give out.

Values are given out from memory, no transaction takes them back. Before a value beyond the reserve
is given out, a new reserve is written down (CACHE values ahead). So no value comes twice after a
crash: the rest of the reserve is lost then, as in SQL Server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.catalog_state import CatalogState
from tailrace_emulator.storage.model import Sequence
from tailrace_emulator.values.fetching import fetch

DEFAULT_CACHE: Final = 50
"""How many values are reserved at once where CACHE has no size; SQL Server does not say its own."""


class _WritePath(Protocol):
    def after_commit(self, effect: Callable[[], None]) -> None: ...


class _Engine(Protocol):
    @property
    def write_path(self) -> _WritePath: ...

    def write(self) -> AbstractContextManager[apsw.Connection]: ...


class SequenceDatabase(Protocol):
    """What the values need of the database whose sequences they are."""

    @property
    def database_id(self) -> int:
        """Its id."""

    @property
    def engine(self) -> _Engine:
        """Begins write transactions, and reports their commits."""

    @property
    def state(self) -> CatalogState:
        """Its objects as they are now."""


@dataclass(slots=True)
class _State:
    """The last value given out (None before the first) and the last one reserved."""

    last: int | None = None
    reserved: int | None = None


class SequenceValues:
    """The current values of every sequence; thread-safe."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._lock = threading.Lock()
        self._states: dict[tuple[int, int, int], _State] = {}
        """By database, object id and generation."""
        self._connection = connection

    def _state(self, database: SequenceDatabase, sequence: Sequence) -> _State:
        key = (database.database_id, sequence.object_id, sequence.generation)
        state = self._states.get(key)
        if state is None:
            rows: list[tuple[int]] = fetch(
                self._connection,
                "SELECT last_value FROM identity_values WHERE database_id = ? AND object_id = ?",
                key[:2],
            )
            last = rows[0][0] if rows else None
            state = self._states[key] = _State(last, last)
        return state

    def current(self, database: SequenceDatabase, sequence: Sequence) -> int:
        """sys.sequences.current_value: the start before the first use."""
        with self._lock:
            last = self._state(database, sequence).last
        return sequence.start if last is None else last

    def last(self, database: SequenceDatabase, sequence: Sequence) -> int | None:
        """sys.sequences.last_used_value: NULL before the first use."""
        with self._lock:
            return self._state(database, sequence).last

    def is_exhausted(self, database: SequenceDatabase, sequence: Sequence) -> bool:
        """Whether the next value would be beyond the limits of a sequence that does not cycle."""
        with self._lock:
            last = self._state(database, sequence).last
        return (
            last is not None
            and not sequence.is_cycling
            and not sequence.minimum <= last + sequence.increment <= sequence.maximum
        )

    def take(
        self, database: SequenceDatabase, sequence: Sequence, count: int = 1
    ) -> tuple[int, int, int]:
        """The next values.

        Args:
            database: where the sequence is.

        Returns:
            The first and the last, and how often the sequence began again between them.

        Raises:
            SqlError: 11728 at the end of the sequence, 11732 for a range that goes past it.
        """
        with self._lock:
            state = self._state(database, sequence)
            first = sequence.start if state.last is None else state.last + sequence.increment
            cycles = 0
            if not sequence.minimum <= first <= sequence.maximum:
                if not sequence.is_cycling:
                    raise _exhausted(sequence)
                first, cycles = _beginning(sequence), 1
            last = first + (count - 1) * sequence.increment
            if not sequence.minimum <= last <= sequence.maximum:
                if not sequence.is_cycling:
                    raise _range_too_large(sequence)
                size = (sequence.maximum - sequence.minimum) // abs(sequence.increment) + 1
                gone = abs(first - _beginning(sequence)) // abs(sequence.increment) + count - 1
                cycles += gone // size
                last = _beginning(sequence) + (gone % size) * sequence.increment
            state.last = last
            reserved = state.reserved
        # Outside of the lock: a session whose transaction holds the write path may want it.
        if cycles or reserved is None or (last - reserved) * sequence.increment > 0:
            self._reserve(database, sequence, state, last, anew=bool(cycles))
        return first, last, cycles

    def begin(
        self, connection: apsw.Connection, database: SequenceDatabase, sequence: Sequence
    ) -> None:
        """A sequence is new, or of a new generation: its first value is its start.

        What one that was rolled back has left under the same id goes.

        Args:
            connection: inside a write transaction.
            database: where the sequence is.
        """
        self._forget_reserve(connection, database, sequence)
        with self._lock:
            key = (database.database_id, sequence.object_id, sequence.generation)
            self._states[key] = _State()
        database.engine.write_path.after_commit(
            lambda: self._forget(database, sequence, sequence.generation)
        )

    def end(
        self, connection: apsw.Connection, database: SequenceDatabase, sequence: Sequence
    ) -> None:
        """A sequence is dropped, inside a write transaction."""
        self._forget_reserve(connection, database, sequence)
        database.engine.write_path.after_commit(
            lambda: self._forget(database, sequence, sequence.generation + 1)
        )

    @staticmethod
    def _forget_reserve(
        connection: apsw.Connection, database: SequenceDatabase, sequence: Sequence
    ) -> None:
        connection.execute(
            "DELETE FROM identity_values WHERE database_id = ? AND object_id = ?",
            (database.database_id, sequence.object_id),
        )

    def _forget(self, database: SequenceDatabase, sequence: Sequence, below: int) -> None:
        """Forget the counters of a sequence's generations below one."""
        own = (database.database_id, sequence.object_id)
        with self._lock:
            self._states = {
                key: state
                for key, state in self._states.items()
                if key[:2] != own or key[2] >= below
            }

    def forget_database(self, database_id: int) -> None:
        """A database is gone: the next one may get its id."""
        with self._lock:
            self._states = {k: v for k, v in self._states.items() if k[0] != database_id}

    def _reserve(
        self,
        database: SequenceDatabase,
        sequence: Sequence,
        state: _State,
        last: int,
        *,
        anew: bool,
    ) -> None:
        """Write down how far the values go that may be given out from memory."""
        ahead = DEFAULT_CACHE if sequence.cache is None else sequence.cache
        further = "max" if sequence.increment > 0 else "min"
        kept = "excluded.last_value" if anew else f"{further}(last_value, excluded.last_value)"
        reserved = last + max(ahead - 1, 0) * sequence.increment
        reserved = max(sequence.minimum, min(sequence.maximum, reserved))
        with database.engine.write() as connection:
            if not _is_there(database, sequence):
                return  # rolled back, dropped or begun again since: another counter's place
            connection.execute(
                "INSERT INTO identity_values VALUES (?, ?, ?)"
                f" ON CONFLICT DO UPDATE SET last_value = {kept}",
                (database.database_id, sequence.object_id, reserved),
            )
            database.engine.write_path.after_commit(lambda: setattr(state, "reserved", reserved))


def _is_there(database: SequenceDatabase, sequence: Sequence) -> bool:
    """Whether a sequence still is, in the generation that is meant."""
    return any(
        (known.object_id, known.create_ticks, known.generation)
        == (sequence.object_id, sequence.create_ticks, sequence.generation)
        for known in database.state.sequences.values()
    )


def _beginning(sequence: Sequence) -> int:
    """Where a cycle begins: the minimum, or the maximum of one that descends."""
    return sequence.minimum if sequence.increment > 0 else sequence.maximum


def _exhausted(sequence: Sequence) -> SqlError:
    """11728."""
    return messages.error(11728, sequence.name)


def _range_too_large(sequence: Sequence) -> SqlError:
    """11732."""
    return messages.error(11732, sequence.name)
