"""sp_table_privileges and sp_column_privileges: who may do what with which tables and columns.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-table-privileges-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-column-privileges-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.driver_procedures import matcher
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    flag,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.catalog.relations import Relation, relations
from tailrace_emulator.storage.principal_model import DBO_ID
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import BIT, SYSNAME, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.registry import Row
    from tailrace_emulator.storage.engine import Database

_P = ProcedureParameter
_PATTERN: Final = nvarchar(384)
_OF_TABLES: Final = ("DELETE", "INSERT", "REFERENCES", "SELECT", "UPDATE")
_OF_COLUMNS: Final = ("INSERT", "REFERENCES", "SELECT", "UPDATE")
_OBJECT: Final = 1

Grant = tuple[str, str, str, str]
"""Grantor, grantee, privilege, YES or NO."""


@procedure(
    "sp_table_privileges",
    _P("@table_name", _PATTERN),
    _P("@table_owner", _PATTERN, None),
    _P("@table_qualifier", SYSNAME, None),
    _P("@fUsePattern", BIT, 1),
)
def _table_privileges(context: SessionContext, args: Arguments) -> Iterator[Event]:
    database = context.engine.database(text(args["@table_qualifier"]) or context.database.name)
    use_pattern = bool(flag(args["@fUsePattern"]))
    named = matcher(text(args["@table_name"]), use_pattern=use_pattern)
    owned = matcher(text(args["@table_owner"]) or None, use_pattern=use_pattern)
    rows: list[Row] = [
        (database.name, relation.schema, relation.name, *grant)
        for relation in relations(context, database)
        if named(relation.name) and owned(relation.schema)
        for privilege in _OF_TABLES
        for grant in _grants(database, relation, privilege, 0)
    ]
    rows.sort(key=lambda row: (str(row[1]), str(row[2]), str(row[5]), str(row[4])))
    yield from result_set(
        """TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname!, GRANTOR sysname,
 GRANTEE sysname, PRIVILEGE varchar(32)!, IS_GRANTABLE varchar(3)!""",
        rows,
    )


@procedure(
    "sp_column_privileges",
    _P("@table_name", SYSNAME),
    _P("@table_owner", SYSNAME, None),
    _P("@table_qualifier", SYSNAME, None),
    _P("@column_name", _PATTERN, None),
)
def _column_privileges(context: SessionContext, args: Arguments) -> Iterator[Event]:
    database = context.engine.database(text(args["@table_qualifier"]) or context.database.name)
    named = matcher(text(args["@table_name"]), use_pattern=False)
    owned = matcher(text(args["@table_owner"]) or None, use_pattern=False)
    chosen = matcher(text(args["@column_name"]), use_pattern=True)
    rows: list[Row] = [
        (database.name, relation.schema, relation.name, column.name, *grant)
        for relation in relations(context, database)
        if named(relation.name) and owned(relation.schema)
        for column in relation.columns
        if chosen(column.name)
        for privilege in _OF_COLUMNS
        for grant in _grants(database, relation, privilege, column.column_id)
    ]
    rows.sort(key=lambda row: (str(row[3]), str(row[6]), str(row[5])))
    yield from result_set(
        """TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname!, COLUMN_NAME sysname!,
 GRANTOR sysname, GRANTEE sysname, PRIVILEGE varchar(32)!, IS_GRANTABLE varchar(3)!""",
        rows,
    )


def _grants(
    database: Database, relation: Relation, privilege: str, column_id: int
) -> Iterator[Grant]:
    """The owner, who may do everything, and whom the privilege is granted on the object.

    A column has what its table has, and what is granted on it alone.
    """
    names = {p.principal_id: p.name for p in database.state.principals.values()}
    names[DBO_ID] = "dbo"
    yield "dbo", "dbo", privilege, "YES"
    for key, entry in sorted(database.state.permissions.items()):
        is_here = (
            key.securable_class == _OBJECT
            and key.major_id == relation.object_id
            and key.minor_id in {0, column_id}
        )
        if is_here and key.permission == privilege and entry.state != "D":
            grantor = names.get(entry.grantor, "dbo")
            grantable = "YES" if entry.state == "W" else "NO"
            yield grantor, names.get(key.grantee, "public"), privilege, grantable
