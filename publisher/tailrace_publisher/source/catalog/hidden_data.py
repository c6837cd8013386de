"""What a login cannot see of captured tables: whole tables, or values of columns and rows."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection

_UNKNOWN_NAME: Final = frozenset({207, 208})
"""Invalid column name, invalid object name: an earlier server, which lacks the feature."""


def hidden_instances(connection: Connection) -> list[str]:
    """Return the capture instances whose source table the login cannot see."""
    rows = connection.query(
        "SELECT ct.capture_instance FROM cdc.change_tables ct WHERE NOT EXISTS"
        " (SELECT * FROM sys.tables t WHERE t.object_id = ct.source_object_id)"
        " ORDER BY ct.capture_instance"
    )
    return [str(row[0]) for row in rows]


def gated_instances(connection: Connection) -> dict[str, str | None]:
    """Return the capture instances whose changes the login may not read, with their gating role.

    sys.fn_cdc_get_min_lsn returns zero to a login that is not in the gating role, or lacks SELECT
    on some captured column of the source table.

    https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-min-lsn-transact-sql
    """
    rows = connection.query(
        "SELECT capture_instance, role_name FROM cdc.change_tables WHERE start_lsn IS NOT NULL"
        " AND sys.fn_cdc_get_min_lsn(capture_instance) = 0x00000000000000000000"
    )
    return {str(row[0]): row[1] for row in rows}


def masked_columns(connection: Connection) -> dict[int, list[str]]:
    """Return the columns that the login sees dynamically masked, per source table's object id.

    From SQL Server 2022 on, UNMASK may be granted for one table; earlier only for the database.

    https://learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking
    """
    return _where_it_exists(
        connection,
        "SELECT m.object_id, m.name FROM sys.masked_columns m"
        " JOIN sys.tables t ON t.object_id = m.object_id"
        " JOIN sys.schemas s ON s.schema_id = t.schema_id"
        " WHERE m.is_masked = 1 AND m.object_id IN (SELECT source_object_id FROM cdc.change_tables)"
        " AND ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'UNMASK'), 0) = 0"
        " AND ISNULL(HAS_PERMS_BY_NAME(QUOTENAME(s.name) + N'.' + QUOTENAME(t.name), N'OBJECT',"
        " N'UNMASK'), 0) = 0 ORDER BY m.object_id, m.column_id",
    )


def encrypted_columns(connection: Connection) -> dict[int, list[str]]:
    """Return the columns of Always Encrypted, per source table's object id.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-columns-transact-sql
    """
    return _where_it_exists(
        connection,
        "SELECT c.object_id, c.name FROM sys.columns c WHERE c.encryption_type IS NOT NULL"
        " AND c.object_id IN (SELECT source_object_id FROM cdc.change_tables)"
        " ORDER BY c.object_id, c.column_id",
    )


def filtering_policies(connection: Connection) -> dict[int, list[str]]:
    """Return the security policies that filter a table's rows, per source table's object id.

    Only their functions know whether they hide rows from this login. Policies are visible only with
    VIEW DEFINITION.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-security-predicates-transact-sql
    """
    return _where_it_exists(
        connection,
        "SELECT p.target_object_id, o.name FROM sys.security_predicates p"
        " JOIN sys.security_policies o ON o.object_id = p.object_id"
        " WHERE o.is_enabled = 1 AND p.predicate_type = 0"
        " AND p.target_object_id IN (SELECT source_object_id FROM cdc.change_tables)"
        " ORDER BY p.target_object_id, o.name",
    )


def _where_it_exists(connection: Connection, sql: str) -> dict[int, list[str]]:
    """Return names per object id; none if the server does not know the view or the column."""
    try:
        rows = connection.query(sql)
    except SourceError as error:
        if error.number not in _UNKNOWN_NAME:
            raise
        return {}
    found: defaultdict[int, list[str]] = defaultdict(list)
    for object_id, name in rows:
        found[object_id].append(str(name))
    return found
