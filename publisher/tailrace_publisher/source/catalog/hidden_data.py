"""What a login cannot see of captured tables: whole tables, values of columns, or rows.

The capture process reads the log, which has everything. A reader of the tables gets masks instead
of values (dynamic data masking) and fewer rows (row-level security), and the server does not say
so. The mask of a column is also in the change table: ``sys.sp_cdc_vupgrade`` runs ALTER TABLE
``cdc.<instance>_CT`` ALTER COLUMN .. ADD MASKED for each masked captured column. Columns of Always
Encrypted are bytes everywhere.

"May this be read as it is" is asked here, in one statement for all tables with the catalog. It is
asked again of one table after each read, on the connection that read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import SourceError, ValuesHidden
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.capture_catalog import narrowed
from tailrace_publisher.source.connection.quoting import quote_name

_UNKNOWN_NAME: Final = frozenset({207, 208})
"""Invalid column name, invalid object name: an earlier server, without these features."""

_OF_LOGIN: Final = 0
"""Object id of the rows about the login itself; it is no object's."""


@dataclass(frozen=True, slots=True)
class HiddenData:
    """What the server hides from a login, by object id of source tables and change tables.

    Attributes:
        masked: columns of which the login reads masks.
        encrypted: columns of Always Encrypted.
        filtered: enabled security policies (schema.policy) that filter rows.
        user: the login's user in the database.
        sees_policies: whether the login would see every security policy.
        has_masks: whether the server can mask columns (SQL Server 2016).
    """

    masked: Mapping[int, Collection[str]] = field(default_factory=dict)
    encrypted: Mapping[int, Collection[str]] = field(default_factory=dict)
    filtered: Mapping[int, Collection[str]] = field(default_factory=dict)
    user: str = ""
    sees_policies: bool = True
    has_masks: bool = False


NOTHING_HIDDEN: Final = HiddenData()

_TABLE: Final = "QUOTENAME(s.name) + N'.' + QUOTENAME(t.name)"
_UNMASK: Final = (
    f"COALESCE(HAS_PERMS_BY_NAME({_TABLE}, N'OBJECT', N'UNMASK', m.name, N'COLUMN'),"
    f" HAS_PERMS_BY_NAME({_TABLE}, N'OBJECT', N'UNMASK'),"
    " HAS_PERMS_BY_NAME(NULL, N'DATABASE', N'UNMASK'), 0)"
)
"""The narrowest answer counts, because a DENY on the table overrides a GRANT on the database.
Servers before SQL Server 2022 have UNMASK on databases only, and answer NULL about others.

See: Dynamic data masking, granular permissions; HAS_PERMS_BY_NAME, return types."""

_HIDDEN: Final = (
    "SELECT h.object_id, h.kind, h.name FROM ("
    "SELECT m.object_id, N'masked' AS kind, m.name FROM sys.masked_columns m"
    " JOIN sys.tables t ON t.object_id = m.object_id JOIN sys.schemas s ON s.schema_id ="
    f" t.schema_id WHERE m.is_masked = 1 AND {_UNMASK} = 0"
    " UNION ALL SELECT c.object_id, N'encrypted', c.name FROM sys.columns c"
    " WHERE c.encryption_type IS NOT NULL"
    " UNION ALL SELECT p.target_object_id, N'filtered', s.name + N'.' + o.name"
    " FROM sys.security_predicates p JOIN sys.security_policies o ON o.object_id = p.object_id"
    " JOIN sys.schemas s ON s.schema_id = o.schema_id"
    " WHERE o.is_enabled = 1 AND p.predicate_type = 0"
    f" UNION ALL SELECT {_OF_LOGIN}, N'user', USER_NAME()"
    f" UNION ALL SELECT {_OF_LOGIN}, N'blind', N'' WHERE"
    " ISNULL(HAS_PERMS_BY_NAME(NULL, N'DATABASE', N'VIEW DEFINITION'), 0) = 0"
    f") h WHERE (h.object_id = {_OF_LOGIN}"
    " OR h.object_id IN (SELECT object_id FROM cdc.change_tables)"
    " OR h.object_id IN (SELECT source_object_id FROM cdc.change_tables))"
)
"""A policy is visible with VIEW DEFINITION on it, a masked column with any right on its table.

See: sys.masked_columns, permissions; sys.columns (encryption_type); sys.security_predicates
(predicate_type); Metadata visibility configuration."""


def hidden_data(
    connection: Connection, exempt: Sequence[str] = (), only: CaptureInstance | None = None
) -> HiddenData:
    """Return what the server hides from the login of a connection.

    Args:
        exempt: security policies that hide nothing from this login, as the configuration says.
        only: the one instance whose tables matter; None for all captured tables.

    Raises:
        SourceError: the server did not answer.
    """
    # See: Dynamic data masking, permissions; sys.security_predicates
    ids = None if only is None else {_OF_LOGIN, only.object_id, only.source_object_id}
    where, parameters = narrowed("AND", "h.object_id", ids)
    try:
        rows = connection.query(f"{_HIDDEN}{where}", *parameters)
    except SourceError as error:
        if error.number not in _UNKNOWN_NAME:
            raise
        return NOTHING_HIDDEN
    passed = {policy.casefold() for policy in exempt}
    found: defaultdict[str, defaultdict[int, list[str]]]
    found = defaultdict(lambda: defaultdict(list))
    for object_id, kind, name in rows:
        if kind != "filtered" or str(name).casefold() not in passed:
            found[kind][object_id].append(str(name))
    return HiddenData(
        found["masked"],
        found["encrypted"],
        found["filtered"],
        "".join(found["user"][_OF_LOGIN]),
        sees_policies="blind" not in found,
        has_masks=True,
    )


