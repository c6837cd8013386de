"""Partition functions and schemes, partitioned tables, and switching partitions.

A partition is no storage of its own here: it is the rows whose partitioning column lies in a range.
Switching moves rows from one table to another. SQL Server changes metadata only: it writes no log
record for them, so no reader of the log sees it. The ids of the two partitions change places: an id
goes with its rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.storage.catalog_store import table_to_text
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope
from tailrace_emulator.storage.filegroups import PRIMARY_ID, find_filegroup
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Column, Table

_FUNCTIONS: Final = "partition_functions"
_SCHEMES: Final = "partition_schemes"
FIRST_ID: Final = 65536
"""Ids of partition functions, and of schemes as data spaces, begin here in SQL Server."""


@dataclass(frozen=True, slots=True)
class PartitionFunction:
    """CREATE PARTITION FUNCTION: a type, and boundaries in ascending order.

    ``right`` says that a boundary belongs to the partition on its right.
    """

    function_id: int
    name: str
    type: SqlType
    right: bool
    boundaries: tuple[StorageValue, ...]

    @property
    def partition_count(self) -> int:
        """One more than there are boundaries."""
        return len(self.boundaries) + 1


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """CREATE PARTITION SCHEME: which filegroup each partition of a function lies in."""

    data_space_id: int
    name: str
    function: str
    filegroups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a table, or with number None a whole table that has no partitions."""

    table: Table
    number: int | None
    function: PartitionFunction | None = None

    @property
    def index(self) -> int:
        """Its place among the table's partitions, from 0."""
        return (self.number or 1) - 1

    @property
    def key(self) -> int:
        """Base of the ids of the partition in its heap and indexes; unique in a database."""
        keys = self.table.partition_keys
        return keys[self.index] if self.index < len(keys) else self._first_key(self.index)

    def with_key(self, key: int) -> Table:
        """Its table, with another key for this partition."""
        missing = range(len(self.table.partition_keys), self.index + 1)
        keys = [*self.table.partition_keys, *map(self._first_key, missing)]
        keys[self.index] = key
        return replace(self.table, partition_keys=tuple(keys))

    def _first_key(self, index: int) -> int:
        return (index << 32) + self.table.object_id

    def condition(self) -> tuple[str, tuple[StorageValue, ...]]:
        """SQLite text that is true of its rows, and the text's values."""
        function, number = self.function, self.number
        if function is None or number is None:
            return "1", ()
        column = partition_column(self.table).sqlite_name
        low_sign, high_sign = (">=", "<") if function.right else (">", "<=")
        terms: list[str] = []
        values: list[StorageValue] = []
        if number > 1:
            terms.append(f"{column} {low_sign} ?")
            values.append(function.boundaries[number - 2])
        if number <= len(function.boundaries):
            upper = f"{column} {high_sign} ?"
            terms.append(f"({column} IS NULL OR {upper})" if number == 1 else upper)
            values.append(function.boundaries[number - 1])
        return " AND ".join(terms) or "1", tuple(values)


def partition_functions(database: Database) -> list[PartitionFunction]:
    """The partition functions of a database."""
    return [
        PartitionFunction(
            raw["function_id"],
            raw["name"],
            SqlType(**raw["type"]),
            raw["right"],
            tuple(_value(v) for v in raw["boundaries"]),
        )
        for raw in _stored(database, _FUNCTIONS)
    ]


def partition_schemes(database: Database) -> list[PartitionScheme]:
    """The partition schemes of a database."""
    return [
        PartitionScheme(**{**raw, "filegroups": tuple(raw["filegroups"])})
        for raw in _stored(database, _SCHEMES)
    ]


def find_function(database: Database, name: str) -> PartitionFunction | None:
    """The partition function of that name, case-insensitively, or None."""
    folded = name.casefold()
    return next((f for f in partition_functions(database) if f.name.casefold() == folded), None)


def find_scheme(database: Database, name: str) -> PartitionScheme | None:
    """The partition scheme of that name, case-insensitively, or None."""
    folded = name.casefold()
    return next((s for s in partition_schemes(database) if s.name.casefold() == folded), None)


def save_functions(
    target: DdlTarget, database: Database, functions: list[PartitionFunction]
) -> None:
    """Replaces the partition functions of a database."""
    rows = [
        {
            "function_id": f.function_id,
            "name": f.name,
            "type": {name: getattr(f.type, name) for name in SqlType.__dataclass_fields__},
            "right": f.right,
            "boundaries": [{"hex": v.hex()} if isinstance(v, bytes) else v for v in f.boundaries],
        }
        for f in functions
    ]
    _save(target, database, _FUNCTIONS, rows)


def save_schemes(target: DdlTarget, database: Database, schemes: list[PartitionScheme]) -> None:
    """Replaces the partition schemes of a database."""
    rows = [
        {
            "data_space_id": s.data_space_id,
            "name": s.name,
            "function": s.function,
            "filegroups": list(s.filegroups),
        }
        for s in schemes
    ]
    _save(target, database, _SCHEMES, rows)


