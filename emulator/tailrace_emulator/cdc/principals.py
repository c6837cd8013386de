"""Database users and roles that change data capture makes: the cdc user, gating roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.catalog_store import delete_entry
from tailrace_emulator.storage.principal_model import Principal

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database

FIRST_FIXED_ROLE_ID: Final = 16384


def find_principal(database: Database, name: str) -> Principal | None:
    """The user or role of that name, case-insensitively, or None."""
    folded = name.casefold()
    return next((p for n, p in database.principals.items() if n.casefold() == folded), None)


def add_principal(
    connection: apsw.Connection, database: Database, name: str, kind: str
) -> Principal:
    """Creates a user (``S``) or a role (``R``), inside the caller's write transaction."""
    taken = [p.principal_id for p in database.principals.values()]
    principal_id = max(i for i in taken if i < FIRST_FIXED_ROLE_ID) + 1
    principal = Principal(principal_id, name, kind)
    ddl.put_principal(connection, database, principal)
    return principal


def remove_principal(connection: apsw.Connection, database: Database, name: str) -> None:
    """Removes a user or role, inside the caller's write transaction."""
    principal = find_principal(database, name)
    if principal is None:
        return
    delete_entry(connection, database.database_id, "principal", principal.name)
    database.engine.write_path.will_change_catalog()
    del database.principals[principal.name]
    database.version += 1
