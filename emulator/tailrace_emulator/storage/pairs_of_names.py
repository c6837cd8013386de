"""Names that differ by case alone.

SQL Server has both where the database's collation distinguishes case. Here names compare without
regard to case in every database, so a second one is refused.

See: Collation and Unicode support, database-level collations (identifiers).
"""

from __future__ import annotations

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.storage.database import Database
from tailrace_emulator.values.collations import collation


def refuse_pair_of_names(database: Database, known: str, name: str) -> None:
    """Raise 50900 where SQL Server would have both, a name that is there and another one."""
    if known != name and not collation(database.collation).ignores_case:
        raise not_supported(f"two names that differ by case alone ({known}, {name})")
