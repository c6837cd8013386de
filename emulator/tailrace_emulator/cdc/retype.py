"""Converting the values of a change table's column to the type its source column was given.

The values are converted exactly as ALTER COLUMN converted those of the source table: by T-SQL's
rules for assignment. So every change of type that the server let pass on the source can be followed
here.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace_emulator.tsql.conversions import assigner
from tailrace_emulator.values.types import SqlType, StorageValue

Conversion = Callable[[StorageValue], StorageValue]


def conversion(old: SqlType, new: SqlType, table: str, column: str) -> Conversion:
    """What turns a value of type ``old`` into one of type ``new``; NULL stays NULL.

    Args:
        old: the column's type so far.
        new: the type that it is given.
        table: ``database.schema.table`` of the change table, for messages.

    Raises:
        SqlError: 206 or 257 for types that do not convert implicitly. The conversion itself raises
            220, 8115, 2628, 241, 245 and so on for a value that does not fit.
    """
    convert = assigner(old, new, table, column)

    def null_safe(value: StorageValue) -> StorageValue:
        return value if value is None or convert is None else convert(value)

    return null_safe
