"""Filegroups, files, partition functions and schemes, and partitions.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/partition-function-catalog-views-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emulator.catalog.object_views import datetime_of
from emulator.catalog.registry import Row, view
from emulator.catalog.relations import tables
from emulator.fetching import fetch
from emulator.storage.filegroups import filegroups
from emulator.storage.partitions import (
    Partition,
    find_function,
    function_of,
    partition_functions,
    partition_schemes,
)
from emulator.storage.values import value_text

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.database import Database


@view(
    "sys.database_files",
    """file_id int!, type tinyint!, type_desc nvarchar(60), data_space_id int!, name sysname!,
 physical_name nvarchar(260)!, state tinyint, state_desc nvarchar(60), size int!, max_size int!,
 growth int!""",
)
def _database_files(_context: SessionContext, database: Database) -> Iterator[Row]:
    name = database.name
    yield 1, 0, "ROWS", 1, name, f"{name}.mdf", 0, "ONLINE", 1024, -1, 8192
    yield 2, 1, "LOG", 0, f"{name}_log", f"{name}_log.ldf", 0, "ONLINE", 1024, 268435456, 8192
    number = 2
    for group in filegroups(database):
        for file in group.files:
            number += 1
            yield (
                *(number, 0, "ROWS", group.data_space_id, file, f"{file}.ndf", 0, "ONLINE"),
                *(1024, -1, 8192),
            )


@view(
    "sys.filegroups",
    """name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit,
 is_system bit, is_read_only bit""",
)
def _filegroups(_context: SessionContext, database: Database) -> Iterator[Row]:
    for group in filegroups(database):
        default = int(group.is_default)
        yield group.name, group.data_space_id, "FG", "ROWS_FILEGROUP", default, 0, 0


@view(
    "sys.data_spaces",
    """name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit,
 is_system bit""",
)
def _data_spaces(_context: SessionContext, database: Database) -> Iterator[Row]:
    for group in filegroups(database):
        default = int(group.is_default)
        yield group.name, group.data_space_id, "FG", "ROWS_FILEGROUP", default, 0
    for scheme in partition_schemes(database):
        yield scheme.name, scheme.data_space_id, "PS", "PARTITION_SCHEME", 0, 0


@view(
    "sys.partition_functions",
    """name sysname!, function_id int!, type char(2)!, type_desc nvarchar(60), fanout int!,
 boundary_value_on_right bit!, is_system bit!, create_date datetime!, modify_date datetime!""",
)
def _partition_functions(_context: SessionContext, database: Database) -> Iterator[Row]:
    created = datetime_of(database.create_ticks)
    for function in partition_functions(database):
        yield (
            *(function.name, function.function_id, "R ", "RANGE", function.partition_count),
            *(int(function.right), 0, created, created),
        )


@view(
    "sys.partition_schemes",
    """name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit,
 is_system bit, function_id int!""",
)
def _partition_schemes(_context: SessionContext, database: Database) -> Iterator[Row]:
    for scheme in partition_schemes(database):
        function = find_function(database, scheme.function)
        number = function.function_id if function is not None else 0
        yield scheme.name, scheme.data_space_id, "PS", "PARTITION_SCHEME", 0, 0, number


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


@view(
    "sys.partitions",
    """partition_id bigint!, object_id int!, index_id int!, partition_number int!,
 hobt_id bigint!, rows bigint, filestream_filegroup_id smallint!, data_compression tinyint!,
 data_compression_desc nvarchar(60)""",
)
def _partitions(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        function = function_of(database, table)
        numbers = range(1, function.partition_count + 1) if function is not None else (1,)
        index_ids = {index.index_id for index in table.indexes}
        if not any(index.clustered for index in table.indexes):
            index_ids.add(0)
        for number in numbers:
            condition, values = Partition(table, number, function).condition()
            ((count,),) = fetch(
                context.store.connection,
                f'SELECT count(*) FROM main."{table.sqlite_name}" WHERE {condition}',
                values,
            )
            for index_id in sorted(index_ids):
                key = (((number - 1) << 32) + table.object_id << 8) + index_id
                yield key, table.object_id, index_id, number, key, count, 0, 0, "NONE"
