"""ALTER DATABASE ... SET.

https://learn.microsoft.com/sql/t-sql/statements/alter-database-transact-sql-set-options
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import not_supported

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database

_STORED: Final = {
    "ALLOW_SNAPSHOT_ISOLATION": "snapshot_isolation_state",
    "READ_COMMITTED_SNAPSHOT": "is_read_committed_snapshot_on",
    "RECURSIVE_TRIGGERS": "is_recursive_triggers_on",
}
"""ON or OFF, under the names that the catalog has for them."""
_ONLY: Final = {
    **dict.fromkeys(
        ("ANSI_NULL_DEFAULT", "ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "ARITHABORT",
         "CONCAT_NULL_YIELDS_NULL", "CURSOR_CLOSE_ON_COMMIT", "NUMERIC_ROUNDABORT",
         "QUOTED_IDENTIFIER", "AUTO_CLOSE", "AUTO_SHRINK", "DB_CHAINING", "TRUSTWORTHY",
         "DATE_CORRELATION_OPTIMIZATION", "AUTO_UPDATE_STATISTICS_ASYNC"),
        "OFF",
    ),
    "CURSOR_DEFAULT": "GLOBAL",
    "PARAMETERIZATION": "SIMPLE",
}  # fmt: skip
"""The one setting that there is; SQL Server's default."""
_WITHOUT_EFFECT: Final = frozenset(
    {"RECOVERY", "AUTO_CREATE_STATISTICS", "AUTO_UPDATE_STATISTICS", "PAGE_VERIFY", "MULTI_USER",
     "SINGLE_USER", "RESTRICTED_USER", "READ_WRITE", "ONLINE", "QUERY_STORE",
     "DELAYED_DURABILITY", "TARGET_RECOVERY_TIME", "DISABLE_BROKER"}
)  # fmt: skip
"""They change no result; who else may enter is not limited."""


def set_database_option(
    database: Database, option: str, value: str, connection: apsw.Connection
) -> None:
    """One option of a database.

    Args:
        option: its name, in upper case.
        value: as written, in upper case; empty when there is none.
        connection: writes to the catalog.

    Raises:
        SqlError: 50900 for an option, or another setting, that there is not.
    """
    if option in _STORED:
        database.set_option(_STORED[option], int(value == "ON"), connection)
    elif option == "COMPATIBILITY_LEVEL":
        database.set_option("compatibility_level", int(value), connection)
    elif option in _ONLY:
        if value != _ONLY[option]:
            raise not_supported(f"ALTER DATABASE SET {option} {value}")
    elif option in _WITHOUT_EFFECT:
        database.set_option(option.lower(), value, connection)
    else:
        raise not_supported(f"ALTER DATABASE SET {option}")
