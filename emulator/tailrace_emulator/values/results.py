"""What executing a batch yields: events, in the order in which a client must see them.

Producers are batch.py and the system procedures; the consumer is server.py, which turns them into
TDS tokens. Nothing here knows of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace_emulator.values.types import SqlType, StorageValue


@dataclass(frozen=True, slots=True)
class ColumnMeta:
    """One column of a result set. ``type`` decides the bytes: it must be exact."""

    name: str
    type: SqlType
    nullable: bool = True
    identity: bool = False
    computed: bool = False


@dataclass(frozen=True, slots=True)
class ResultSet:
    """A result set begins."""

    columns: tuple[ColumnMeta, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows (storage values in column order) of the result set that began last."""

    rows: Sequence[tuple[StorageValue, ...]]


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows of which columns ``first`` to ``first + count`` come as one value, encoded already.

    Only for a consumer that asked for it (``SessionContext.takes_encoded``).
    """

    rows: Sequence[tuple[StorageValue, ...]]
    first: int
    count: int


@dataclass(slots=True)
class StatementDone:
    """A statement ended; ``count`` is None where it counts nothing or NOCOUNT is on.

    ``command`` is one of select, insert, update, delete, merge, other.
    """

    command: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """An informational message (PRINT, RAISERROR below 11, 'Changed database context')."""

    number: int
    text: str
    severity: int = 0
    state: int = 1
    procedure: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """An error that ended its statement but not the batch (the stream continues after it)."""

    number: int
    text: str
    severity: int
    state: int
    procedure: str
    line: int


@dataclass(frozen=True, slots=True)
class LanguageChanged:
    """SET LANGUAGE."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DatabaseChanged:
    """USE changed the current database; the collations go to the client where they differ."""

    old: str
    new: str
    old_collation: str | None = None
    new_collation: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionChanged:
    """A transaction began (``began``), committed or rolled back; for TDS ENVCHANGE 8, 9, 10."""

    kind: str  # began | committed | rolled_back
    descriptor: int


@dataclass(frozen=True, slots=True)
class ReturnStatus:
    """The return code of a procedure."""

    value: int


class ReturnValue(NamedTuple):
    """An OUTPUT parameter's final value; ``position`` is its argument's among those given."""

    name: str
    type: SqlType
    value: StorageValue
    position: int = 0


Event = (
    ResultSet
    | Rows
    | EncodedRows
    | StatementDone
    | Message
    | ErrorMessage
    | DatabaseChanged
    | LanguageChanged
    | TransactionChanged
    | ReturnStatus
    | ReturnValue
)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table-valued parameter, as a client sent them.

    Attributes:
        type_name: database, schema and name of its type; empty parts were left out.
        rows: storage values of all columns; those of ``defaults`` mean nothing.
        defaults: places of the columns that take their defaults.
    """

    type_name: tuple[str, ...]
    types: Sequence[SqlType]
    rows: Sequence[tuple[StorageValue, ...]]
    defaults: frozenset[int] = frozenset()


class Parameter(NamedTuple):
    """A parameter as a client sent it: ``name`` with its @, or empty when positional.

    ``position`` is where among the values for a text it came; ``is_default`` requests the
    procedure's own default, whatever value came with it.
    """

    name: str
    type: SqlType
    value: StorageValue
    output: bool = False
    table: TableRows | None = None
    position: int = 0
    is_default: bool = False
