"""The T-SQL that creates and drops capture instances; both need the role db_owner.

The texts are for people. The publisher sends them by ``capture_changes`` alone.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-disable-table-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace_publisher.source.connection.quoting import quote_name, quote_text


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How a table is captured.

    Attributes:
        capture_instance: name of the instance; None leaves it to SQL Server: schema_table.
        columns: what is captured; empty for all.
        role: the gating role, created if it does not exist; None for no gate.
        filegroup: where the change table goes; None for the database's default.
        index: the unique index that identifies rows; None for the primary key.
        net_changes: whether net changes can be queried; None leaves it to SQL Server.
        partition_switch: whether partitions may be switched.
    """

    capture_instance: str | None = None
    columns: Sequence[str] = ()
    role: str | None = None
    filegroup: str | None = None
    index: str | None = None
    net_changes: bool | None = None
    partition_switch: bool = True


def enable_table(schema: str, table: str, options: CaptureOptions | None = None) -> str:
    """Return the statement that creates a capture instance."""
    # See: the page of sys.sp_cdc_enable_table
    given = options or CaptureOptions()
    parts = [
        f"@source_schema = {quote_text(schema)}",
        f"@source_name = {quote_text(table)}",
        f"@role_name = {'NULL' if given.role is None else quote_text(given.role)}",
    ]
    if given.capture_instance is not None:
        parts.append(f"@capture_instance = {quote_text(given.capture_instance)}")
    if given.net_changes is not None:
        parts.append(f"@supports_net_changes = {int(given.net_changes)}")
    if given.index is not None:
        parts.append(f"@index_name = {quote_text(given.index)}")
    if given.columns:
        columns = ", ".join(map(quote_name, given.columns))
        parts.append(f"@captured_column_list = {quote_text(columns)}")
    if given.filegroup is not None:
        parts.append(f"@filegroup_name = {quote_text(given.filegroup)}")
    if not given.partition_switch:
        parts.append("@allow_partition_switch = 0")
    return f"EXEC sys.sp_cdc_enable_table {', '.join(parts)}"


def disable_table(schema: str, table: str, instance: str) -> str:
    """Return the statement that drops a capture instance with its change table."""
    # See: the page of sys.sp_cdc_disable_table
    return (
        f"EXEC sys.sp_cdc_disable_table @source_schema = {quote_text(schema)},"
        f" @source_name = {quote_text(table)}, @capture_instance = {quote_text(instance)}"
    )
