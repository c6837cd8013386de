"""The schema objects of a database: what DDL makes and what everything else reads.

Frozen: DDL replaces an object in its database, so a holder of one sees one version of it. A table's
SQLite columns are named by column id (``c1``), so renames cost nothing and names may hold any
character.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True)
class Identity:
    """IDENTITY(seed, increment)."""

    seed: int = 1
    increment: int = 1


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``default`` and ``computed`` are T-SQL text as written; column ids never return."""

    column_id: int
    name: str
    type: SqlType
    nullable: bool = True
    identity: Identity | None = None
    default: str | None = None
    default_name: str | None = None
    computed: str | None = None
    persisted: bool = False
    user_type_id: int = 0
    """Of a column that was declared with an alias type; 0 of a system type."""
    mask: str = ""
    """Its masking function, as sys.masked_columns shows it; empty without a mask."""

    @property
    def sqlite_name(self) -> str:
        """Its name inside SQLite."""
        return f"c{self.column_id}"


@dataclass(frozen=True, slots=True)
class FilterTerm:
    """A comparison in a filtered index's WHERE: all of its terms must hold.

    Attributes:
        operator: IS NULL, IS NOT NULL, IN, or a comparison sign.
        values: what it is compared with: numbers and text only, in the column's type.
    """

    column_id: int
    operator: str
    values: tuple[int | float | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """An index or the index of a key constraint; ``column_ids`` in key order.

    ``filter_definition`` is a filtered index's WHERE as the catalog shows it.
    """

    index_id: int
    name: str
    column_ids: tuple[int, ...]
    descending: tuple[bool, ...]
    unique: bool = False
    primary_key: bool = False
    unique_constraint: bool = False
    clustered: bool = False
    included_column_ids: tuple[int, ...] = ()
    filter_definition: str = ""
    filter: tuple[FilterTerm, ...] = ()
    is_kept: bool = True
    """False of an index that the catalog shows and SQLite does not have: it would cost every row
    written, and its uniqueness follows from that of another index."""
    ignore_dup_key: bool = False
    """Whether an INSERT leaves out rows whose key is there, and takes the others."""

    @property
    def used_column_ids(self) -> set[int]:
        """Every column that it depends on."""
        filtered = (term.column_id for term in self.filter)
        return {*self.column_ids, *self.included_column_ids, *filtered}


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key to ``referenced`` (object id)."""

    name: str
    column_ids: tuple[int, ...]
    referenced: int
    referenced_column_ids: tuple[int, ...]
    on_delete: str = "NO_ACTION"
    on_update: str = "NO_ACTION"
    is_disabled: bool = False
    is_not_trusted: bool = False
    """Added or enabled WITH NOCHECK: rows that were there may not satisfy it."""


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint, as T-SQL text; the flags are those of a foreign key."""

    name: str
    expression: str
    is_disabled: bool = False
    is_not_trusted: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics that a user made: their definition; nothing is counted.

    ``filter_definition`` is its WHERE as the catalog shows it; empty without.
    """

    name: str
    column_ids: tuple[int, ...]
    filter_definition: str = ""
    no_recompute: bool = False


@dataclass(frozen=True, slots=True)
class EncodedColumns:
    """Which columns of a table are kept a second time, encoded for clients (encoded_rows.py).

    Attributes:
        first: position of the first of them.
        end: position after the last.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a database: a user's, or ``is_ms_shipped`` of what stands on the engine."""

    object_id: int
    database_id: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    create_ticks: int = 0
    modify_ticks: int = 0
    is_ms_shipped: bool = False
    is_tracked: bool = False
    """Whether the log has its changes, with full images, for its readers."""
    next_column_id: int = field(default=0)
    tracked_below_column_id: int = 0
    """Of a tracked table: its columns below this id were there when it was last enabled."""
    filegroup: str | None = None
    """Where it was asked to lie; None means the default filegroup."""
    partition_scheme: str | None = None
    """The scheme over which its rows are partitioned, with ``partition_column_id``."""
    partition_column_id: int | None = None
    partition_keys: tuple[int, ...] = ()
    """Base of the ids of each partition, by number; empty before the first SWITCH."""
    encoded: EncodedColumns | None = None
    """What of its rows is kept encoded; given when it is created."""
    sqlite_name: str = field(init=False, compare=False, repr=False)
    """Its name inside SQLite; the hidden row id column is ``rid``."""

    @property
    def kept_indexes(self) -> tuple[Index, ...]:
        """The indexes that SQLite has too."""
        return tuple(index for index in self.indexes if index.is_kept)

    def __post_init__(self) -> None:
        """Every statement needs the name several times."""
        object.__setattr__(self, "sqlite_name", f"t{self.database_id}_{self.object_id}")

    @property
    def primary_key(self) -> Index | None:
        """The primary key's index."""
        return next((index for index in self.indexes if index.primary_key), None)

    def column(self, name: str) -> Column | None:
        """The column of that name, case-insensitively, or None."""
        folded = name.casefold()
        return next((c for c in self.columns if c.name.casefold() == folded), None)

    def column_by_id(self, column_id: int) -> Column | None:
        """The column of that id, or None when it was dropped."""
        return next((c for c in self.columns if c.column_id == column_id), None)


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
    generation: int = 0
    """How often it began again (RESTART): each time with a counter of its own, so that the one
    before is still there when a transaction takes the RESTART back."""


@dataclass(frozen=True, slots=True)
class UserType:
    """A type of a database.

    Attributes:
        user_type_id: its id in sys.types.
        type: what an alias type stands for; None of a table type.
        nullable: of an alias type: what columns are that say neither NULL nor NOT NULL.
        object_id: of a table type: the id of its table (type_table_object_id).
        columns: of a table type.
        indexes: of a table type: its keys.
        text: of a table type: the CREATE TYPE statement.
    """

    user_type_id: int
    schema: str
    name: str
    type: SqlType | None = None
    nullable: bool = True
    object_id: int = 0
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    text: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it is a table type."""
        return self.type is None
