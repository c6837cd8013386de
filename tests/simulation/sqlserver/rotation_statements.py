"""The statements that create and drop capture instances, and that clean up their rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.database import as_datetime
from tests.simulation.sqlserver.rows import Instance, Table
from tests.simulation.sqlserver.select import SqlError
from tests.simulation.sqlserver.statements import Answer, pattern, statement
from tests.simulation.sqlserver.view import View
from tests.simulation.world import Finding

_PARAMETER: Final = re.compile(r"@(\w+) = (?:N'([^']*)'|(@?\w+))")
_INSTANCES_MAX: Final = 2


@statement(
    "SELECT ct.role_name, i.name, ct.filegroup_name, ct.supports_net_changes, ct.partition_switch"
    " FROM cdc.change_tables ct LEFT JOIN sys.indexes i ON i.object_id = ct.source_object_id"
    " AND i.is_unique = 1 AND i.name = ct.index_name COLLATE CATALOG_DEFAULT"
    " WHERE ct.object_id = ?"
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
    present = list(database.instances_of(table.object_id))
    _check_listed(present, table, columns)
    # A publisher repeats a list, or makes one where DDL is not captured yet: that binds nobody.
    is_list = any(instance.listed is not None for instance in present)
    view.group.enable(name, table, captured=columns, is_list=is_list)
    return []


@pattern(r"EXEC sys\.sp_cdc_disable_table (?P<given>.*)")
def _disable(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-disable-table-transact-sql"""
    given, table = _of_table(view, match)
    group, name = view.group, given["capture_instance"]
    instance = group.database.instances.get(name)
    if instance is None or instance.source != table.object_id:
        raise SqlError(22960, f"The capture instance '{name}' does not exist.")
    others = [i for i in group.database.instances_of(table.object_id) if i is not instance]
    there = [i for i in others if i.start_lsn is not None]
    # Cleanup raises a low watermark; where an instance began it holds what its table changed.
    _check_kept(view, max((i.enabled_lsn for i in there), default=b""), "an instance")
    _check_published(view, name, max((i.start_lsn or b"" for i in there), default=b""))
    group.write(wal.DisableInstance(group.log.next_lsn(), group.server.clock.local(), name))
    return []


@statement(
    "SELECT MAX(start_lsn), COUNT(*) FROM (SELECT TOP (?) start_lsn FROM cdc.lsn_time_mapping AS m"
    " WHERE start_lsn > ? AND start_lsn <= ? AND NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping"
    " AS low WHERE low.start_lsn <= ? AND low.tran_end_time = m.tran_end_time)"
    " ORDER BY start_lsn) AS bite"
)
def _next_low_watermark(view: View, parameters: Sequence[Any]) -> Answer:
    limit, after, up_to, low = parameters
    entries = view.database.mapping
    times = {as_datetime(e.tran_end_time) for e in entries if e.start_lsn <= low}
    later = (e for e in entries if after < e.start_lsn <= up_to)
    lsns = [e.start_lsn for e in later if as_datetime(e.tran_end_time) not in times][:limit]
    return [(max(lsns, default=None), len(lsns))]


