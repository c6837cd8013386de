"""The T-SQL that turns change data capture on, and that grants a login what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.source.catalog.capture_catalog import METADATA_TABLES
from tailrace_publisher.source.connection.quoting import quote_name, quote_text


def enable_database() -> str:
    """Enable the current database; it needs sysadmin.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-db-transact-sql
    """
    return "EXEC sys.sp_cdc_enable_db"


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How a table is captured.

    Attributes:
        capture_instance: name of the instance; None leaves it to SQL Server: schema_table.
        columns: what is captured; empty for all.
        role: the gating role, created if it does not exist; None for no gate.
        filegroup: where the change table goes; None for the database's default.
    """

    capture_instance: str | None = None
    columns: Sequence[str] = ()
    role: str | None = None
    filegroup: str | None = None


def enable_table(schema: str, table: str, options: CaptureOptions | None = None) -> str:
    """Enable a table; it needs db_owner.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
    """
    given = options or CaptureOptions()
    parts = [
        f"@source_schema = {quote_text(schema)}",
        f"@source_name = {quote_text(table)}",
        f"@role_name = {'NULL' if given.role is None else quote_text(given.role)}",
    ]
    if given.capture_instance is not None:
        parts.append(f"@capture_instance = {quote_text(given.capture_instance)}")
    if given.columns:
        columns = ", ".join(map(quote_name, given.columns))
        parts.append(f"@captured_column_list = {quote_text(columns)}")
    if given.filegroup is not None:
        parts.append(f"@filegroup_name = {quote_text(given.filegroup)}")
    return f"EXEC sys.sp_cdc_enable_table {', '.join(parts)}"


def least_grants(
    user: str, schemas: Iterable[str], roles: Iterable[str], mode: ReadMode = ReadMode.DIRECT
) -> list[tuple[str, str]]:
    """What the publisher's login needs in the source's database, and nothing else.

    Args:
        schemas: of the published tables.
        roles: gating roles of their capture instances.
        mode: ``source.read_mode``: with ``function`` no change table is opened to the login.

    Returns:
        Statements, each with what it is for.
    """
    name = quote_name(user)
    return [
        *_of_schema_cdc(name, mode),
        *(
            (f"GRANT SELECT ON SCHEMA::{quote_name(schema)} TO {name}", "snapshots, column types")
            for schema in sorted(set(schemas))
        ),
        *(
            (
                f"ALTER ROLE {quote_name(role)} ADD MEMBER {name}",
                "the gating role of capture instances",
            )
            for role in sorted(set(roles))
        ),
        (f"GRANT VIEW DATABASE STATE TO {name}", "how far the capture job and the log are"),
    ]


def _of_schema_cdc(name: str, mode: ReadMode) -> list[tuple[str, str]]:
    if mode is ReadMode.DIRECT:
        what = "change tables, their catalog, commit times"
        return [(f"GRANT SELECT ON SCHEMA::cdc TO {name}", what)]
    what = "the catalog of capture instances, DDL, commit times: no rows of any table"
    return [
        *((f"GRANT SELECT ON cdc.{table} TO {name}", what) for table in METADATA_TABLES),
        (f"GRANT VIEW DEFINITION ON SCHEMA::cdc TO {name}", "types of captured columns"),
    ]
