"""The statements that create and drop capture instances, and that clean up their rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.rows import Table
from tests.simulation.sqlserver.select import SqlError
from tests.simulation.sqlserver.statements import Answer, pattern, statement
from tests.simulation.sqlserver.view import View
from tests.simulation.world import Finding

_PARAMETER: Final = re.compile(r"@(\w+) = (?:N'([^']*)'|(\w+))")
_INSTANCES_MAX: Final = 2


@statement(
    "SELECT ct.role_name, i.name, ct.filegroup_name, ct.supports_net_changes, ct.partition_switch"
    " FROM cdc.change_tables ct LEFT JOIN sys.indexes i ON i.object_id = ct.source_object_id"
    " AND i.name = ct.index_name AND i.is_unique = 1 WHERE ct.object_id = ?"
)
def _definition(view: View, parameters: Sequence[Any]) -> Answer:
    found = (i for i in view.instances() if i.object_id == parameters[0])
    return [(None, None, None, 0, int(i.partition_switch)) for i in found]


@statement("SELECT IS_MEMBER(N'db_owner')")
def _is_owner(view: View, _: Sequence[Any]) -> Answer:
    """https://learn.microsoft.com/sql/t-sql/functions/is-member-transact-sql"""
    return [(int(view.features.is_owner),)]


@pattern(r"EXEC sys\.sp_cdc_enable_table (?P<given>.*)")
def _enable(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql"""
    given, table = _of_table(view, match)
    database, name = view.group.database, given["capture_instance"]
    if len(database.instances_of(table.object_id)) >= _INSTANCES_MAX:
        raise SqlError(22962, f"Two capture instances already exist for {table.called}.")
    if name in database.instances:
        raise SqlError(22926, f"The capture instance name '{name}' already exists.")
    listed = given.get("captured_column_list")
    columns = None if listed is None else frozenset(listed[1:-1].split("], ["))
    if columns is not None and columns - {column.name for column in table.columns}:
        raise SqlError(22942, "A column of the list is not in the source table.")
    view.group.enable(name, table, captured=columns)
    return []


@pattern(r"EXEC sys\.sp_cdc_disable_table (?P<given>.*)")
def _disable(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-disable-table-transact-sql"""
    given, table = _of_table(view, match)
    group, name = view.group, given["capture_instance"]
    instance = group.database.instances.get(name)
    if instance is None or instance.source != table.object_id:
        raise SqlError(22960, f"The capture instance '{name}' does not exist.")
    others = (i for i in group.database.instances_of(table.object_id) if i is not instance)
    _check_kept(view, max((i.start_lsn for i in others), default=b""), "an instance")
    group.write(wal.DisableInstance(group.log.next_lsn(), group.server.clock.local(), name))
    return []


@statement(
    "SELECT MAX(start_lsn), COUNT(*) FROM (SELECT TOP (?) start_lsn FROM cdc.lsn_time_mapping AS m"
    " WHERE start_lsn > ? AND start_lsn <= ? AND NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping"
    " AS low WHERE low.start_lsn = ? AND low.tran_end_time = m.tran_end_time)"
    " ORDER BY start_lsn) AS bite"
)
def _next_low_watermark(view: View, parameters: Sequence[Any]) -> Answer:
    limit, low, up_to, of_time = parameters
    entries = view.database.mapping
    times = {e.tran_end_time for e in entries if e.start_lsn == of_time}
    later = (e for e in entries if low < e.start_lsn <= up_to and e.tran_end_time not in times)
    lsns = [e.start_lsn for e in later][:limit]
    return [(max(lsns, default=None), len(lsns))]


@pattern(r"EXEC sys\.sp_cdc_cleanup_change_table (?P<given>.*)")
def _clean(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    """Of entries with one commit time it takes the first.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-cleanup-change-table-transact-sql
    """
    given = _changing(view, match)
    group, mark = view.group, bytes.fromhex(given["low_water_mark"].removeprefix("0x"))
    times = [e.tran_end_time for e in group.database.mapping if e.start_lsn == mark]
    if not times:
        raise SqlError(22964, "The LSN is not in cdc.lsn_time_mapping.")
    first = min(e.start_lsn for e in group.database.mapping if e.tran_end_time == times[0])
    now, name = group.server.clock.local, given["capture_instance"]
    _check_kept(view, first, "change rows")
    group.write(wal.RaiseWatermarks(group.log.next_lsn(), now(), first, name))
    group.write(wal.DeleteChangeRows(group.log.next_lsn(), now()))
    return []


def _check_kept(view: View, lsn: bytes, taken: str) -> None:
    """Raise a finding if something goes that a lake lacks."""
    kept_after = view.features.kept_after
    if kept_after is not None and lsn > kept_after():
        raise Finding(f"the publisher takes {taken} away that the lake lacks, below {lsn.hex()}")


def _of_table(view: View, match: re.Match[str]) -> tuple[dict[str, str], Table]:
    """The parameters and the table of a procedure."""
    given = _changing(view, match)
    return given, view.table_named(f"{given['source_schema']}.{given['source_name']}")


def _changing(view: View, match: re.Match[str]) -> dict[str, str]:
    """The parameters of a procedure, if the login may change the database here."""
    if not view.is_primary:
        raise SqlError(3906, "Failed to update database because the database is read-only.")
    if not view.features.is_owner:
        raise SqlError(22904, "Caller is not authorized to initiate the requested action.")
    return {name: text or word for name, text, word in _PARAMETER.findall(match["given"])}
