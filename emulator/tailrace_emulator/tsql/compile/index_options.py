"""The SET options that indexes on computed columns, filtered indexes and methods of xml ask for.

https://learn.microsoft.com/sql/t-sql/statements/set-quoted-identifier-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace_emulator.catalog.set_options import Semantics
    from tailrace_emulator.storage.model import Column, Index, Table

_NEEDING: Final = (
    "indexed views and/or indexes on computed columns and/or filtered indexes and/or query"
    " notifications and/or XML data type methods and/or spatial index operations"
)
"""What requires the options, as 1934 names it."""


def require_options(semantics: Semantics, command: str) -> None:
    """Refuses a command under other settings than the ones that SQL Server requires.

    Args:
        command: as the message names it: INSERT, CREATE INDEX and so on.

    Raises:
        SqlError: 1934 under other settings.
    """
    wrong = [
        name
        for name, is_on in (
            ("ANSI_NULLS", semantics.ansi_nulls),
            ("QUOTED_IDENTIFIER", semantics.quoted_identifier),
            ("CONCAT_NULL_YIELDS_NULL", semantics.concat_null_yields_null),
            ("ANSI_WARNINGS", semantics.ansi_warnings),
            ("ANSI_PADDING", semantics.ansi_padding),
        )
        if not is_on
    ]
    if wrong:
        raise messages.error(
            1934,
            command,
            ", ".join(wrong),
            _NEEDING,
        )


def require_for_change(semantics: Semantics, table: Table, command: str) -> None:
    """The same for a change of a table, if it has such an index."""
    if any(is_demanding(index, table.columns) for index in table.indexes):
        require_options(semantics, command)


def is_demanding(index: Index, columns: Sequence[Column]) -> bool:
    """Whether an index is filtered, or has a computed column."""
    if index.filter:
        return True
    ids = {*index.column_ids, *index.included_column_ids}
    return any(column.computed is not None and column.column_id in ids for column in columns)
