"""What the catalog of a database holds in memory: the schema objects, by name or id.

DDL changes it; it is copied before that and put back when the transaction is rolled back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tailrace_emulator.storage.model import Column, Sequence, Statistics, Table, UserType
from tailrace_emulator.storage.principal_model import (
    Login,
    PermissionEntry,
    PermissionKey,
    Principal,
)
from tailrace_emulator.values.types import SqlType

OptionValue = int | float | str | None

_CHECK_OPTION: Final = re.compile(r"\bWITH\s+CHECK\s+OPTION\s*;?\s*$", re.IGNORECASE)


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
    """Owners that somebody chose: see :func:`tailrace_emulator.storage.principals.set_owner`."""
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
