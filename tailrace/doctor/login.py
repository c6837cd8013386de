"""The login: may it do what the publisher does, and how much more.

What is judged are effective permissions (HAS_PERMS_BY_NAME), however they were given. Views whose
permission depends on version and edition are queried instead.

See: HAS_PERMS_BY_NAME (Transact-SQL); IS_SRVROLEMEMBER and IS_MEMBER (Transact-SQL).

https://learn.microsoft.com/sql/t-sql/functions/has-perms-by-name-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.errors import PermissionMissing, SourceError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.source.catalog.capture_catalog import METADATA_TABLES
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_publisher.source.log.log_end import LOG_END
from tailrace_publisher.source.log.queries import is_owner, is_read_only
from tailrace_publisher.source.log.server_kind import server_kind

_JUDGE: Final = Judge(Part.LOGIN)
_READS_CDC: Final = "HAS_PERMS_BY_NAME(N'cdc', N'SCHEMA', N'SELECT')"
_READS_METADATA: Final = " * ".join(
    [
        *(
            f"ISNULL(HAS_PERMS_BY_NAME(N'cdc.{table}', N'OBJECT', N'SELECT'), 0)"
            for table in METADATA_TABLES
        ),
        "ISNULL(HAS_PERMS_BY_NAME(N'cdc', N'SCHEMA', N'VIEW DEFINITION'), 0)",
    ]
)


def look_at_primary(config: PublisherConfig) -> Iterator[Finding]:
    """Judge the connection that changes the source, if that is configured."""
    options = ", ".join(config.source_changes)
    if not options:
        return
    account = config.source.for_changes
    name = f"source.primary ({account.account} at {account.host})"
    what = f"the publisher cannot change the source ({options})"
    try:
        with OdbcConnection(account) as connection:
            may_change = is_owner(connection)
            is_secondary = is_read_only(connection)
    except SourceError as error:
        yield _JUDGE.problem(name, str(error), what, Fix("correct source.primary"))
        return
    if not may_change:
        fix = Fix("tailrace grants prints it, for a login of source.primary")
        yield _JUDGE.problem(name, "is not in the role db_owner", what, fix)
    if is_secondary:
        fix = Fix("let source.primary.host name the primary")
        yield _JUDGE.problem(name, "reaches a read-only copy of the database", what, fix)
    if may_change and not is_secondary:
        yield _JUDGE.ok(name, f"may change the source ({options})")


def look_at_login(source: Source, owner_for: str = "") -> Iterator[Finding]:
    """Judge the login's permissions in the database.

    Args:
        owner_for: options for which it needs db_owner; empty if it only reads.
    """
    # See: the page of IS_SRVROLEMEMBER; IS_MEMBER; HAS_PERMS_BY_NAME
    user = quote_name(source.user)
    by_function = source.read_mode is ReadMode.FUNCTION
    row = source.row(
        "permissions",
        f"SELECT {_READS_METADATA if by_function else _READS_CDC},"
        " IS_SRVROLEMEMBER(N'sysadmin'), IS_MEMBER(N'db_owner')",
    )
    if row is None:
        return
    reads_cdc, is_sysadmin, is_db_owner = row
    if reads_cdc == 0 and by_function:
        yield _JUDGE.problem(
            source.user,
            "may not read the catalog of capture instances",
            "source.read_mode: function needs it, and no change table",
            Fix("tailrace grants --user <the login> prints what is enough"),
        )
    elif reads_cdc == 0:
        yield _JUDGE.problem(
            source.user,
            "may not read schema cdc",
            "the change tables and their catalog are there",
            Fix(f"GRANT SELECT ON SCHEMA::cdc TO {user}; or source.read_mode: function"),
        )
    refusal = _refused_log_end(source)
    if refusal is not None:
        yield _JUDGE.warning(
            source.user,
            f"may not see the end and the use of the log ({refusal})",
            "snapshots wait by the server's clock, and nobody forecasts a full log",
            Fix(server_kind(source.connection).grant_log_right(user)),
        )
    if owner_for and is_db_owner:
        yield _JUDGE.warning(
            source.user,
            f"is db_owner, which {owner_for} needs",
            "anyone who gets its password may do anything in the database",
            Fix("give source.primary a login of its own: tailrace grants"),
        )
    elif is_sysadmin or is_db_owner:
        yield _JUDGE.warning(
            source.user,
            f"is {'sysadmin' if is_sysadmin else 'db_owner'}",
            "the publisher only reads: anyone who gets its password may do anything",
            Fix("tailrace grants --user <a login of its own> prints what is enough"),
        )
    elif reads_cdc:
        what = "the catalog of capture instances" if by_function else "schema cdc"
        log = "" if refusal is not None else " and sees the log's end"
        yield _JUDGE.ok(source.user, f"reads {what}{log}")
    unseen = source.rows(
        "source tables",
        "SELECT DISTINCT s.name, t.name FROM cdc.change_tables AS c JOIN sys.tables AS t ON"
        " t.object_id = c.source_object_id JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE"
        " HAS_PERMS_BY_NAME(QUOTENAME(s.name) + N'.' + QUOTENAME(t.name), N'OBJECT', N'SELECT')"
        " = 0",
    )
    for schema, table in unseen or ():
        yield _JUDGE.problem(
            source.user,
            f"may not read captured table {schema}.{table}",
            "its initial snapshot reads it",
            Fix(f"GRANT SELECT ON {quote_name(str(schema))}.{quote_name(str(table))} TO {user}"),
        )


def _refused_log_end(source: Source) -> str | None:
    """Return why the login may not see the log's end; None if it may, or the server has none.

    See: sys.dm_db_log_stats (Transact-SQL), permissions, by version.
    """
    try:
        source.connection.query(LOG_END)
    except PermissionMissing as error:
        return str(error)
    except SourceError as error:
        if error.retryable:
            raise
    return None
