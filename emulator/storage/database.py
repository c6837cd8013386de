"""One database: its schema objects, options and log.

Everything here is a cache of the catalog tables in SQLite, replaced object by object as DDL runs.
While a transaction with uncommitted DDL is open, its new objects are already here; whoever uses
one waits on its table lock (as SQL Server's schema locks make them), and a rollback puts the old
state back.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import apsw

from emulator.log.query import fetch
from emulator.storage.catalog_store import delete_entry, put_entry
from emulator.storage.model import Column, Statistics, Table
from emulator.types import SqlType

if TYPE_CHECKING:
    from emulator.log.transaction_log import TransactionLog
    from emulator.storage.engine import Engine
    from emulator.storage.principals import Login, PermissionEntry, PermissionKey, Principal
    from emulator.storage.sequences import Sequence
    from emulator.storage.user_types import UserType

OptionValue = int | float | str | None

FIRST_OBJECT_ID: Final = 245_575_913
OBJECT_ID_STEP: Final = 16_000_057
"""User object ids step by this, modulo 2**31 - 1 (a prime: none comes twice), as in SQL Server."""

_CHECK_OPTION: Final = re.compile(r"\bWITH\s+CHECK\s+OPTION\s*;?\s*$", re.IGNORECASE)

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


@dataclass(frozen=True, slots=True)
class Module:
    """A stored T-SQL object: ``type`` P, V, FN, IF, TF or TR; ``text`` as it was written."""

    object_id: int
    schema: str
    name: str
    type: str
    text: str
    create_ticks: int = 0
    modify_ticks: int = 0
    parent_id: int = 0
    """Of a trigger: its table's object id."""
    events: str = ""
    """Of a trigger: INSERT, UPDATE and DELETE, separated by commas, in the order declared."""
    is_instead_of: bool = False
    is_disabled: bool = False
    uses_ansi_nulls: bool = True
    """As SET when it was created, and while it runs; so is the next."""
    uses_quoted_identifier: bool = True

    @property
    def has_check_option(self) -> bool:
        """Of a view: WITH CHECK OPTION."""
        return self.type == "V" and bool(_CHECK_OPTION.search(self.text))

    def fires_on(self, event: str) -> bool:
        """Whether it is an enabled trigger for INSERT, UPDATE or DELETE."""
        return not self.is_disabled and event in self.events.split(",")


@dataclass(frozen=True, slots=True)
class ModuleParameter:
    """A parameter of a procedure or function, as sys.parameters shows it.

    ``type`` is None of a table type; ``user_type_id`` is 0 of a system type. What a function
    returns is a parameter without a name.
    """

    name: str
    type: SqlType | None
    user_type_id: int = 0
    is_output: bool = False
    is_readonly: bool = False


PropertyKey = tuple[int, int, int, str]


@dataclass(frozen=True, slots=True)
class ExtendedProperty:
    """A property that sp_addextendedproperty gave to something.

    Attributes:
        class_id: 0 database, 1 object or column, 3 schema, 4 principal, 7 index.
        major_id: id of the object, schema or principal; 0 for the database.
        minor_id: column or index id; 0 for the object itself.
        name: the property.
        value: its text; NULL is None.
    """

    class_id: int
    major_id: int
    minor_id: int
    name: str
    value: str | None

    @property
    def key(self) -> PropertyKey:
        """What it is found by."""
        return self.class_id, self.major_id, self.minor_id, self.name.casefold()


@dataclass(frozen=True, slots=True)
class Synonym:
    """Another name for an object; ``base`` is the name that it stands for, in parts."""

    object_id: int
    schema: str
    name: str
    base: tuple[str, ...]
    create_ticks: int = 0


@dataclass(slots=True)
class CatalogState:
    """What DDL changes; copied before DDL and put back when it is rolled back."""

    tables: dict[int, Table] = field(default_factory=dict)
    names: dict[tuple[str, str], int] = field(default_factory=dict)
    schemas: dict[str, int] = field(default_factory=dict)
    principals: dict[str, Principal] = field(default_factory=dict)
    modules: dict[tuple[str, str], Module] = field(default_factory=dict)
    options: dict[str, OptionValue] = field(default_factory=dict)
    name: str = ""
    columns: dict[int, tuple[Column, ...]] = field(default_factory=dict)
    """Of views, by object id."""
    properties: dict[PropertyKey, ExtendedProperty] = field(default_factory=dict)
    synonyms: dict[tuple[str, str], Synonym] = field(default_factory=dict)
    sequences: dict[tuple[str, str], Sequence] = field(default_factory=dict)
    permissions: dict[PermissionKey, PermissionEntry] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    """Owners that somebody chose: see :func:`emulator.storage.principals.set_owner`."""
    logins: dict[str, Login] = field(default_factory=dict)
    """By name as created; of master only."""
    server_roles: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Member login ids by fixed server role's id; of master only."""
    user_types: dict[tuple[str, str], UserType] = field(default_factory=dict)
    parameters: dict[int, tuple[ModuleParameter, ...]] = field(default_factory=dict)
    """Of procedures and functions, by object id."""
    statistics: dict[int, tuple[Statistics, ...]] = field(default_factory=dict)
    """Those that users made, by their table's object id."""
    bindings: dict[int, frozenset[tuple[int, int]]] = field(default_factory=dict)
    """Of schema-bound modules, by object id: the ids of the objects that they refer to, each with
    those of its columns and 0 for itself."""

    def copy(self) -> CatalogState:
        """A copy that later changes leave alone."""
        return CatalogState(
            dict(self.tables),
            dict(self.names),
            dict(self.schemas),
            dict(self.principals),
            dict(self.modules),
            dict(self.options),
            self.name,
            dict(self.columns),
            dict(self.properties),
            dict(self.synonyms),
            dict(self.sequences),
            dict(self.permissions),
            dict(self.owners),
            dict(self.logins),
            dict(self.server_roles),
            dict(self.user_types),
            dict(self.parameters),
            dict(self.statistics),
            dict(self.bindings),
        )


class Database:
    """A database of the engine. Reading is safe from any thread; DDL goes through storage.ddl."""

    def __init__(
        self,
        engine: Engine,
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
        """All tables, those of schema cdc too."""
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
