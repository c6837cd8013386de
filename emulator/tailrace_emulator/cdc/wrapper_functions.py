"""The scripts of sys.sp_cdc_generate_wrapper_function.

A wrapper is a multi-statement table function over a query function. It takes times instead of LSNs,
names the operation by letters and adds update flags. Its body says what the documentation of the
wrappers says; the text itself is ours.

https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-all-changes-capture-instance-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-net-changes-capture-instance-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc.change_table import METADATA_COLUMNS
from tailrace_emulator.cdc.column_list import split_column_list
from tailrace_emulator.cdc.query_functions import ALL_CHANGES_PREFIX, NET_CHANGES_PREFIX

if TYPE_CHECKING:
    from tailrace_emulator.cdc.capture_instance import CapturedColumn, CaptureInstance
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.values.types import SqlType

PROCEDURE: Final = "sp_cdc_generate_wrapper_function"
_OPERATIONS: Final = {1: "D", 2: "I", 3: "UO", 4: "UN", 5: "M"}


@dataclass(frozen=True, slots=True)
class WrapperFunction:
    """A function's name and the text that creates it."""

    name: str
    script: str


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """What the scripts of one capture instance have in common."""

    instance: str
    columns: tuple[tuple[str, SqlType], ...]
    flags: tuple[CapturedColumn, ...]
    high_operator: str


def wrapper_functions(
    database: Database,
    instance: CaptureInstance,
    *,
    closed_high_end_point: bool,
    column_list: str | None,
    update_flag_list: str | None,
) -> list[WrapperFunction]:
    """The wrapper of the all-changes function, and of the net-changes one where there is one.

    Args:
        closed_high_end_point: whether changes committed at the end time itself belong to a range.
        column_list: captured columns to return, as in ``@column_list``; all when it is empty.
        update_flag_list: captured columns with an update flag, in that order; none when empty.

    Raises:
        SqlError: 22918 or 22919 for a column that is not captured, 22965 for a quoted name
            without its end.
    """
    table = database.table_by_id(instance.object_id)
    types = table.columns[len(METADATA_COLUMNS) :] if table is not None else ()
    by_ordinal = {ordinal: column.type for ordinal, column in enumerate(types, 1)}
    wanted = _chosen(instance, column_list, 22918) if column_list else list(instance.columns)
    flags = _chosen(instance, update_flag_list, 22919) if update_flag_list else []
    wrapped = _Wrapped(
        instance.name,
        tuple((column.name, by_ordinal[column.ordinal]) for column in wanted),
        tuple(flags),
        "largest less than or equal" if closed_high_end_point else "largest less than",
    )
    functions = [_all_changes(wrapped)]
    if instance.supports_net_changes:
        functions.append(_net_changes(wrapped))
    return functions


def _chosen(instance: CaptureInstance, names: str, error: int) -> list[CapturedColumn]:
    chosen: list[CapturedColumn] = []
    for name in split_column_list(names):
        column = instance.column(name)
        if column is None:
            raise messages.error(error, f"cdc.{instance.name}_CT", procedure=PROCEDURE)
        chosen.append(column)
    return chosen


def _all_changes(wrapped: _Wrapped) -> WrapperFunction:
    names = [("__CDC_STARTLSN", "binary(10)"), ("__CDC_SEQVAL", "binary(10)")]
    changed = " WHEN __$operation = 4 THEN {} ELSE NULL END"
    return _script(
        f"fn_all_changes_{wrapped.instance}",
        f"{ALL_CHANGES_PREFIX}{wrapped.instance}",
        wrapped,
        names,
        ["__$start_lsn", "__$seqval"],
        (1, 2, 3, 4),
        "CASE" + changed,
        "__$start_lsn, __$seqval, __$operation",
    )


def _net_changes(wrapped: _Wrapped) -> WrapperFunction:
    changed = (
        "CASE WHEN __$operation = 4 AND @row_filter_option = N'all with mask' THEN {} ELSE NULL END"
    )
    return _script(
        f"fn_net_changes_{wrapped.instance}",
        f"{NET_CHANGES_PREFIX}{wrapped.instance}",
        wrapped,
        [],
        [],
        (1, 2, 4, 5),
        changed,
        "__$start_lsn",
    )


def _script(
    name: str,
    query_function: str,
    wrapped: _Wrapped,
    leading: list[tuple[str, str]],
    leading_values: list[str],
    operations: tuple[int, ...],
    flag: str,
    order: str,
) -> WrapperFunction:
    instance = "N'" + wrapped.instance.replace("'", "''") + "'"
    columns = [f"{column} {sql_type}" for column, sql_type in leading]
    columns += [f"{quoted(column)} {sql_type}" for column, sql_type in wrapped.columns]
    columns.append("__CDC_OPERATION nvarchar(2)")
    columns += [f"{quoted(column.name + '_uflag')} bit" for column in wrapped.flags]
    letters = " ".join(f"WHEN {number} THEN N'{_OPERATIONS[number]}'" for number in operations)
    values = [*leading_values, *(quoted(column) for column, _ in wrapped.columns)]
    values.append(f"CASE __$operation {letters} END")
    values += [
        flag.format(f"sys.fn_cdc_is_bit_set({column.ordinal}, __$update_mask)")
        for column in wrapped.flags
    ]
    separator = ",\n        "
    script = f"""CREATE FUNCTION {quoted(name)}
    (@start_time datetime = NULL,
    @end_time datetime = NULL,
    @row_filter_option nvarchar(30) = N'all')
RETURNS @resultset TABLE
    (
        {separator.join(columns)}
    )
AS
BEGIN
    DECLARE @from_lsn binary(10), @to_lsn binary(10);
    -- NULL means the end of the validity interval on that side.
    IF @start_time IS NULL
        SET @from_lsn = sys.fn_cdc_get_min_lsn({instance});
    ELSE
        SET @from_lsn = sys.fn_cdc_increment_lsn(
            sys.fn_cdc_map_time_to_lsn(N'largest less than or equal', @start_time));
    IF @end_time IS NULL
        SET @to_lsn = sys.fn_cdc_get_max_lsn();
    ELSE
        SET @to_lsn = sys.fn_cdc_map_time_to_lsn(N'{wrapped.high_operator}', @end_time);
    -- No commit lies between the two times.
    IF @from_lsn IS NOT NULL AND @from_lsn = sys.fn_cdc_increment_lsn(@to_lsn)
        RETURN;
    INSERT INTO @resultset
    SELECT {separator.join(values)}
    FROM cdc.{quoted(query_function)}(@from_lsn, @to_lsn, @row_filter_option)
    ORDER BY {order};
    RETURN;
END"""
    return WrapperFunction(name, script)


def quoted(name: str) -> str:
    """A name in brackets."""
    return "[" + name.replace("]", "]]") + "]"
