"""Databases, configuration and dynamic views of the server.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-databases-transact-sql
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.configuration import configured_values
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.session_registry import visible_sessions
from tailrace_emulator.security.tokens import SA_SID, database_owner, login_by_id
from tailrace_emulator.values.types import pack_guid, pack_offset

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

COMPATIBILITY_LEVEL: Final = 160
SERVER_NAME: Final = "TAILRACE"

_RECOVERY_MODELS: Final = {
    "FULL": (1, "FULL"),
    "BULK_LOGGED": (2, "BULK_LOGGED"),
    "SIMPLE": (3, "SIMPLE"),
}


_DATABASES: Final = Columns(
    """name sysname!, database_id int!, source_database_id int, owner_sid varbinary(85),
 create_date datetime!, compatibility_level tinyint!, collation_name sysname,
 user_access tinyint = 0, user_access_desc nvarchar(60) = 'MULTI_USER', is_read_only bit,
 is_auto_close_on bit! = 0, is_auto_shrink_on bit = 0, state tinyint = 0,
 state_desc nvarchar(60) = 'ONLINE', is_in_standby bit = 0, is_cleanly_shutdown bit = 0,
 is_supplemental_logging_enabled bit = 0, snapshot_isolation_state tinyint,
 snapshot_isolation_state_desc nvarchar(60), is_read_committed_snapshot_on bit,
 recovery_model tinyint, recovery_model_desc nvarchar(60), page_verify_option tinyint = 2,
 page_verify_option_desc nvarchar(60) = 'CHECKSUM', is_auto_create_stats_on bit = 1,
 is_auto_create_stats_incremental_on bit = 0, is_auto_update_stats_on bit = 1,
 is_auto_update_stats_async_on bit = 0, is_ansi_null_default_on bit = 0,
 is_ansi_nulls_on bit = 0, is_ansi_padding_on bit = 0, is_ansi_warnings_on bit = 0,
 is_arithabort_on bit = 0, is_concat_null_yields_null_on bit = 0,
 is_numeric_roundabort_on bit = 0, is_quoted_identifier_on bit = 0,
 is_recursive_triggers_on bit = 0, is_cursor_close_on_commit_on bit = 0,
 is_local_cursor_default bit = 0, is_fulltext_enabled bit = 1, is_trustworthy_on bit = 0,
 is_db_chaining_on bit = 0, is_parameterization_forced bit = 0,
 is_master_key_encrypted_by_server bit! = 0, is_query_store_on bit = 0, is_published bit!,
 is_subscribed bit! = 0, is_merge_published bit! = 0, is_distributor bit! = 0,
 is_sync_with_backup bit! = 0, service_broker_guid uniqueidentifier!,
 is_broker_enabled bit! = 0, log_reuse_wait tinyint = 0,
 log_reuse_wait_desc nvarchar(60) = 'NOTHING', is_date_correlation_on bit! = 0,
 is_cdc_enabled bit!, is_encrypted bit = 0, is_honor_broker_priority_on bit = 0"""
)


@view("sys.databases", _DATABASES)
def _databases(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database in sorted(context.engine.databases.values(), key=lambda d: d.database_id):
        options = database.options
        snapshot = bool(options.get("snapshot_isolation_state"))
        recovery, described = _RECOVERY_MODELS[recovery_model(database)]
        facts = extension(context.engine).facts(database)
        yield _DATABASES.row(
            name=database.name,
            database_id=database.database_id,
            owner_sid=_owner_sid(context, database),
            create_date=datetime_of(database.create_ticks),
            compatibility_level=options.get("compatibility_level", COMPATIBILITY_LEVEL),
            collation_name=database.collation,
            is_read_only=int(bool(options.get("is_read_only"))),
            snapshot_isolation_state=int(snapshot),
            snapshot_isolation_state_desc="ON" if snapshot else "OFF",
            is_read_committed_snapshot_on=int(bool(options.get("is_read_committed_snapshot_on"))),
            recovery_model=recovery,
            recovery_model_desc=described,
            is_published=int(facts.is_published),
            service_broker_guid=pack_guid(database.guid),
            log_reuse_wait=6 if facts.log_waits else 0,
            log_reuse_wait_desc="REPLICATION" if facts.log_waits else "NOTHING",
            is_cdc_enabled=int(facts.is_captured),
        )


def _owner_sid(context: SessionContext, database: Database) -> bytes:
    login = login_by_id(context.engine, database_owner(database))
    return bytes.fromhex(login.sid if login is not None else SA_SID)


def recovery_model(database: Database) -> str:
    """SIMPLE, BULK_LOGGED or FULL."""
    chosen = database.options.get("recovery")
    if isinstance(chosen, str) and chosen.upper() in _RECOVERY_MODELS:
        return chosen.upper()
    return "SIMPLE" if database.name in {"master", "msdb", "tempdb"} else "FULL"


_DATABASE_RECOVERY_STATUS: Final = Columns(
    """database_id int!, database_guid uniqueidentifier, family_guid uniqueidentifier,
 last_log_backup_lsn int, recovery_fork_guid uniqueidentifier,
 first_recovery_fork_guid uniqueidentifier, fork_point_lsn int"""
)


@view("sys.database_recovery_status", _DATABASE_RECOVERY_STATUS)
def _database_recovery_status(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database in context.engine.databases.values():
        guid, fork = pack_guid(database.guid), pack_guid(database.recovery_fork_guid)
        yield _DATABASE_RECOVERY_STATUS.row(
            database_id=database.database_id,
            database_guid=guid,
            family_guid=guid,
            recovery_fork_guid=fork,
            first_recovery_fork_guid=fork,
        )


_CONFIGURATIONS: Final = Columns(
    """configuration_id int!, name nvarchar(35)!, value int, minimum int, maximum int,
 value_in_use int, description nvarchar(255)!, is_dynamic bit! = 1, is_advanced bit!"""
)


@view("sys.configurations", _CONFIGURATIONS)
def _configurations(context: SessionContext, _database: Database) -> Iterator[Row]:
    for option, value, running in configured_values(context.engine):
        yield _CONFIGURATIONS.row(
            configuration_id=option.configuration_id,
            name=option.name,
            value=value,
            minimum=option.minimum,
            maximum=option.maximum,
            value_in_use=running,
            description=option.description,
            is_advanced=int(option.advanced),
        )


@view(
    "sys.servers",
    "server_id int!, name sysname!, product sysname!, provider sysname!, is_linked bit!",
)
def _servers(_context: SessionContext, _database: Database) -> Iterator[Row]:
    yield 0, SERVER_NAME, "SQL Server", "SQLNCLI", 0


_DM_SERVER_SERVICES: Final = Columns(
    """servicename nvarchar(256)!, startup_type int = 2,
 startup_type_desc nvarchar(256)! = 'Automatic', status int, status_desc nvarchar(256)!,
 process_id int, last_startup_time datetimeoffset(7),
 service_account nvarchar(256)! = 'embedded', filename nvarchar(256)! = 'emulator',
 is_clustered nvarchar(1)! = 'N', cluster_nodename nvarchar(256),
 instant_file_initialization_enabled nvarchar(1)! = 'N'"""
)


@view("sys.dm_server_services", _DM_SERVER_SERVICES)
def _dm_server_services(context: SessionContext, _database: Database) -> Iterator[Row]:
    started = pack_offset(context.engine.database("tempdb").create_ticks, 0)
    services = extension(context.engine).services(context.engine)
    for name, runs in (("SQL Server (MSSQLSERVER)", True), *services):
        yield _DM_SERVER_SERVICES.row(
            servicename=name,
            status=4 if runs else 1,
            status_desc="Running" if runs else "Stopped",
            process_id=os.getpid() if runs else None,
            last_startup_time=started,
        )


_DM_EXEC_SESSIONS: Final = Columns(
    """session_id smallint!, login_time datetime!, host_name nvarchar(128),
 program_name nvarchar(128), login_name nvarchar(128)!, status nvarchar(30)! = 'running',
 context_info varbinary(128), is_user_process bit! = 1, text_size int!, language nvarchar(128),
 date_format nvarchar(3), date_first smallint!, quoted_identifier bit!, arithabort bit!,
 ansi_null_dflt_on bit!, ansi_defaults bit!, ansi_warnings bit!, ansi_padding bit!,
 ansi_nulls bit!, concat_null_yields_null bit!, transaction_isolation_level smallint!,
 lock_timeout int!, deadlock_priority int!, row_count bigint!, prev_error int!,
 database_id smallint!, open_transaction_count int!"""
)


@view("sys.dm_exec_sessions", _DM_EXEC_SESSIONS)
def _dm_exec_sessions(context: SessionContext, _database: Database) -> Iterator[Row]:
    for session in visible_sessions(context):
        yield _session_row(session, is_asking=session is context)


_LEVELS: Final = {
    "read uncommitted": 1,
    "read committed": 2,
    "repeatable read": 3,
    "serializable": 4,
    "snapshot": 5,
}


def _session_row(context: SessionContext, *, is_asking: bool) -> Row:
    options = context.options
    began = context.login_ticks or context.engine.clock.now_ticks()
    return _DM_EXEC_SESSIONS.row(
        session_id=context.session_id,
        login_time=datetime_of(began),
        status="running" if is_asking or context.is_running else "sleeping",
        host_name=context.host,
        program_name=context.application,
        login_name=context.security.login_name,
        context_info=context.context_info,
        text_size=options.textsize,
        language=options.language,
        date_format=options.dateformat,
        date_first=options.datefirst,
        quoted_identifier=int(options.quoted_identifier),
        arithabort=int(options.arithabort),
        ansi_null_dflt_on=int(options.ansi_null_dflt_on),
        ansi_defaults=int(options.ansi_defaults),
        ansi_warnings=int(options.ansi_warnings),
        ansi_padding=int(options.ansi_padding),
        ansi_nulls=int(options.ansi_nulls),
        concat_null_yields_null=int(options.concat_null_yields_null),
        transaction_isolation_level=_LEVELS.get(options.isolation, 2),
        lock_timeout=options.lock_timeout_ms,
        deadlock_priority=options.deadlock_priority,
        row_count=context.rowcount,
        prev_error=context.last_error,
        database_id=context.database.database_id,
        open_transaction_count=context.store.trancount,
    )
