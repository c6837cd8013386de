"""The T-SQL that turns change data capture on, and that grants a login what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.source.catalog.capture_catalog import METADATA_TABLES
from tailrace_publisher.source.connection.quoting import quote_name, quote_text
from tailrace_publisher.source.log.server_kind import ServerKind


def enable_database(database: str, kind: ServerKind | None) -> tuple[str, str]:
    """Enable a database; return the statement, and who may run it.

    See: sys.sp_cdc_enable_db (Transact-SQL), permissions; Change data capture (CDC) with Azure SQL
    Database, permissions; Using change data capture for Amazon RDS for SQL Server: nobody is
    sysadmin there, and a procedure of msdb stands for the server's.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-db-transact-sql
    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Appendix.SQLServer.CommonDBATasks.CDC.html

    Args:
        kind: None if it is unknown.
    """
    if kind is not None and kind.is_rds:
        return f"EXEC msdb.dbo.rds_cdc_enable_db {quote_text(database)}", "needs the master user"
    needed = "db_owner" if kind is not None and kind.is_single_database else "sysadmin"
    return "EXEC sys.sp_cdc_enable_db", f"needs {needed}"


@dataclass(frozen=True, slots=True)
class Captured:
    """The captured tables that are selected, and what else their rows and changes need.

    Attributes:
        roles: gating roles of their capture instances.
        has_masks: whether a column of a table or its change table has a mask.
        policies: security policies that filter rows of them: schema and name.
    """

    tables: Sequence[tuple[str, str]]
    roles: Sequence[str] = ()
    has_masks: bool = False
    policies: Sequence[tuple[str, str]] = ()


def least_grants(
    user: str, captured: Captured | None, mode: ReadMode = ReadMode.DIRECT
) -> list[tuple[str, str]]:
    """What the publisher's login needs in the source's database, and nothing else.

    Args:
        captured: None if it is unknown. The statements then find all captured tables where they
            run.
        mode: ``source.read_mode``: with ``function`` no change table is opened to the login.

    Returns:
        Statements, each with what it is for.
    """
    # See: GRANT Database Permissions; sys.dm_cdc_log_scan_sessions
    name = quote_name(user)
    of_tables = _of_captured(name) if captured is None else _of_tables(name, captured)
    state = f"GRANT VIEW DATABASE STATE TO {name}"
    return [
        *_of_schema_cdc(name, mode),
        *of_tables,
        *_of_hidden(name, captured),
        (state, "how far the capture job is"),
    ]


def log_grants(user: str, kind: ServerKind | None) -> list[tuple[str, str, str]]:
    """What shows the end and the use of the log: database, statement, what it is for.

    In Azure SQL Database VIEW DATABASE STATE is enough, which :func:`least_grants` has.

    Args:
        kind: None if it is unknown. VIEW SERVER STATE is enough in all versions.
    """
    # See: the page of sys.dm_db_log_stats and sys.dm_db_log_space_usage, permissions by version;
    # GRANT Server Permissions
    if kind is not None and kind.is_single_database:
        return []
    right = "VIEW SERVER STATE" if kind is None else kind.log_right
    what = (
        "the log's end and use; may be left out: then snapshots wait by the server's clock, and"
        " nobody forecasts a full log"
    )
    return [("master", f"GRANT {right} TO {quote_name(user)}", what)]


_UNMASK: Final = "values instead of masks, in tables and change tables"


def _of_hidden(name: str, captured: Captured | None) -> list[tuple[str, str]]:
    """What shows masked values, and which security policies there are.

    UNMASK on a source table alone does not reach its change table. A policy's predicate must let
    the login see every row: no permission does that.

    See: Dynamic data masking, permissions; Metadata visibility configuration.
    """
    if captured is None:
        masks = (
            "SELECT * FROM sys.masked_columns WHERE object_id IN (SELECT object_id FROM"
            " cdc.change_tables UNION ALL SELECT source_object_id FROM cdc.change_tables)"
        )
        grant = quote_text(f"IF EXISTS ({masks}) GRANT UNMASK TO {name}")
        exists = "OBJECT_ID(N'sys.masked_columns') IS NOT NULL"  # from SQL Server 2016 on
        return [(f"IF {exists} EXEC sys.sp_executesql {grant}", _UNMASK)]
    found = [(f"GRANT UNMASK TO {name}", _UNMASK)] if captured.has_masks else []
    return [
        *found,
        *(
            (
                f"GRANT VIEW DEFINITION ON {quote_name(schema)}.{quote_name(policy)} TO {name}",
                "that a security policy may hide rows (snapshot.exempt_policies)",
            )
            for schema, policy in sorted(set(captured.policies))
        ),
    ]


_OF_TABLES: Final = "snapshots, column types"
_OF_ROLES: Final = "the gating role of capture instances"


def _of_tables(name: str, captured: Captured) -> list[tuple[str, str]]:
    # See: GRANT Object Permissions; ALTER ROLE
    tables = [f"{quote_name(schema)}.{quote_name(table)}" for schema, table in captured.tables]
    roles = map(quote_name, captured.roles)
    return [
        *((f"GRANT SELECT ON {table} TO {name}", _OF_TABLES) for table in sorted(set(tables))),
        *((f"ALTER ROLE {role} ADD MEMBER {name}", _OF_ROLES) for role in sorted(set(roles))),
    ]


def _of_captured(name: str) -> list[tuple[str, str]]:
    """The same for tables and roles that only the server knows."""
    # See: DECLARE CURSOR; sp_executesql; QUOTENAME; cdc.change_tables
    to, member = quote_text(f" TO {name}"), quote_text(f" ADD MEMBER {name}")
    return [
        (
            _for_each(
                "tables",
                f"SELECT N'GRANT SELECT ON ' + QUOTENAME(s.name) + N'.' + QUOTENAME(t.name) + {to}"
                " FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE"
                " t.object_id IN (SELECT source_object_id FROM cdc.change_tables)",
            ),
            _OF_TABLES,
        ),
        (
            _for_each(
                "roles",
                f"SELECT DISTINCT N'ALTER ROLE ' + QUOTENAME(role_name) + {member}"
                " FROM cdc.change_tables WHERE role_name IS NOT NULL",
            ),
            _OF_ROLES,
        ),
    ]


def _for_each(named: str, texts: str) -> str:
    """Return the statement that runs every text of a query, with names that occur once in a batch.

    A variable that adds up texts over rows need not get those of all rows.
    See: SELECT @local_variable (Transact-SQL), antipattern; DECLARE CURSOR (Transact-SQL)
    """
    one = f"@of_{named}"
    return (
        f"DECLARE {one} nvarchar(max); DECLARE {named} CURSOR LOCAL STATIC FOR {texts};"
        f" OPEN {named}; FETCH NEXT FROM {named} INTO {one}; WHILE @@FETCH_STATUS = 0 BEGIN"
        f" EXEC sys.sp_executesql {one}; FETCH NEXT FROM {named} INTO {one}; END;"
        f" CLOSE {named}; DEALLOCATE {named}"
    )


def create_account(user: str, secret: str, kind: ServerKind | None = None) -> list[tuple[str, str]]:
    """Create login and user unless they exist, wherever the statements run.

    In Azure SQL Database the user has the password itself, because a login is created in master,
    which another connection has.

    See: CREATE USER (Transact-SQL), contained database users; CREATE LOGIN (Transact-SQL).
    """
    name, text = quote_name(user), quote_text(user)
    if kind is not None and kind.is_single_database:
        condition = f"IF DATABASE_PRINCIPAL_ID({text}) IS NULL"
        return [(f"{condition} CREATE USER {name} WITH PASSWORD = {secret}", "")]
    return [
        (
            f"IF SUSER_ID({text}) IS NULL CREATE LOGIN {name} WITH PASSWORD = {secret}",
            "on the server",
        ),
        (_create_user(user), ""),
    ]


def primary_grants(user: str, options: str) -> list[tuple[str, str]]:
    """What the login of ``source.primary`` needs for some options."""
    # See: ALTER ROLE; sys.sp_cdc_cleanup_change_table, permissions
    what = f"{options}: the procedures of change data capture need it"
    return [(f"ALTER ROLE [db_owner] ADD MEMBER {quote_name(user)}", what)]


def doctor_grants(user: str, kind: ServerKind | None) -> list[tuple[str, str, str]]:
    """What only ``tailrace doctor`` reads: database, statement, what it is for.

    In Azure SQL Database schema cdc has the jobs, and there is no Agent.

    Args:
        kind: None if it is unknown.
    """
    # See: the page of dbo.cdc_jobs; sys.dm_server_services, permissions
    name = quote_name(user)
    jobs = "doctor: settings of the jobs"
    if kind is not None and kind.is_single_database:
        return []
    found = [
        ("msdb", _create_user(user), ""),
        ("msdb", f"GRANT SELECT ON dbo.cdc_jobs TO {name}", jobs),
    ]
    if kind is not None and kind.services_right != kind.log_right and not kind.is_managed:
        right = f"GRANT {kind.services_right} TO {name}"
        found.insert(0, ("master", right, "doctor: whether the Agent runs"))
    return found


def _create_user(user: str) -> str:
    # See: DATABASE_PRINCIPAL_ID; CREATE USER
    name = quote_name(user)
    condition = f"DATABASE_PRINCIPAL_ID({quote_text(user)}) IS NULL"
    return f"IF {condition} CREATE USER {name} FOR LOGIN {name}"


def _of_schema_cdc(name: str, mode: ReadMode) -> list[tuple[str, str]]:
    # See: GRANT Schema Permissions; GRANT Object Permissions
    if mode is ReadMode.DIRECT:
        what = "change tables, their catalog, commit times"
        return [(f"GRANT SELECT ON SCHEMA::cdc TO {name}", what)]
    what = "the catalog of capture instances, DDL, commit times: no rows of any table"
    return [
        *((f"GRANT SELECT ON cdc.{table} TO {name}", what) for table in METADATA_TABLES),
        (f"GRANT VIEW DEFINITION ON SCHEMA::cdc TO {name}", "types of captured columns"),
    ]