@pattern(
    r"SELECT MAX\(lsn\), COUNT\(\*\) FROM \(SELECT TOP \(\?\) \[__\$start_lsn\] AS lsn"
    r" FROM cdc\.\[(?P<name>.*)_CT\] WHERE \[__\$start_lsn\] < \? ORDER BY \[__\$start_lsn\]\)"
    r" AS bite"
)
def _last_of_rows(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    limit, up_to = parameters
    rows = view.instance_of_table(f"cdc.{match['name']}_CT").rows
    lsns = sorted(row.start_lsn for row in rows if row.start_lsn < up_to)[:limit]
    return [(max(lsns, default=None), len(lsns))]


@statement("SELECT start_lsn FROM cdc.change_tables WHERE object_id = ?")
def _low_watermark(view: View, parameters: Sequence[Any]) -> Answer:
    return [(i.start_lsn,) for i in view.instances() if i.object_id == parameters[0]]


@statement(
    "IF NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn = ?"
    " AND tran_end_time = CAST(? AS datetime) AND tran_id = ?)"
    " THROW 51001, N'The published commit is gone.', 1"
)
def _has_commit(view: View, parameters: Sequence[Any]) -> Answer:
    lsn, ended, tran_id = parameters
    time = as_datetime(datetime.fromisoformat(ended))
    entries = view.database.mapping
    if not any(
        (e.start_lsn, as_datetime(e.tran_end_time), e.tran_id) == (lsn, time, tran_id)
        for e in entries
    ):
        raise SqlError(51001, "The published commit is gone.")
    return []


@statement(
    "IF NOT EXISTS (SELECT 1 FROM sys.database_recovery_status WHERE database_id = DB_ID()"
    " AND family_guid = ? AND recovery_fork_guid = ?)"
    " THROW 51001, N'The database is another one.', 1"
)
def _is_same_line(view: View, parameters: Sequence[Any]) -> Answer:
    group = view.group
    if [str(group.family_guid), str(group.fork_guid)] != list(parameters):
        raise SqlError(51001, "The database is another one.")
    return []


@statement(
    "IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE object_id = ? AND capture_instance = ?)"
    " THROW 51002, N'The capture instance is gone.', 1"
)
def _has_instance(view: View, parameters: Sequence[Any]) -> Answer:
    if tuple(parameters) not in {(i.object_id, i.name) for i in view.instances()}:
        raise SqlError(51002, "The capture instance is gone.")
    return []


@pattern(r"EXEC sys\.sp_cdc_cleanup_change_table (?P<given>.*)")
def _clean(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """Of entries with one commit time it takes the first.

    See: sys.sp_cdc_cleanup_change_table (Transact-SQL).
    """
    given = _changing(view, match)
    group, mark = view.group, parameters.named["@" + given["low_water_mark"].removeprefix("@")]
    times = [e.tran_end_time for e in group.database.mapping if e.start_lsn == mark]
    if not times:
        raise SqlError(22964, "The LSN is not in cdc.lsn_time_mapping.")
    entries = group.database.mapping
    same = as_datetime(times[0])
    first = min(e.start_lsn for e in entries if as_datetime(e.tran_end_time) == same)
    now, name = group.server.clock.local, given["capture_instance"]
    _check_kept(view, first, "change rows")
    _check_published(view, name, first)
    _check_moves(view, name, mark, first)
    group.write(wal.RaiseWatermarks(group.log.next_lsn(), now(), first, name))
    group.write(wal.DeleteChangeRows(group.log.next_lsn(), now()))
    return []


def _check_listed(
    instances: Sequence[Instance], table: Table, columns: frozenset[str] | None
) -> None:
    """Raise a finding if a publisher captures what the author of a column list did not name."""
    names = columns or frozenset(column.name for column in table.columns)
    for present in instances:
        if present.listed is not None and names - present.listed:
            found = ", ".join(sorted(names - present.listed))
            raise Finding(f"the publisher captures {found}, which no list of an operator has")


def _check_kept(view: View, lsn: bytes, taken: str) -> None:
    """Raise a finding if something goes that a lake lacks."""
    kept_after = view.features.kept_after
    if kept_after is not None and lsn > kept_after():
        raise Finding(f"the publisher takes {taken} away that the lake lacks, below {lsn.hex()}")


def _check_published(view: View, name: str, below: bytes) -> None:
    """Raise a finding if change rows go that nobody has published."""
    instance = view.group.database.instances.get(name)
    lsns = [row.start_lsn for row in instance.rows if row.start_lsn < below] if instance else []
    if lsns and max(lsns) > view.features.published_up_to(view.group):
        raise Finding(f"the publisher takes change rows of {name} away that are not published")


def _check_moves(view: View, name: str, mark: bytes, first: bytes) -> None:
    """Raise a finding if cleanup of an instance is called again with what moved nothing."""
    instance = view.group.database.instances.get(name)
    low = (instance.start_lsn if instance else None) or b""
    if first > low:
        view.features.moved_nothing.pop(name, None)
    elif view.features.moved_nothing.get(name) == (mark, low):
        raise Finding(f"cleanup of {name} is called again and again, and moves nothing")
    else:
        view.features.moved_nothing[name] = mark, low


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
