"""sys.fn_my_permissions and sys.fn_builtin_permissions as table functions.

https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-my-permissions-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.principal_functions import builtin_permissions, my_permissions
from tailrace_emulator.catalog.registry import parse_columns
from tailrace_emulator.catalog.table_functions import TableFunction, TableSource
from tailrace_emulator.values.types import SYSNAME, StorageValue, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext


def _mine(context: SessionContext, arguments: tuple[StorageValue, ...]) -> TableSource:
    return TableSource(None, rows=tuple(my_permissions(context, arguments[0], arguments[1])))


def _builtin(context: SessionContext, arguments: tuple[StorageValue, ...]) -> TableSource:
    return TableSource(None, rows=tuple(builtin_permissions(context, arguments[0])))


PERMISSION_FUNCTIONS: Final = {
    "fn_my_permissions": TableFunction(
        "fn_my_permissions",
        (SYSNAME, nvarchar(60)),
        parse_columns("entity_name sysname, subentity_name sysname, permission_name nvarchar(60)"),
        _mine,
    ),
    "fn_builtin_permissions": TableFunction(
        "fn_builtin_permissions",
        (nvarchar(60),),
        parse_columns(
            """class_desc nvarchar(60), permission_name nvarchar(60), type varchar(4),
 covering_permission_name nvarchar(60), parent_class_desc nvarchar(60),
 parent_covering_permission_name nvarchar(60)"""
        ),
        _builtin,
    ),
}
"""By casefolded name; schema sys, found without it too."""
