"""Statistics, files, sizes and connections: what tools show beside the objects.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-stats-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator import time_zones
from emulator.catalog.languages import LANGUAGES, US_ENGLISH
from emulator.catalog.object_views import datetime_of
from emulator.catalog.registry import Row, view
from emulator.catalog.relations import row_count, tables
from emulator.security.view_permissions import DATABASE_PERFORMANCE
from emulator.types import pack_guid

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database
    from emulator.storage.model import Statistics, Table

_PACKET_BYTES: Final = 4096


@view(
    "sys.stats",
    """object_id int!, name sysname, stats_id int!, auto_created bit, user_created bit,
 no_recompute bit, has_filter bit, filter_definition nvarchar(max), is_temporary bit,
 is_incremental bit, has_persisted_sample bit, stats_generation_method int!,
 stats_generation_method_desc varchar(80)!, auto_drop bit""",
)
def _stats(context: SessionContext, database: Database) -> Iterator[Row]:
    """Every index has statistics of its name; users' have numbers behind those."""
    for table in tables(context, database):
        for number, made in _users_statistics(database, table):
            yield (
                *(table.object_id, made.name, number, 0, 1, int(made.no_recompute)),
                *(int(bool(made.filter_definition)), made.filter_definition or None),
                *(0, 0, 0, 0, "Sort based statistics", 0),
            )
        for index in table.indexes:
            yield (
                *(table.object_id, index.name, index.index_id, 0, 0, 0, int(bool(index.filter))),
                *(index.filter_definition or None, 0, 0, 0, 0, "Sort based statistics", 0),
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


@view(
    "sys.allocation_units",
    """allocation_unit_id bigint!, type tinyint!, type_desc nvarchar(60), container_id bigint!,
 data_space_id int, total_pages bigint!, used_pages bigint!, data_pages bigint!""",
)
def _allocation_units(context: SessionContext, database: Database) -> Iterator[Row]:
    """One unit a partition; the embedded server has no pages, so rows count as a page's eighth."""
    for table in tables(context, database):
        pages = (row_count(context, table) + 7) // 8
        number = table.object_id << 8
        yield number, 1, "IN_ROW_DATA", number, 1, pages, pages, pages


@view(
    "sys.dm_db_partition_stats",
    """partition_id bigint, object_id int!, index_id int!, partition_number int!,
 in_row_data_page_count bigint, in_row_used_page_count bigint, in_row_reserved_page_count bigint,
 lob_used_page_count bigint, lob_reserved_page_count bigint, row_overflow_used_page_count bigint,
 row_overflow_reserved_page_count bigint, used_page_count bigint, reserved_page_count bigint,
 row_count bigint""",
    DATABASE_PERFORMANCE,
)
def _partition_stats(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        count = row_count(context, table)
        pages = (count + 7) // 8
        ids = {index.index_id for index in table.indexes}
        if not any(index.clustered for index in table.indexes):
            ids.add(0)
        for index_id in sorted(ids):
            number = (table.object_id << 8) + index_id
            yield (
                *(number, table.object_id, index_id, 1, pages, pages, pages, 0, 0, 0, 0),
                *(pages, pages, count),
            )


@view(
    "sys.master_files",
    """database_id int!, file_id int!, file_guid uniqueidentifier, type tinyint!,
 type_desc nvarchar(60), data_space_id int!, name sysname!, physical_name nvarchar(260)!,
 state tinyint, state_desc nvarchar(60), size int!, max_size int!, growth int!,
 is_media_read_only bit!, is_read_only bit!, is_sparse bit!, is_percent_growth bit!""",
)
def _master_files(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database in context.engine.databases.values():
        number, name = database.database_id, database.name
        rest = (0, "ONLINE", 1024)
        yield (
            *(number, 1, pack_guid(database.guid), 0, "ROWS", 1, name, f"{name}.mdf"),
            *(*rest, -1, 8192, 0, 0, 0, 0),
        )
        yield (
            *(number, 2, pack_guid(database.recovery_fork_guid), 1, "LOG", 0, f"{name}_log"),
            *(f"{name}_log.ldf", *rest, 268435456, 8192, 0, 0, 0, 0),
        )


@view(
    "sys.dm_exec_connections",
    """session_id int, most_recent_session_id int, connect_time datetime!,
 net_transport nvarchar(40)!, protocol_type nvarchar(40), protocol_version int, endpoint_id int,
 encrypt_option nvarchar(40)!, auth_scheme nvarchar(40)!, node_affinity smallint!, num_reads int,
 num_writes int, last_read datetime, last_write datetime, net_packet_size int,
 client_net_address varchar(48), client_tcp_port int, local_net_address varchar(48),
 local_tcp_port int, connection_id uniqueidentifier!, parent_connection_id uniqueidentifier,
 most_recent_sql_handle varbinary(64)""",
)
def _connections(context: SessionContext, database: Database) -> Iterator[Row]:
    """The connection that asks; it knows no other."""
    now = datetime_of(context.engine.clock.now_ticks())
    yield (
        *(context.session_id, context.session_id, now, "TCP", "TSQL", 1946157060, 4, "TRUE"),
        *("SQL", 0, 1, 1, now, now, _PACKET_BYTES, "127.0.0.1", None, "127.0.0.1", None),
        *(pack_guid(database.guid), None, None),
    )


@view(
    "sys.dm_os_host_info",
    """host_platform nvarchar(256)!, host_distribution nvarchar(256)!, host_release nvarchar(256)!,
 host_service_pack_level nvarchar(256)!, host_sku int, os_language_version int!,
 host_architecture nvarchar(256)!""",
)
def _host_info(_context: SessionContext, _database: Database) -> Iterator[Row]:
    yield "Linux", "Tailrace embedded SQL Server", "", "", None, 0, "X64"


@view(
    "sys.xml_schema_collections",
    """xml_collection_id int!, schema_id int!, principal_id int, name sysname!,
 create_date datetime!, modify_date datetime!""",
)
def _xml_schema_collections(_context: SessionContext, _database: Database) -> Iterator[Row]:
    created = datetime_of(0)
    yield 1, 4, None, "sys", created, created


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


@view(
    "sys.syslanguages",
    """langid smallint!, dateformat nchar(3)!, datefirst tinyint!, upgrade int, name sysname!,
 alias sysname, months nvarchar(372), shortmonths nvarchar(132), days nvarchar(217), lcid int!,
 msglangid smallint!""",
)
def _syslanguages(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for each in LANGUAGES:
        yield (
            *(each.langid, each.dateformat, each.datefirst, 0, each.name, each.alias),
            "January,February,March,April,May,June,July,August,September,October,November,December",
            "Jan,Feb,Mar,Apr,May,Jun,Jul,Aug,Sep,Oct,Nov,Dec",
            "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
            *(each.lcid, US_ENGLISH.lcid),
        )
