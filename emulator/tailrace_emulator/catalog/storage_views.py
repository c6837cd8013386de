"""Statistics, files, sizes and connections: what tools show next to the objects.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-stats-transact-sql
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.languages import LANGUAGES, US_ENGLISH
from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.partition_views import stored_partitions
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.relations import tables
from tailrace_emulator.catalog.session_registry import visible_sessions
from tailrace_emulator.security.view_permissions import DATABASE_PERFORMANCE
from tailrace_emulator.storage.partitions import data_space_id
from tailrace_emulator.values import time_zones
from tailrace_emulator.values.types import pack_guid

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Statistics, Table

_PACKET_BYTES: Final = 4096


_STATS: Final = Columns(
    """object_id int!, name sysname, stats_id int!, auto_created bit = 0, user_created bit = 1,
 no_recompute bit, has_filter bit, filter_definition nvarchar(max), is_temporary bit = 0,
 is_incremental bit = 0, has_persisted_sample bit = 0, stats_generation_method int! = 0,
 stats_generation_method_desc varchar(80)! = 'Sort based statistics', auto_drop bit = 0"""
)


@view("sys.stats", _STATS)
def _stats(context: SessionContext, database: Database) -> Iterator[Row]:
    """Every index has statistics of its name; users' have numbers after those."""
    for table in tables(context, database):
        for number, made in _users_statistics(database, table):
            yield _STATS.row(
                object_id=table.object_id,
                name=made.name,
                stats_id=number,
                no_recompute=int(made.no_recompute),
                has_filter=int(bool(made.filter_definition)),
                filter_definition=made.filter_definition or None,
            )
        for index in table.indexes:
            yield _STATS.row(
                object_id=table.object_id,
                name=index.name,
                stats_id=index.index_id,
                user_created=0,
                no_recompute=0,
                has_filter=int(bool(index.filter)),
                filter_definition=index.filter_definition or None,
            )


def _users_statistics(database: Database, table: Table) -> Iterator[tuple[int, Statistics]]:
    """Each with its id: they follow the indexes', so that none is given twice."""
    made = database.state.statistics.get(table.object_id, ())
    first = max((index.index_id for index in table.indexes), default=1) + 1
    return enumerate(made, first)


@view(
    "sys.stats_columns",
    "object_id int!, stats_id int!, stats_column_id int!, column_id int!",
)
def _stats_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        for number, made in _users_statistics(database, table):
            for ordinal, column_id in enumerate(made.column_ids, 1):
                yield table.object_id, number, ordinal, column_id
        for index in table.indexes:
            for ordinal, column_id in enumerate(index.column_ids, 1):
                yield table.object_id, index.index_id, ordinal, column_id


_ALLOCATION_UNITS: Final = Columns(
    """allocation_unit_id bigint!, type tinyint! = 1, type_desc nvarchar(60) = 'IN_ROW_DATA',
 container_id bigint!, data_space_id int = 1, total_pages bigint!, used_pages bigint!,
 data_pages bigint!"""
)


@view("sys.allocation_units", _ALLOCATION_UNITS)
def _allocation_units(context: SessionContext, database: Database) -> Iterator[Row]:
    """One unit a partition; the embedded server has no pages, so rows count as a page's eighth."""
    for stored in stored_partitions(context, database):
        pages = (stored.rows + 7) // 8
        yield _ALLOCATION_UNITS.row(
            allocation_unit_id=stored.id,
            container_id=stored.id,
            data_space_id=data_space_id(database, stored.table),
            total_pages=pages,
            used_pages=pages,
            data_pages=pages,
        )


_DM_DB_PARTITION_STATS: Final = Columns(
    """partition_id bigint, object_id int!, index_id int!, partition_number int! = 1,
 in_row_data_page_count bigint, in_row_used_page_count bigint,
 in_row_reserved_page_count bigint, lob_used_page_count bigint = 0,
 lob_reserved_page_count bigint = 0, row_overflow_used_page_count bigint = 0,
 row_overflow_reserved_page_count bigint = 0, used_page_count bigint,
 reserved_page_count bigint, row_count bigint"""
)


@view("sys.dm_db_partition_stats", _DM_DB_PARTITION_STATS, DATABASE_PERFORMANCE)
def _partition_stats(context: SessionContext, database: Database) -> Iterator[Row]:
    for stored in stored_partitions(context, database):
        pages = (stored.rows + 7) // 8
        yield _DM_DB_PARTITION_STATS.row(
            partition_id=stored.id,
            object_id=stored.table.object_id,
            index_id=stored.index_id,
            partition_number=stored.number,
            in_row_data_page_count=pages,
            in_row_used_page_count=pages,
            in_row_reserved_page_count=pages,
            used_page_count=pages,
            reserved_page_count=pages,
            row_count=stored.rows,
        )


_MASTER_FILES: Final = Columns(
    """database_id int!, file_id int!, file_guid uniqueidentifier, type tinyint!,
 type_desc nvarchar(60), data_space_id int!, name sysname!, physical_name nvarchar(260)!,
 state tinyint = 0, state_desc nvarchar(60) = 'ONLINE', size int! = 1024, max_size int!,
 growth int! = 8192, is_media_read_only bit! = 0, is_read_only bit! = 0, is_sparse bit! = 0,
 is_percent_growth bit! = 0"""
)


