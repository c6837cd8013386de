"""The T-SQL that turns change data capture on, and that grants a login what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.source.catalog.capture_catalog import METADATA_TABLES
from tailrace_publisher.source.connection.quoting import quote_name, quote_text


def enable_database() -> str:
    """Enable the current database; it needs sysadmin.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-db-transact-sql
    """
    return "EXEC sys.sp_cdc_enable_db"


@dataclass(frozen=True, slots=True)
class Captured:
    """The captured tables that are selected, and the gating roles of their capture instances."""

    tables: Sequence[tuple[str, str]]
    roles: Sequence[str] = ()


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
    name = quote_name(user)
    of_tables = _of_captured(name) if captured is None else _of_tables(name, captured)
    state = f"GRANT VIEW DATABASE STATE TO {name}"
    return [
        *_of_schema_cdc(name, mode),
        *of_tables,
        (state, "how far the capture job and the log are"),
    ]


_OF_TABLES: Final = "snapshots, column types"
_OF_ROLES: Final = "the gating role of capture instances"


def _of_tables(name: str, captured: Captured) -> list[tuple[str, str]]:
    tables = [f"{quote_name(schema)}.{quote_name(table)}" for schema, table in captured.tables]
    roles = map(quote_name, captured.roles)
    return [
        *((f"GRANT SELECT ON {table} TO {name}", _OF_TABLES) for table in sorted(set(tables))),
        *((f"ALTER ROLE {role} ADD MEMBER {name}", _OF_ROLES) for role in sorted(set(roles))),
    ]


def _of_captured(name: str) -> list[tuple[str, str]]:
    """The same for tables and roles that only the server knows."""
    to = quote_text(f" TO {name}; ")
    member = quote_text(f" ADD MEMBER {name}; ")
    return [
        (
            "DECLARE @tables nvarchar(max) = N''; SELECT @tables += N'GRANT SELECT ON ' +"
            f" QUOTENAME(s.name) + N'.' + QUOTENAME(t.name) + {to} FROM sys.tables AS t"
            " JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE t.object_id IN"
            " (SELECT source_object_id FROM cdc.change_tables); EXEC sys.sp_executesql @tables",
            _OF_TABLES,
        ),
        (
            "DECLARE @roles nvarchar(max) = N''; SELECT @roles += N'ALTER ROLE ' +"
            f" QUOTENAME(r.role_name) + {member} FROM (SELECT DISTINCT role_name FROM"
            " cdc.change_tables WHERE role_name IS NOT NULL) AS r; EXEC sys.sp_executesql @roles",
            _OF_ROLES,
        ),
    ]


def create_account(user: str, secret: str) -> list[tuple[str, str]]:
    """Create login and user unless they exist, wherever the statements run."""
    name, text = quote_name(user), quote_text(user)
    return [
        (
            f"IF SUSER_ID({text}) IS NULL CREATE LOGIN {name} WITH PASSWORD = {secret}",
            "on the server",
        ),
        (_create_user(user), ""),
    ]


def primary_grants(user: str, options: str) -> list[tuple[str, str]]:
    """What the login of ``source.primary`` needs for some options."""
    what = f"{options}: the procedures of change data capture need it"
    return [(f"ALTER ROLE [db_owner] ADD MEMBER {quote_name(user)}", what)]


def doctor_grants(user: str) -> list[tuple[str, str, str]]:
    """What only ``tailrace doctor`` reads: database, statement, what it is for."""
    name = quote_name(user)
    return [
        ("msdb", _create_user(user), ""),
        ("msdb", f"GRANT SELECT ON dbo.cdc_jobs TO {name}", "doctor: settings of the jobs"),
        ("master", f"GRANT VIEW SERVER STATE TO {name}", "doctor: whether the Agent runs"),
    ]


def _create_user(user: str) -> str:
    name = quote_name(user)
    condition = f"DATABASE_PRINCIPAL_ID({quote_text(user)}) IS NULL"
    return f"IF {condition} CREATE USER {name} FOR LOGIN {name}"


def _of_schema_cdc(name: str, mode: ReadMode) -> list[tuple[str, str]]:
    if mode is ReadMode.DIRECT:
        what = "change tables, their catalog, commit times"
        return [(f"GRANT SELECT ON SCHEMA::cdc TO {name}", what)]
    what = "the catalog of capture instances, DDL, commit times: no rows of any table"
    return [
        *((f"GRANT SELECT ON cdc.{table} TO {name}", what) for table in METADATA_TABLES),
        (f"GRANT VIEW DEFINITION ON SCHEMA::cdc TO {name}", "types of captured columns"),
    ]