def _stored(database: Database, option: str) -> list[dict[str, Any]]:
    stored = database.options.get(option)
    rows: list[dict[str, Any]] = json.loads(stored) if isinstance(stored, str) else []
    return rows


def _save(target: DdlTarget, database: Database, option: str, rows: list[dict[str, Any]]) -> None:
    with ddl_scope(target, database) as connection:
        database.set_option(option, json.dumps(rows), connection)


def _value(stored: Any) -> StorageValue:
    if isinstance(stored, dict):
        return bytes.fromhex(stored["hex"])
    value: StorageValue = stored
    return value


# Tables -----------------------------------------------------------------------------------------


def place_table(target: DdlTarget, database: Database, table: Table) -> Table:
    """Stores a table whose partition scheme or filegroup was set; returns it."""
    with ddl_scope(target, database, table) as connection:
        database.put_table(connection, table, table_to_text(table))
        return table


def data_space_id(database: Database, table: Table) -> int:
    """Where a table lies: the id of its partition scheme or filegroup in sys.data_spaces."""
    if table.partition_scheme:
        scheme = find_scheme(database, table.partition_scheme)
        return scheme.data_space_id if scheme is not None else PRIMARY_ID
    group = find_filegroup(database, table.filegroup) if table.filegroup else None
    return group.data_space_id if group is not None else PRIMARY_ID


def function_of(database: Database, table: Table) -> PartitionFunction | None:
    """The partition function of a partitioned table, or None."""
    if table.partition_scheme is None:
        return None
    scheme = find_scheme(database, table.partition_scheme)
    return find_function(database, scheme.function) if scheme is not None else None


def partition_column(table: Table) -> Column:
    """The column by which a partitioned table is partitioned."""
    column = table.column_by_id(table.partition_column_id or 0)
    if column is None:
        raise SqlError(INTERNAL, f"Table '{table.name}' has lost its partitioning column.")
    return column


def partitions_of(database: Database, table: Table) -> list[Partition]:
    """All partitions of a table; of one that is not partitioned, the table itself."""
    function = function_of(database, table)
    if function is None:
        return [Partition(table, None)]
    return [Partition(table, n, function) for n in range(1, function.partition_count + 1)]


def switch(target: DdlTarget, database: Database, source: Partition, destination: Partition) -> int:
    """Moves the rows of one partition into another, empty one; returns how many.

    Raises:
        SqlError: 4904 or 4905 when the destination holds rows, 4972 or 4982 when a row lies
            outside its range.
    """
    engine = database.engine
    with ddl_scope(target, database, source.table, destination.table) as connection:
        from_name, to_name = source.table.sqlite_name, destination.table.sqlite_name
        wanted, values = source.condition()
        inside, bounds = destination.condition()
        if fetch(connection, f'SELECT 1 FROM main."{to_name}" WHERE {inside} LIMIT 1', bounds):
            raise _not_empty(database, destination)
        _refuse_outside(connection, database, source, destination)
        for moved in (source.with_key(destination.key), destination.with_key(source.key)):
            database.put_table(connection, moved, table_to_text(moved))
        ((count,),) = fetch(
            connection, f'SELECT count(*) FROM main."{from_name}" WHERE {wanted}', values
        )
        if not count:
            return 0
        first = engine.take_rids(destination.table, count, connection)
        to_columns = ", ".join(c.sqlite_name for c in destination.table.columns)
        from_columns = ", ".join(c.sqlite_name for c in source.table.columns)
        connection.execute(
            f'INSERT INTO main."{to_name}" (rid, {to_columns}) SELECT'
            f" ? + row_number() OVER (ORDER BY rid) - 1, {from_columns}"
            f' FROM main."{from_name}" WHERE {wanted}',
            (first, *values),
        )
        connection.execute(f'DELETE FROM main."{from_name}" WHERE {wanted}', values)
        return int(count)


def full_name(database: Database, table: Table) -> str:
    """``database.schema.table``, as in the messages of SWITCH."""
    return f"{database.name}.{table.schema}.{table.name}"


def _not_empty(database: Database, destination: Partition) -> SqlError:
    name = full_name(database, destination.table)
    if destination.number is None:
        return messages.error(4905, name)
    return messages.error(4904, destination.number, name)


def _refuse_outside(
    connection: Any, database: Database, source: Partition, destination: Partition
) -> None:
    """Rows that do not belong into the destination's range."""
    if destination.function is None:
        return
    wanted, values = source.condition()
    column = partition_column(destination.table)
    position = destination.table.columns.index(column)
    inside, bounds = destination.condition()
    inside = inside.replace(column.sqlite_name, source.table.columns[position].sqlite_name)
    if not fetch(
        connection,
        f'SELECT 1 FROM main."{source.table.sqlite_name}" WHERE {wanted} AND NOT ({inside})'
        " LIMIT 1",
        (*values, *bounds),
    ):
        return
    names = full_name(database, source.table), full_name(database, destination.table)
    if source.number is not None:
        raise messages.error(4973, source.number, names[0], destination.number, names[1])
    raise messages.error(4982, names[0], destination.number, names[1])