@view("sys.master_files", _MASTER_FILES)
def _master_files(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database in context.engine.databases.values():
        name = database.name
        yield _MASTER_FILES.row(
            database_id=database.database_id,
            file_id=1,
            file_guid=pack_guid(database.guid),
            type=0,
            type_desc="ROWS",
            data_space_id=1,
            name=name,
            physical_name=f"{name}.mdf",
            max_size=-1,
        )
        yield _MASTER_FILES.row(
            database_id=database.database_id,
            file_id=2,
            file_guid=pack_guid(database.recovery_fork_guid),
            type=1,
            type_desc="LOG",
            data_space_id=0,
            name=f"{name}_log",
            physical_name=f"{name}_log.ldf",
            max_size=268435456,
        )


_DM_EXEC_CONNECTIONS: Final = Columns(
    """session_id int, most_recent_session_id int, connect_time datetime!,
 net_transport nvarchar(40)! = 'TCP', protocol_type nvarchar(40) = 'TSQL',
 protocol_version int = 1946157060, endpoint_id int = 4, encrypt_option nvarchar(40)! = 'TRUE',
 auth_scheme nvarchar(40)! = 'SQL', node_affinity smallint! = 0, num_reads int = 1,
 num_writes int = 1, last_read datetime, last_write datetime, net_packet_size int,
 client_net_address varchar(48) = '127.0.0.1', client_tcp_port int,
 local_net_address varchar(48) = '127.0.0.1', local_tcp_port int,
 connection_id uniqueidentifier!, parent_connection_id uniqueidentifier,
 most_recent_sql_handle varbinary(64)"""
)


@view("sys.dm_exec_connections", _DM_EXEC_CONNECTIONS)
def _connections(context: SessionContext, database: Database) -> Iterator[Row]:
    """The connections of the sessions that one sees."""
    now = datetime_of(context.engine.clock.now_ticks())
    for session in visible_sessions(context):
        made = uuid.uuid5(database.guid, f"{session.session_id} {session.login_ticks}")
        yield _DM_EXEC_CONNECTIONS.row(
            session_id=session.session_id,
            most_recent_session_id=session.session_id,
            connect_time=datetime_of(session.login_ticks) if session.login_ticks else now,
            last_read=now,
            last_write=now,
            net_packet_size=_PACKET_BYTES,
            connection_id=pack_guid(made),
        )


_DM_OS_HOST_INFO: Final = Columns(
    """host_platform nvarchar(256)! = 'Linux',
 host_distribution nvarchar(256)! = 'Tailrace embedded SQL Server',
 host_release nvarchar(256)! = '', host_service_pack_level nvarchar(256)! = '', host_sku int,
 os_language_version int! = 0, host_architecture nvarchar(256)! = 'X64'"""
)


@view("sys.dm_os_host_info", _DM_OS_HOST_INFO)
def _host_info(_context: SessionContext, _database: Database) -> Iterator[Row]:
    yield _DM_OS_HOST_INFO.row()


_XML_SCHEMA_COLLECTIONS: Final = Columns(
    """xml_collection_id int! = 1, schema_id int! = 4, principal_id int, name sysname! = 'sys',
 create_date datetime!, modify_date datetime!"""
)


@view("sys.xml_schema_collections", _XML_SCHEMA_COLLECTIONS)
def _xml_schema_collections(_context: SessionContext, _database: Database) -> Iterator[Row]:
    created = datetime_of(0)
    yield _XML_SCHEMA_COLLECTIONS.row(create_date=created, modify_date=created)


@view(
    "sys.time_zone_info",
    "name sysname!, current_utc_offset nvarchar(6)!, is_currently_dst bit!",
)
def _time_zone_info(context: SessionContext, _database: Database) -> Iterator[Row]:
    now = context.engine.clock.now_ticks()
    for name in time_zones.WINDOWS_ZONES:
        minutes = time_zones.offset_at(now, name)
        shown = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
        yield name, shown, int(time_zones.is_daylight_saving(now, name))


_SYSLANGUAGES: Final = Columns(
    """langid smallint!, dateformat nchar(3)!, datefirst tinyint!, upgrade int = 0, name sysname!,
 alias sysname, months nvarchar(372), shortmonths nvarchar(132), days nvarchar(217), lcid int!,
 msglangid smallint!"""
)


@view("sys.syslanguages", _SYSLANGUAGES)
def _syslanguages(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for each in LANGUAGES:
        yield _SYSLANGUAGES.row(
            langid=each.langid,
            dateformat=each.dateformat,
            datefirst=each.datefirst,
            name=each.name,
            alias=each.alias,
            months="January,February,March,April,May,June,July,August,September,October,November,December",
            shortmonths="Jan,Feb,Mar,Apr,May,Jun,Jul,Aug,Sep,Oct,Nov,Dec",
            days="Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
            lcid=each.lcid,
            msglangid=US_ENGLISH.lcid,
        )
