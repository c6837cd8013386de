"""cdc.fn_cdc_get_all_changes_<instance> and cdc.fn_cdc_get_net_changes_<instance>.

A query is SQLite text over the change table with bound values. A range that is not inside the
instance's validity interval, or an unknown row filter option, is SQL Server's misleading error 313.
Its text is "An insufficient number of arguments were supplied", because its functions detect it by
calling themselves wrongly. Inferred: a from_lsn above to_lsn is such an error too.

https://learn.microsoft.com/sql/relational-databases/system-functions/cdc-fn-cdc-get-all-changes-capture-instance-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from tailrace_emulator import messages
from tailrace_emulator.cdc import functions
from tailrace_emulator.cdc.change_table import COMMAND_ID, METADATA_COLUMNS
from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.metadata_tables import sqlite_column
from tailrace_emulator.messages.errors import INTERNAL, Aborts, SqlError
from tailrace_emulator.storage.encoded_rows import HIDDEN_COLUMNS
from tailrace_emulator.values.types import INT, LSN, StorageValue, varbinary

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.cdc.capture_instance import CaptureInstance
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.values.types import SqlType

ALL_CHANGES_PREFIX: Final = "fn_cdc_get_all_changes_"
NET_CHANGES_PREFIX: Final = "fn_cdc_get_net_changes_"
ALL_CHANGES_OPTIONS: Final = ("all", "all update old")
NET_CHANGES_OPTIONS: Final = ("all", "all with mask", "all with merge")


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """SQLite text that yields the function's columns in order, named v0, v1..., and its values.

    After those come the hidden columns of the change table (storage/encoded_rows.py).
    """

    sql: str
    bindings: tuple[StorageValue, ...]


def all_changes_columns(change_table: Table) -> tuple[tuple[str, SqlType], ...]:
    """Names and types of the all-changes function's columns."""
    return (
        ("__$start_lsn", LSN),
        ("__$seqval", LSN),
        ("__$operation", INT),
        ("__$update_mask", varbinary(128)),
        *_captured(change_table),
    )


def net_changes_columns(change_table: Table) -> tuple[tuple[str, SqlType], ...]:
    """Names and types of the net-changes function's columns."""
    return (
        ("__$start_lsn", LSN),
        ("__$operation", INT),
        ("__$update_mask", varbinary(128)),
        *_captured(change_table),
    )


def _captured(change_table: Table) -> tuple[tuple[str, SqlType], ...]:
    first = len(METADATA_COLUMNS)
    return tuple((column.name, column.type) for column in change_table.columns[first:-1])


def check_range(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance | None,
    from_lsn: StorageValue,
    to_lsn: StorageValue,
) -> tuple[bytes, bytes] | None:
    """The two LSNs when the range lies inside the instance's validity interval, else None."""
    if instance is None:
        return None
    if not isinstance(from_lsn, bytes) or not isinstance(to_lsn, bytes):
        return None
    low = functions.min_lsn(connection, database, instance.name)
    high = functions.max_lsn(connection, database)
    if low == ZERO_LSN or high is None or from_lsn > to_lsn:
        return None
    return (from_lsn, to_lsn) if low <= from_lsn and to_lsn <= high else None


def check_arguments(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance | None,
    arguments: tuple[StorageValue, StorageValue, StorageValue],
    *,
    net: bool,
) -> tuple[tuple[bytes, bytes], str]:
    """The LSN range and the row filter option of a query.

    Args:
        connection: what to read the interval with.
        instance: the capture instance; None is not valid.
        arguments: from_lsn, to_lsn and the row filter option.
        net: whether they are for the net-changes function.

    Raises:
        SqlError: 313 when the range or the option is not valid.
    """
    allowed, kind = (NET_CHANGES_OPTIONS, "net") if net else (ALL_CHANGES_OPTIONS, "all")
    bounds = check_range(connection, database, instance, arguments[0], arguments[1])
    option = _option(arguments[2], allowed)
    if bounds is None or option is None:
        raise messages.error(
            313, f"cdc.fn_cdc_get_{kind}_changes_ ... ", state=3, aborts=Aborts.STATEMENT
        )
    return bounds, option


def _option(option: StorageValue, allowed: tuple[str, ...]) -> str | None:
    folded = option.strip(" ").casefold() if isinstance(option, str) else None
    return folded if folded in allowed else None


