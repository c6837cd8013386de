"""Which changes of a column's type preserve every value (pure).

ALTER COLUMN converts existing rows and writes no change rows. If a value does not fit (a number out
of range, a text that is too long), the statement fails as a whole. So a statement that succeeded
has preserved what these conversions preserve.

https://learn.microsoft.com/sql/t-sql/statements/alter-table-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_EXACT: Final = frozenset({"decimal", "numeric", "money", "smallmoney"})
_ALIASES: Final = {"text": "varchar", "ntext": "nvarchar", "image": "varbinary"}
_DIGITS: Final = {"money": 4, "smallmoney": 4, "datetime": 3}
"""Digits after the point, of types without a scale; a datetime is published in milliseconds."""
_KEPT: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(_INTEGERS, _INTEGERS | {"decimal", "numeric"}),
    **dict.fromkeys(_EXACT, _INTEGERS | _EXACT),
    "float": (_INTEGERS - {"bigint"}) | {"real"},
    "varchar": _INTEGERS | {"varchar", "char"},
    "nvarchar": _INTEGERS | {"nvarchar", "nchar", "varchar", "char"},
    "varbinary": frozenset({"varbinary", "binary"}),
    "datetime": frozenset({"date", "smalldatetime"}),
    "datetime2": frozenset({"date", "smalldatetime", "datetime", "datetime2"}),
    "time": frozenset({"time"}),
    "datetimeoffset": frozenset({"datetimeoffset"}),
}
"""By new type, the types whose values it preserves if it has as many digits after the point. A type
that is missing preserves none: char and binary pad values, date, real and bit truncate them."""


class Conversion(NamedTuple):
    """A change of a column's type that can change values."""

    column: str
    was: str
    now: str
    lsn: Lsn


def changing_conversions(versions: Sequence[TableSchema], after: Lsn) -> list[Conversion]:
    """Return the conversions after an LSN that can change values, oldest first.

    Args:
        versions: of one capture instance, oldest first.
        after: conversions at or before it are left out.
    """
    found: list[Conversion] = []
    for before, version in pairwise(versions):
        if version.schema_lsn <= after:
            continue
        known = {c.column_id: c for c in before.columns if c.transform is None}
        for column in version.columns:
            was = known.get(column.column_id)
            if was is None or column.transform is not None:
                continue
            if not keeps_values(was.type, column.type):
                types = str(was.type), str(column.type)
                found.append(Conversion(column.name, *types, version.schema_lsn))
    return found


def keeps_values(was: ColumnType, now: ColumnType) -> bool:
    """Return whether every value that a column has in one type is the same in the other."""
    if was == now:
        return True
    was_name, now_name = (_ALIASES.get(of.name, of.name) for of in (was, now))
    if was_name not in _KEPT.get(now_name, frozenset()):
        return False
    if was_name == "datetime":
        return now.scale == _DIGITS["datetime"]  # with more digits it shows more of 1/300 s
    return _DIGITS.get(was_name, was.scale) <= _DIGITS.get(now_name, now.scale)
