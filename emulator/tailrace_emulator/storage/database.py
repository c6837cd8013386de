"""One database: its schema objects, options and log.

Everything here is a cache of the catalog tables in SQLite, replaced object by object as DDL runs.
While a transaction with uncommitted DDL is open, its new objects are already here. A session that
uses one waits on its table lock, as with SQL Server's schema locks. A rollback restores the old
state.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import apsw

from tailrace_emulator.storage.catalog_state import CatalogState
from tailrace_emulator.storage.catalog_store import delete_entry, put_entry
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from collections import abc
    from contextlib import AbstractContextManager

    from tailrace_emulator.log.transaction_log import TransactionLog
    from tailrace_emulator.storage.catalog_state import (
        Module,
        OptionValue,
        Synonym,
    )
    from tailrace_emulator.storage.identity import IdentityValues
    from tailrace_emulator.storage.locks import LockManager
    from tailrace_emulator.storage.model import Sequence, Table, UserType
    from tailrace_emulator.storage.principal_model import Principal
    from tailrace_emulator.storage.sequence_values import SequenceValues
    from tailrace_emulator.storage.write_scope import Effect, WriteScope
    from tailrace_emulator.values.clock import Clock

Part = TypeVar("Part")

FIRST_OBJECT_ID: Final = 245_575_913
OBJECT_ID_STEP: Final = 16_000_057
"""User object ids step by this, modulo 2**31 - 1 (a prime: none comes twice), as in SQL Server."""

FIXED_SCHEMAS: Final = {"dbo": 1, "guest": 2, "INFORMATION_SCHEMA": 3, "sys": 4}
FIXED_PRINCIPALS: Final = {
    "public": (0, "R"),
    "dbo": (1, "S"),
    "guest": (2, "S"),
    "INFORMATION_SCHEMA": (3, "S"),
    "sys": (4, "S"),
    "db_owner": (16384, "R"),
    "db_accessadmin": (16385, "R"),
    "db_securityadmin": (16386, "R"),
    "db_ddladmin": (16387, "R"),
    "db_backupoperator": (16389, "R"),
    "db_datareader": (16390, "R"),
    "db_datawriter": (16391, "R"),
    "db_denydatareader": (16392, "R"),
    "db_denydatawriter": (16393, "R"),
}


class StorageWritePath(Protocol):
    """What is asked of the engine's write path."""

    @property
    def scope(self) -> WriteScope | None:
        """The write in progress, of any thread."""

    def will_change_catalog(self) -> None:
        """Remember the schema objects as they are, once per write, for a rollback."""

    def joins_write(self) -> bool:
        """Whether this thread is inside a write already, or in a transaction with DDL."""

    def pending_effects(self) -> abc.Sequence[Effect]:
        """What waits for the commit of this thread's write, in order."""

    def after_commit(self, effect: Effect) -> None:
        """Lets something happen when this thread's write commits."""


class StorageEngine(Protocol):
    """What a database needs of its engine, and what who has only the database may ask of it."""

    clock: Clock
    locks: LockManager
    databases: dict[str, Database]
    identities: IdentityValues
    sequences: SequenceValues

    @property
    def write_path(self) -> StorageWritePath:
        """The one path by which anything is written."""

    @property
    def extension_schemas(self) -> frozenset[str]:
        """Schemas that the engine's extension makes in databases, casefolded."""

    def part(self, kind: type[Part]) -> Part:
        """What the engine's extension adds to something, or keeps for it."""

    def connect(self) -> apsw.Connection:
        """A new connection."""

    def write(self, *tables: Table) -> AbstractContextManager[apsw.Connection]:
        """The serialised write path: everything inside is one SQLite transaction."""

    def database(self, name: str) -> Database:
        """The database of that name, case-insensitively; 911 when there is none."""

    def database_by_id(self, database_id: int) -> Database | None:
        """The database of that id, or None."""

    def forget_table(self, table: Table) -> None:
        """A table is dropped for good: what is kept of it by name goes, a while later."""

    def take_rids(self, table: Table, count: int, connection: apsw.Connection) -> int:
        """Reserve consecutive row ids of a table and return the first."""