def all_changes(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance,
    arguments: tuple[StorageValue, StorageValue, StorageValue],
) -> ChangeQuery:
    """The rows of an LSN range, both ends included.

    Args:
        connection: what to read the interval with.
        arguments: from_lsn, to_lsn and the row filter option.

    Raises:
        SqlError: 313 when the range or the option is not valid.
    """
    bounds, option = check_arguments(connection, database, instance, arguments, net=False)
    table = _change_table(database, instance)
    names = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask")
    columns = [*(sqlite_column(table, name) for name in names), *_captured_sqlite(table)]
    picked = _picked(columns)
    start, operation = sqlite_column(table, "__$start_lsn"), sqlite_column(table, "__$operation")
    condition = f"{start} >= ? AND {start} <= ?"
    if option == "all":
        condition += f" AND {operation} <> 3"
    order = ", ".join(
        sqlite_column(table, name)
        for name in ("__$start_lsn", COMMAND_ID, "__$seqval", "__$operation")
    )
    return ChangeQuery(
        f'SELECT {picked} FROM "{table.sqlite_name}" WHERE {condition} ORDER BY {order}', bounds
    )


def _picked(columns: list[str]) -> str:
    named = [f"{column} AS v{place}" for place, column in enumerate(columns)]
    return ", ".join((*named, *HIDDEN_COLUMNS))


def _captured_sqlite(table: Table) -> list[str]:
    return [column.sqlite_name for column in table.columns[len(METADATA_COLUMNS) : -1]]


def _change_table(database: Database, instance: CaptureInstance) -> Table:
    table = database.table_by_id(instance.object_id)
    if table is None:
        raise messages.error(208, f"cdc.{instance.name}_CT", aborts=Aborts.STATEMENT)
    return table


def net_changes(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance,
    arguments: tuple[StorageValue, StorageValue, StorageValue],
) -> ChangeQuery:
    """One row per changed source row of an LSN range: its last content and the net operation.

    A row that was inserted and deleted within the range does not appear. With 'all' a net insert
    is 2, a net update 4, a net delete 1; with 'all with merge' inserts and updates are both 5;
    'all with mask' adds the union of the update masks of a net update.

    Args:
        connection: what to read the interval with.
        instance: a capture instance that supports net changes.
        arguments: from_lsn, to_lsn and the row filter option.

    Raises:
        SqlError: 313 when the range or the option is not valid.
    """
    bounds, option = check_arguments(connection, database, instance, arguments, net=True)
    table = _change_table(database, instance)
    start, operation, mask = (
        sqlite_column(table, name) for name in ("__$start_lsn", "__$operation", "__$update_mask")
    )
    order = ", ".join(
        sqlite_column(table, name)
        for name in ("__$start_lsn", COMMAND_ID, "__$seqval", "__$operation")
    )
    backwards = order.replace(",", " DESC,") + " DESC"
    key = ", ".join(sqlite_column(table, name) for name in instance.index_columns)
    if option == "all with merge":
        shown_operation = "CASE last_op WHEN 1 THEN 1 ELSE 5 END"
    else:
        shown_operation = (
            "CASE WHEN last_op = 1 THEN 1 WHEN first_op = 2 OR changes = 1 THEN first_op ELSE 4 END"
        )
    shown_mask = "NULL"
    mask_union = "NULL"
    if option == "all with mask":
        shown_mask = "CASE WHEN last_op = 1 OR first_op = 2 THEN NULL ELSE mask_union END"
        mask_union = f"cdc_mask_union({mask}) OVER ({{}})"
        _register_mask_union(connection)
    columns = [
        start,
        shown_operation,
        shown_mask,
        *_captured_sqlite(table),
    ]
    picked = _picked(columns)
    window = f"PARTITION BY {key}"
    return ChangeQuery(
        f"SELECT {picked} FROM (SELECT *,"
        f" {operation} AS last_op,"
        f" row_number() OVER ({window} ORDER BY {backwards}) AS newest,"
        f" first_value({operation}) OVER ({window} ORDER BY {order}) AS first_op,"
        f" count(*) OVER ({window}) AS changes,"
        f" {mask_union.format(window)} AS mask_union"
        f' FROM "{table.sqlite_name}"'
        f" WHERE {start} >= ? AND {start} <= ? AND {operation} <> 3)"
        " WHERE newest = 1 AND NOT (last_op = 1 AND first_op = 2)",
        bounds,
    )


class _MaskUnion:
    """SQLite window function: the bitwise OR of update masks (it is never asked to slide)."""

    def __init__(self) -> None:
        self._bits = 0
        self._length = 0

    def step(self, mask: StorageValue) -> None:
        if isinstance(mask, bytes):
            self._bits |= int.from_bytes(mask, "big")
            self._length = max(self._length, len(mask))

    def value(self) -> bytes:
        return self._bits.to_bytes(self._length, "big")

    final = value

    def inverse(self, _mask: StorageValue) -> None:
        raise SqlError(INTERNAL, "The update mask union does not slide.")


_with_mask_union: WeakSet[apsw.Connection] = WeakSet()


def _register_mask_union(connection: apsw.Connection) -> None:
    if connection not in _with_mask_union:
        connection.create_window_function("cdc_mask_union", _MaskUnion, 1)
        _with_mask_union.add(connection)
