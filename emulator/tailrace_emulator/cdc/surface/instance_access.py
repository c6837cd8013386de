"""Who may read a capture instance: the gating role and the columns of the source table.

"Requires membership in the sysadmin fixed server role or db_owner fixed database role. For all
other users, requires SELECT permission on all captured columns in the source table and, if a gating
role for the capture instance was defined, membership in that database role."

https://learn.microsoft.com/sql/relational-databases/system-functions/cdc-fn-cdc-get-all-changes-capture-instance-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.cdc.capture_instance import CaptureInstance
from tailrace_emulator.security.access import of_object, permits

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database


def may_read_instance(
    context: SessionContext, database: Database, instance: CaptureInstance
) -> bool:
    """Whether the session may read the changes of a capture instance."""
    if context.security.owns(database):
        return True
    token = context.security.user_or_none(database)
    if token is None:
        return False
    if instance.role_name is not None:
        folded = instance.role_name.casefold()
        roles = {
            principal.name.casefold()
            for principal in database.principals.values()
            if principal.principal_id in token.principals
        }
        if folded not in roles:
            return False
    source = database.table_by_id(instance.source_object_id)
    if source is None:
        return True
    securable = of_object(database, source)
    known = {column.column_id for column in source.columns}
    return all(
        permits(token, securable.column(column.column_id), "SELECT")
        for column in instance.columns
        if column.column_id in known
    )
