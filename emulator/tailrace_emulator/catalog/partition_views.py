"""Filegroups, files, partition functions and schemes, and partitions.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/partition-function-catalog-views-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.relations import tables
from tailrace_emulator.storage.filegroups import filegroups
from tailrace_emulator.storage.partitions import (
    Partition,
    find_function,
    partition_functions,
    partition_schemes,
    partitions_of,
)
from tailrace_emulator.storage.values import value_text
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Table


_DATABASE_FILES: Final = Columns(
    """file_id int!, type tinyint! = 0, type_desc nvarchar(60) = 'ROWS', data_space_id int!,
 name sysname!, physical_name nvarchar(260)!, state tinyint = 0,
 state_desc nvarchar(60) = 'ONLINE', size int! = 1024, max_size int! = -1, growth int! = 8192"""
)


@view("sys.database_files", _DATABASE_FILES)
def _database_files(_context: SessionContext, database: Database) -> Iterator[Row]:
    name = database.name
    yield _DATABASE_FILES.row(file_id=1, data_space_id=1, name=name, physical_name=f"{name}.mdf")
    yield _DATABASE_FILES.row(
        file_id=2,
        type=1,
        type_desc="LOG",
        data_space_id=0,
        name=f"{name}_log",
        physical_name=f"{name}_log.ldf",
        max_size=268435456,
    )
    number = 2
    for group in filegroups(database):
        for file in group.files:
            number += 1
            yield _DATABASE_FILES.row(
                file_id=number,
                data_space_id=group.data_space_id,
                name=file,
                physical_name=f"{file}.ndf",
            )


_FILEGROUPS: Final = Columns(
    """name sysname!, data_space_id int!, type char(2)! = 'FG',
 type_desc nvarchar(60) = 'ROWS_FILEGROUP', is_default bit, is_system bit = 0,
 is_read_only bit = 0"""
)


@view("sys.filegroups", _FILEGROUPS)
def _filegroups(_context: SessionContext, database: Database) -> Iterator[Row]:
    for group in filegroups(database):
        default = int(group.is_default)
        yield _FILEGROUPS.row(
            name=group.name, data_space_id=group.data_space_id, is_default=default
        )


_DATA_SPACES: Final = Columns(
    """name sysname!, data_space_id int!, type char(2)! = 'FG',
 type_desc nvarchar(60) = 'ROWS_FILEGROUP', is_default bit, is_system bit = 0"""
)


@view("sys.data_spaces", _DATA_SPACES)
def _data_spaces(_context: SessionContext, database: Database) -> Iterator[Row]:
    for group in filegroups(database):
        default = int(group.is_default)
        yield _DATA_SPACES.row(
            name=group.name, data_space_id=group.data_space_id, is_default=default
        )
    for scheme in partition_schemes(database):
        yield _DATA_SPACES.row(
            name=scheme.name,
            data_space_id=scheme.data_space_id,
            type="PS",
            type_desc="PARTITION_SCHEME",
            is_default=0,
        )


_PARTITION_FUNCTIONS: Final = Columns(
    """name sysname!, function_id int!, type char(2)! = 'R ', type_desc nvarchar(60) = 'RANGE',
 fanout int!, boundary_value_on_right bit!, is_system bit! = 0, create_date datetime!,
 modify_date datetime!"""
)


@view("sys.partition_functions", _PARTITION_FUNCTIONS)
def _partition_functions(_context: SessionContext, database: Database) -> Iterator[Row]:
    created = datetime_of(database.create_ticks)
    for function in partition_functions(database):
        yield _PARTITION_FUNCTIONS.row(
            name=function.name,
            function_id=function.function_id,
            fanout=function.partition_count,
            boundary_value_on_right=int(function.right),
            create_date=created,
            modify_date=created,
        )


_PARTITION_SCHEMES: Final = Columns(
    """name sysname!, data_space_id int!, type char(2)! = 'PS',
 type_desc nvarchar(60) = 'PARTITION_SCHEME', is_default bit = 0, is_system bit = 0,
 function_id int!"""
)


@view("sys.partition_schemes", _PARTITION_SCHEMES)
def _partition_schemes(_context: SessionContext, database: Database) -> Iterator[Row]:
    for scheme in partition_schemes(database):
        function = find_function(database, scheme.function)
        number = function.function_id if function is not None else 0
        yield _PARTITION_SCHEMES.row(
            name=scheme.name, data_space_id=scheme.data_space_id, function_id=number
        )


@view(
    "sys.partition_range_values",
    "function_id int!, boundary_id int!, parameter_id int!, value nvarchar(4000)",
)
def _partition_range_values(_context: SessionContext, database: Database) -> Iterator[Row]:
    """The type of ``value`` is nvarchar where SQL Server's is sql_variant."""
    for function in partition_functions(database):
        for number, value in enumerate(function.boundaries, 1):
            shown = None if value is None else value_text(value, function.type)
            yield function.function_id, number, 1, shown


_PARTITIONS: Final = Columns(
    """partition_id bigint!, object_id int!, index_id int!, partition_number int!, hobt_id bigint!,
 rows bigint, filestream_filegroup_id smallint! = 0, data_compression tinyint! = 0,
 data_compression_desc nvarchar(60) = 'NONE'"""
)


@view("sys.partitions", _PARTITIONS)
def _partitions(context: SessionContext, database: Database) -> Iterator[Row]:
    for stored in stored_partitions(context, database):
        yield _PARTITIONS.row(
            partition_id=stored.id,
            object_id=stored.table.object_id,
            index_id=stored.index_id,
            partition_number=stored.number,
            hobt_id=stored.id,
            rows=stored.rows,
        )


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A partition of a heap or an index: what SQL Server calls a hobt."""

    table: Table
    index_id: int
    number: int
    id: int
    rows: int


def stored_partitions(context: SessionContext, database: Database) -> Iterator[StoredPartition]:
    """Every partition of every heap and index of a database."""
    for table in tables(context, database):
        index_ids = {index.index_id for index in table.indexes}
        if not any(index.clustered for index in table.indexes):
            index_ids.add(0)
        for partition in partitions_of(database, table):
            count = _row_count(context, partition)
            for index_id in sorted(index_ids):
                number = (partition.key << 8) + index_id
                yield StoredPartition(table, index_id, partition.index + 1, number, count)


def _row_count(context: SessionContext, partition: Partition) -> int:
    """The committed rows of a partition; 0 of a temporary table."""
    table = partition.table
    if table.object_id < 0:
        return 0
    condition, values = partition.condition()
    ((count,),) = fetch(
        context.store.connection,
        f'SELECT count(*) FROM main."{table.sqlite_name}" WHERE {condition}',
        values,
    )
    return int(count)