class Database:
    """A database of the engine. Reading is safe from any thread; DDL goes through storage.ddl."""

    def __init__(
        self,
        engine: StorageEngine,
        database_id: int,
        name: str,
        create_ticks: int,
        collation: str,
        guid: uuid.UUID,
        recovery_fork_guid: uuid.UUID,
        log: TransactionLog,
    ) -> None:
        self.engine = engine
        self.database_id = database_id
        self.create_ticks = create_ticks
        self.collation = collation
        self.guid = guid
        self.recovery_fork_guid = recovery_fork_guid
        self.log = log
        self.version = 1
        """Bumped by every DDL statement: plans compiled under another version are stale."""
        self.state = CatalogState(name=name)

    @property
    def name(self) -> str:
        """The database's name as created."""
        return self.state.name

    @property
    def options(self) -> dict[str, OptionValue]:
        """Database options by name; write them with :meth:`set_option`."""
        return self.state.options

    @property
    def schemas(self) -> dict[str, int]:
        """Schema ids by name as created."""
        return self.state.schemas

    @property
    def principals(self) -> dict[str, Principal]:
        """Users and roles by name as created."""
        return self.state.principals

    @property
    def modules(self) -> dict[tuple[str, str], Module]:
        """Stored T-SQL objects by (schema, name), both casefolded."""
        return self.state.modules

    def schema_name(self, name: str) -> str | None:
        """A schema's name as created, found case-insensitively, or None."""
        folded = name.casefold()
        return next((known for known in self.state.schemas if known.casefold() == folded), None)

    def table(self, schema: str, name: str) -> Table | None:
        """The table of that name, case-insensitively, or None."""
        object_id = self.state.names.get((schema.casefold(), name.casefold()))
        return None if object_id is None else self.state.tables[object_id]

    def table_by_id(self, object_id: int) -> Table | None:
        """The table of that object id, or None."""
        return self.state.tables.get(object_id)

    def tables(self) -> list[Table]:
        """All tables, those that are ``is_ms_shipped`` too."""
        return list(self.state.tables.values())

    def module(self, schema: str, name: str) -> Module | None:
        """The stored T-SQL object of that name, case-insensitively, or None."""
        return self.state.modules.get((schema.casefold(), name.casefold()))

    def synonym(self, schema: str, name: str) -> Synonym | None:
        """The synonym of that name, case-insensitively, or None."""
        return self.state.synonyms.get((schema.casefold(), name.casefold()))

    def sequence(self, schema: str, name: str) -> Sequence | None:
        """The sequence of that name, case-insensitively, or None."""
        return self.state.sequences.get((schema.casefold(), name.casefold()))

    def user_type(self, schema: str, name: str) -> UserType | None:
        """The user-defined type of that name, case-insensitively, or None."""
        return self.state.user_types.get((schema.casefold(), name.casefold()))

    def triggers(self, object_id: int) -> list[Module]:
        """The triggers of a table, in the order in which they were created."""
        return [m for m in self.state.modules.values() if m.parent_id == object_id]

    def set_option(self, name: str, value: OptionValue, connection: apsw.Connection) -> None:
        """Set and persist an option inside the caller's :meth:`Engine.write`."""
        put_entry(connection, self.database_id, "option", name, json.dumps(value))
        self.engine.write_path.will_change_catalog()
        self.state.options[name] = value
        self.version += 1

    def allocate_object_id(self, connection: apsw.Connection) -> int:
        """A new object id, never one that was given out before.

        Args:
            connection: inside a write transaction.
        """
        count: int
        ((count,),) = fetch(
            connection,
            "INSERT INTO object_ids(database_id, taken) VALUES (?, 1)"
            " ON CONFLICT(database_id) DO UPDATE SET taken = taken + 1 RETURNING taken",
            (self.database_id,),
        )
        return (FIRST_OBJECT_ID + count * OBJECT_ID_STEP) % (2**31 - 1)

    # -- for storage.ddl ------------------------------------------------------------------------

    def put_table(self, connection: apsw.Connection, table: Table, text: str) -> None:
        """Add or replace a table; ``text`` is its serialised form."""
        put_entry(connection, self.database_id, "table", str(table.object_id), text)
        self.engine.write_path.will_change_catalog()
        self.forget_name(table.object_id)
        self.state.tables[table.object_id] = table
        self.state.names[table.schema.casefold(), table.name.casefold()] = table.object_id
        self.version += 1

    def remove_table(self, connection: apsw.Connection, table: Table) -> None:
        """Forget a table."""
        delete_entry(connection, self.database_id, "table", str(table.object_id))
        self.engine.write_path.will_change_catalog()
        self.forget_name(table.object_id)
        del self.state.tables[table.object_id]
        self.version += 1

    def forget_name(self, object_id: int) -> None:
        """Remove the name under which a table is known now, before it gets another."""
        known = self.state.tables.get(object_id)
        if known is not None:
            self.state.names.pop((known.schema.casefold(), known.name.casefold()), None)