def hiding(
    connection: Connection, tables: Iterable[tuple[str, str]]
) -> tuple[bool, list[tuple[str, str]]]:
    """Return what hides data of captured tables from any login, as far as this one sees it.

    Args:
        tables: schema and name of each.

    Returns:
        Whether a column of a table or its change table has a mask, and the security policies that
        filter rows: schema and name.
    """
    # See: the page of sys.masked_columns; sys.security_predicates, predicate_type
    named = {(schema.casefold(), table.casefold()) for schema, table in tables}
    # See the pages of sys.masked_columns and of sys.security_predicates (predicate_type).
    try:
        rows = connection.query(
            "SELECT ss.name, st.name, N'', N'' FROM sys.masked_columns m JOIN cdc.change_tables ct"
            " ON m.object_id IN (ct.object_id, ct.source_object_id) JOIN sys.tables st"
            " ON st.object_id = ct.source_object_id JOIN sys.schemas ss"
            " ON ss.schema_id = st.schema_id"
            " UNION SELECT ss.name, st.name, s.name, o.name FROM sys.security_predicates p"
            " JOIN sys.security_policies o ON o.object_id = p.object_id"
            " JOIN sys.schemas s ON s.schema_id = o.schema_id"
            " JOIN sys.tables st ON st.object_id = p.target_object_id"
            " JOIN sys.schemas ss ON ss.schema_id = st.schema_id"
            " WHERE o.is_enabled = 1 AND p.predicate_type = 0"
        )
    except SourceError as error:
        if error.number not in _UNKNOWN_NAME:
            raise
        return False, []
    found = [row for row in rows if (row[0].casefold(), row[1].casefold()) in named]
    policies = [(str(row[2]), str(row[3])) for row in found if row[3]]
    return any(not row[3] for row in found), policies


def check_changes_visible(
    hidden: HiddenData, instance: CaptureInstance, columns: Iterable[str]
) -> None:
    """Check that the login reads the change rows of an instance as they are.

    UNMASK on the source table does not reach the change table, which is another object.

    Args:
        columns: names of those that are published.

    Raises:
        ValuesHidden: it reads masks, or not all rows.
    """
    where = f"in change table cdc.{instance.name}_CT "
    _check(hidden, instance, instance.object_id, columns, where)


def check_rows_visible(
    hidden: HiddenData, instance: CaptureInstance, columns: Iterable[str]
) -> None:
    """Check that the login reads the rows of a source table as they are.

    Raises:
        ValuesHidden: it reads masks, or perhaps not all rows.
    """
    _check(hidden, instance, instance.source_object_id, columns, "")


def _check(
    hidden: HiddenData, instance: CaptureInstance, object_id: int, columns: Iterable[str], of: str
) -> None:
    masked = _among(hidden.masked.get(object_id, ()), instance, columns)
    if masked:
        raise ValuesHidden(
            instance.table,
            f", columns {', '.join(masked)}: {of}user {hidden.user} reads masks instead of their"
            f" values (dynamic data masking). Fix: GRANT UNMASK TO {quote_name(hidden.user)} in the"
            " database",
        )
    policies = sorted(set(hidden.filtered.get(object_id, ())))
    if policies:
        names = ", ".join(policies)
        raise ValuesHidden(
            instance.table,
            f": {of}security policy {names} may hide rows from user {hidden.user}, and the server"
            " does not say whether it does. Fix: let its filter predicate return every row to the"
            f" user, then name it in snapshot.exempt_policies ({names})",
        )


def check_not_encrypted(
    hidden: HiddenData, instance: CaptureInstance, columns: Iterable[str]
) -> None:
    """Check that no captured column that is read is one of Always Encrypted.

    Raises:
        ValuesHidden: its values are readable with its key only.
    """
    encrypted = _among(hidden.encrypted.get(instance.source_object_id, ()), instance, columns)
    if encrypted:
        raise ValuesHidden(
            instance.table,
            f", columns {', '.join(encrypted)}: they are encrypted by Always Encrypted, and only"
            " the column's key makes their values readable. Fix: exclude them with"
            " columns.exclude, or capture the table with a @captured_column_list without them",
        )


def _among(hidden: Collection[str], instance: CaptureInstance, columns: Iterable[str]) -> list[str]:
    """Return the hidden columns among some and those that identify rows, in the table's order."""
    wanted = {*columns, *instance.identity, *instance.key}.intersection(hidden)
    return [column.name for column in instance.columns if column.name in wanted]


def hidden_instances(connection: Connection) -> list[str]:
    """Return the capture instances whose source table the login cannot see."""
    # See: Metadata Visibility Configuration. Inferred: does cdc.change_tables keep the row of a
    # table that was dropped, until a scan?
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
    # See: sys.fn_cdc_get_min_lsn, remarks
    rows = connection.query(
        "SELECT capture_instance, role_name FROM cdc.change_tables WHERE start_lsn IS NOT NULL"
        " AND sys.fn_cdc_get_min_lsn(capture_instance) = 0x00000000000000000000"
    )
    return {str(row[0]): row[1] for row in rows}
