"""Table-valued functions of schema sys, also found without it: fn_listextendedproperty, ...

https://learn.microsoft.com/sql/relational-databases/system-functions/system-catalog-functions-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.extended_properties import (
    LIST_COLUMNS,
    LIST_PARAMETERS,
    listed_properties,
)
from tailrace_emulator.catalog.log_functions import DM_DB_LOG_STATS
from tailrace_emulator.catalog.registry import parse_columns
from tailrace_emulator.catalog.table_functions import TableFunction, TableSource
from tailrace_emulator.values.collations import all_collations
from tailrace_emulator.values.types import INT, StorageValue, varbinary

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext


def _listed(context: SessionContext, arguments: tuple[StorageValue, ...]) -> TableSource:
    return TableSource(None, (), tuple(listed_properties(context, arguments)))


def _sql_text(_context: SessionContext, _arguments: tuple[StorageValue, ...]) -> TableSource:
    """No text of a statement is kept, so no handle leads to one."""
    return TableSource(None)


def _help_collations(_context: SessionContext, _arguments: tuple[StorageValue, ...]) -> TableSource:
    return TableSource(None, (), tuple((c.name, c.description) for c in all_collations()))


FUNCTIONS: Final[dict[str, TableFunction]] = {
    "fn_listextendedproperty": TableFunction(
        "fn_listextendedproperty", LIST_PARAMETERS, LIST_COLUMNS, _listed
    ),
    "fn_helpcollations": TableFunction(
        "fn_helpcollations",
        (),
        parse_columns("name sysname, description nvarchar(1000)"),
        _help_collations,
    ),
    "dm_exec_sql_text": TableFunction(
        "dm_exec_sql_text",
        (varbinary(64),),
        parse_columns(
            "dbid smallint, objectid int, number smallint, encrypted bit, text nvarchar(max)"
        ),
        _sql_text,
    ),
    "dm_exec_query_plan": TableFunction(
        "dm_exec_query_plan",
        (varbinary(64),),
        parse_columns(
            "dbid smallint, objectid int, number smallint, encrypted bit, query_plan xml"
        ),
        _sql_text,
    ),
    "dm_exec_input_buffer": TableFunction(
        "dm_exec_input_buffer",
        (INT, INT),
        parse_columns("event_type nvarchar(256), parameters smallint, event_info nvarchar(max)"),
        _sql_text,
    ),
    "dm_db_log_stats": DM_DB_LOG_STATS,
}
"""By casefolded name."""
