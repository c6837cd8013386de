"""Sequences: their definitions, and the values that they give out.

Values are given out from memory, no transaction takes them back. Before a value beyond the reserve
is given out, the reserve is written down (CACHE values ahead), so that no value comes twice after a
crash: the rest of the reserve is lost then, as in SQL Server.

https://learn.microsoft.com/sql/t-sql/statements/create-sequence-transact-sql
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import apsw

from emulator.errors import SqlError
from emulator.log.query import fetch
from emulator.storage.catalog_store import delete_entry, put_entry
from emulator.storage.ddl_scope import DdlTarget, ddl_scope
from emulator.types import SqlType

if TYPE_CHECKING:
    from emulator.storage.database import CatalogState, Database

SEQUENCE: Final = "sequence"
DEFAULT_CACHE: Final = 50
"""How many values are reserved at once where CACHE has no size; SQL Server does not say its own."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence; ``cache`` 0 is NO CACHE, None a CACHE without size."""

    object_id: int
    schema: str
    name: str
    type: SqlType
    start: int
    increment: int
    minimum: int
    maximum: int
    is_cycling: bool = False
    cache: int | None = None
    create_ticks: int = 0
    modify_ticks: int = 0


@dataclass(slots=True)
class _State:
    """The last value given out (None before the first) and the last one reserved."""

    last: int | None = None
    reserved: int | None = None


class SequenceValues:
    """The current values of every sequence; thread-safe."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._lock = threading.Lock()
        self._states: dict[tuple[int, int], _State] = {}
        self._connection = connection

    def _state(self, database: Database, sequence: Sequence) -> _State:
        key = (database.database_id, sequence.object_id)
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

    def current(self, database: Database, sequence: Sequence) -> int:
        """sys.sequences.current_value: the start before the first use."""
        with self._lock:
            last = self._state(database, sequence).last
        return sequence.start if last is None else last

    def last(self, database: Database, sequence: Sequence) -> int | None:
        """sys.sequences.last_used_value: NULL before the first use."""
        with self._lock:
            return self._state(database, sequence).last

    def is_exhausted(self, database: Database, sequence: Sequence) -> bool:
        """Whether the next value would be beyond the limits of a sequence that does not cycle."""
        with self._lock:
            last = self._state(database, sequence).last
        return (
            last is not None
            and not sequence.is_cycling
            and not sequence.minimum <= last + sequence.increment <= sequence.maximum
        )

    def take(self, database: Database, sequence: Sequence, count: int = 1) -> tuple[int, int, int]:
        """The next values.

        Args:
            database: where the sequence is.
            sequence: it.
            count: how many.

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

    def restart(self, connection: apsw.Connection, database: Database, sequence: Sequence) -> None:
        """RESTART: the next value is the start; inside a write transaction."""
        key = (database.database_id, sequence.object_id)
        with self._lock:
            connection.execute(
                "DELETE FROM identity_values WHERE database_id = ? AND object_id = ?", key
            )
            self._states[key] = _State()

    def forget(self, database_id: int, object_id: int) -> None:
        """A sequence is dropped for good."""
        with self._lock:
            self._states.pop((database_id, object_id), None)

    def forget_database(self, database_id: int) -> None:
        """A database is gone: the next one may get its id."""
        with self._lock:
            self._states = {k: v for k, v in self._states.items() if k[0] != database_id}

    def _reserve(
        self, database: Database, sequence: Sequence, state: _State, last: int, *, anew: bool
    ) -> None:
        """Write down how far the values go that may be given out from memory."""
        ahead = DEFAULT_CACHE if sequence.cache is None else sequence.cache
        further = "max" if sequence.increment > 0 else "min"
        kept = "excluded.last_value" if anew else f"{further}(last_value, excluded.last_value)"
        reserved = last + max(ahead - 1, 0) * sequence.increment
        reserved = max(sequence.minimum, min(sequence.maximum, reserved))
        with database.engine.write() as connection:
            connection.execute(
                "INSERT INTO identity_values VALUES (?, ?, ?)"
                f" ON CONFLICT DO UPDATE SET last_value = {kept}",
                (database.database_id, sequence.object_id, reserved),
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


# Definitions ------------------------------------------------------------------------------------


def sequence_from_text(text: str) -> Sequence:
    """A sequence from its row in the catalog."""
    raw: dict[str, Any] = json.loads(text)
    return Sequence(**{**raw, "type": SqlType(**raw["type"])})


def load_sequence(state: CatalogState, text: str) -> None:
    """Takes a sequence of the catalog into the state."""
    sequence = sequence_from_text(text)
    state.sequences[sequence.schema.casefold(), sequence.name.casefold()] = sequence


def create_sequence(target: DdlTarget, database: Database, sequence: Sequence) -> Sequence:
    """Create a sequence; its object id is given out here.

    Raises:
        SqlError: 2714 name taken, 2760 unknown schema.
    """
    with ddl_scope(target, database) as connection:
        schema = database.schema_name(sequence.schema)
        if schema is None:
            raise SqlError(
                2760,
                f'The specified schema name "{sequence.schema}" either does not exist or you do'
                " not have permission to use it.",
            )
        name = (schema, sequence.name)
        taken = database.table(*name) or database.module(*name) or database.synonym(*name)
        if taken or database.sequence(*name):
            raise SqlError(
                2714,
                f"There is already an object named '{sequence.name}' in the database.",
                state=6,
            )
        now = database.engine.clock.now_ticks()
        object_id = database.allocate_object_id(connection)
        made = replace(
            sequence, object_id=object_id, schema=schema, create_ticks=now, modify_ticks=now
        )
        _put(connection, database, made)
        return made


def alter_sequence(
    target: DdlTarget, database: Database, sequence: Sequence, *, restart: bool
) -> None:
    """Replace a sequence's definition; ``restart`` begins again at its start."""
    with ddl_scope(target, database) as connection:
        changed = replace(sequence, modify_ticks=database.engine.clock.now_ticks())
        _put(connection, database, changed)
        if restart:
            database.engine.sequences.restart(connection, database, changed)


def drop_sequence(target: DdlTarget, database: Database, sequence: Sequence) -> None:
    """Drop a sequence."""
    with ddl_scope(target, database) as connection:
        delete_entry(connection, database.database_id, SEQUENCE, str(sequence.object_id))
        values = database.engine.sequences
        values.restart(connection, database, sequence)
        place = database.database_id, sequence.object_id
        database.engine.after_commit(lambda: values.forget(*place))
        database.engine.will_change_catalog()
        del database.state.sequences[sequence.schema.casefold(), sequence.name.casefold()]
        database.version += 1


def _put(connection: apsw.Connection, database: Database, sequence: Sequence) -> None:
    text = json.dumps(asdict(sequence))
    put_entry(connection, database.database_id, SEQUENCE, str(sequence.object_id), text)
    database.engine.will_change_catalog()
    database.state.sequences[sequence.schema.casefold(), sequence.name.casefold()] = sequence
    database.version += 1
