"""The objects that a statement looks up by name: what it waits for, and whether they are still so.

A transaction with DDL shows its objects in the catalog before it commits, and hides those that it
drops. A statement that looks up such a name waits for its end, as for SQL Server's schema locks.
DDL may wait for locks again afterwards. Once it holds the write path, nobody else can change the
catalog. If a name means something else by then, the statement begins again.

See: Transaction locking and row versioning guide, schema locks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.session_view import StatementRestart

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import CatalogState
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.engine import Engine
    from tailrace_emulator.storage.lock_state import LockOwner
    from tailrace_emulator.storage.work import Work

Objects = tuple[object, ...]
"""Everything that a name may mean, with the triggers of a table; compared by identity."""


class Transactions(Protocol):
    """The session's transactions, as far as looking up a name concerns them."""

    engine: Engine
    owner: LockOwner
    work: Work
    depth: int


class DefinitionsChanged(SqlError):
    """What a statement looked up was changed before its own DDL could begin: run it again.

    The runner of statements catches this; a client that sees it sees a deadlock error (1205).
    """

    def __init__(self, session_id: int = 0) -> None:
        super().__init__(**vars(messages.error(1205, session_id, "lock", state=53)))


class Lookups:
    """The names that one session's statement has looked up."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._found: list[tuple[Database, str, str, Objects]] = []

    def forget(self) -> None:
        """A statement begins or ends."""
        self._found.clear()

    def look_up(self, database: Database, schema: str, name: str) -> None:
        """Wait while another transaction's open DDL decides what a name means; remember it.

        Raises:
            StatementRestart: it waited within a statement whose view of the data is older.
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        waited = False
        while self._is_in_doubt(database, schema, name):
            self._wait()
            waited = True
        session = self._transactions
        if waited and session.depth and not session.work.view.snapshot:
            raise StatementRestart(session.owner.session_id)
        self._found.append((database, schema, name, _objects(database.state, schema, name)))

    def have_changed(self) -> bool:
        """Whether a name that the statement looked up means something else now."""
        return any(
            not _are_same(objects, _objects(database.state, schema, name))
            for database, schema, name, objects in self._found
        )

    def _is_in_doubt(self, database: Database, schema: str, name: str) -> bool:
        path = self._transactions.engine.write_path
        scope = path.scope
        if scope is None or scope.catalog is None or path.joins_write():
            return False
        before = scope.catalog.states.get(database.database_id)
        if before is None or scope is self._transactions.work.view.scope:
            return False
        now = _objects(database.state, schema, name)
        return not _are_same(_objects(before, schema, name), now)

    def _wait(self) -> None:
        session = self._transactions
        path = session.engine.write_path
        scope = path.scope
        if scope is not None:
            session.engine.locks.wait_for_write(
                session.owner, lambda: {scope.owner} if path.scope is scope else set()
            )


def _objects(state: CatalogState, schema: str, name: str) -> Objects:
    """What a name means in a state of the catalog."""
    key = (schema.casefold(), name.casefold())
    object_id = state.names.get(key)
    triggers: list[object] = []
    if object_id is not None:
        triggers = [m for m in list(state.modules.values()) if m.parent_id == object_id]
    return (
        None if object_id is None else state.tables.get(object_id),
        state.modules.get(key),
        state.synonyms.get(key),
        state.sequences.get(key),
        state.user_types.get(key),
        *triggers,
    )


def _are_same(one: Objects, other: Objects) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
