"""The values that sequences give out.

Values are given out from memory, no transaction takes them back. Before a value beyond the reserve
is given out, the reserve is written down (CACHE values ahead), so that no value comes twice after a
crash: the rest of the reserve is lost then, as in SQL Server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import apsw

from emulator.errors import SqlError
from emulator.fetching import fetch
from emulator.storage.model import Sequence

DEFAULT_CACHE: Final = 50
"""How many values are reserved at once where CACHE has no size; SQL Server does not say its own."""


@dataclass(slots=True)
class _State:
    """The last value given out (None before the first) and the last one reserved."""

    last: int | None = None
    reserved: int | None = None


class SequenceValues:
    """The current values of every sequence; thread-safe."""

    def __init__(
        self,
        connection: apsw.Connection,
        write: Callable[[], AbstractContextManager[apsw.Connection]],
    ) -> None:
        """Begin.

        Args:
            connection: what to read reserves with.
            write: begins a write transaction of the engine.
        """
        self._write = write
        self._lock = threading.Lock()
        self._states: dict[tuple[int, int], _State] = {}
        self._connection = connection

    def _state(self, database_id: int, sequence: Sequence) -> _State:
        key = (database_id, sequence.object_id)
        state = self._states.get(key)
        if state is None:
            rows: list[tuple[int]] = fetch(
                self._connection,
                "SELECT last_value FROM identity_values WHERE database_id = ? AND object_id = ?",
                key,
            )
            last = rows[0][0] if rows else None
            state = self._states[key] = _State(last, last)
        return state

    def current(self, database_id: int, sequence: Sequence) -> int:
        """sys.sequences.current_value: the start before the first use."""
        with self._lock:
            last = self._state(database_id, sequence).last
        return sequence.start if last is None else last

    def last(self, database_id: int, sequence: Sequence) -> int | None:
        """sys.sequences.last_used_value: NULL before the first use."""
        with self._lock:
            return self._state(database_id, sequence).last

    def is_exhausted(self, database_id: int, sequence: Sequence) -> bool:
        """Whether the next value would be beyond the limits of a sequence that does not cycle."""
        with self._lock:
            last = self._state(database_id, sequence).last
        return (
            last is not None
            and not sequence.is_cycling
            and not sequence.minimum <= last + sequence.increment <= sequence.maximum
        )

    def take(self, database_id: int, sequence: Sequence, count: int = 1) -> tuple[int, int, int]:
        """The next values.

        Args:
            database_id: where the sequence is.
            sequence: it.
            count: how many.

        Returns:
            The first and the last, and how often the sequence began again between them.

        Raises:
            SqlError: 11728 at the end of the sequence, 11732 for a range that goes past it.
        """
        with self._lock:
            state = self._state(database_id, sequence)
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
            self._reserve(database_id, sequence, state, last, anew=bool(cycles))
        return first, last, cycles

    def restart(self, connection: apsw.Connection, database_id: int, sequence: Sequence) -> None:
        """RESTART: the next value is the start; inside a write transaction."""
        key = (database_id, sequence.object_id)
        with self._lock:
            connection.execute(
                "DELETE FROM identity_values WHERE database_id = ? AND object_id = ?", key
            )
            self._states[key] = _State()

    def forget_database(self, database_id: int) -> None:
        """A database is gone: the next one may get its id."""
        with self._lock:
            self._states = {k: v for k, v in self._states.items() if k[0] != database_id}

    def _reserve(
        self, database_id: int, sequence: Sequence, state: _State, last: int, *, anew: bool
    ) -> None:
        """Write down how far the values go that may be given out from memory."""
        ahead = DEFAULT_CACHE if sequence.cache is None else sequence.cache
        further = "max" if sequence.increment > 0 else "min"
        kept = "excluded.last_value" if anew else f"{further}(last_value, excluded.last_value)"
        reserved = last + max(ahead - 1, 0) * sequence.increment
        reserved = max(sequence.minimum, min(sequence.maximum, reserved))
        with self._write() as connection:
            connection.execute(
                "INSERT INTO identity_values VALUES (?, ?, ?)"
                f" ON CONFLICT DO UPDATE SET last_value = {kept}",
                (database_id, sequence.object_id, reserved),
            )
        state.reserved = reserved


def _beginning(sequence: Sequence) -> int:
    """Where a cycle begins: the minimum, or the maximum of one that descends."""
    return sequence.minimum if sequence.increment > 0 else sequence.maximum


def _exhausted(sequence: Sequence) -> SqlError:
    """11728."""
    return SqlError(
        11728,
        f"The sequence object '{sequence.name}' has reached its minimum or maximum value. Restart"
        " the sequence object to allow new values to be generated.",
    )


def _range_too_large(sequence: Sequence) -> SqlError:
    """11732."""
    return SqlError(
        11732,
        f"The requested range for sequence object '{sequence.name}' exceeds the maximum or minimum"
        " limit. Retry with a smaller range.",
    )
