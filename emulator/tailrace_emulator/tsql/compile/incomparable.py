"""Types whose values are neither compared nor sorted, where a query would do either.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
(249, 305, 306, 421, 5335)
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.values.types import CLR_TYPES, INCOMPARABLE_TYPES


def check_sorted(values: Iterable[Value], clause: str) -> None:
    """Refuse what GROUP BY or ORDER BY would have to sort.

    Args:
        clause: as messages name it.

    Raises:
        SqlError: 249, 305 or 306.
    """
    for name in _incomparable(values):
        if name in CLR_TYPES:
            raise messages.error(249, name, clause)
        raise messages.error(305 if name == "xml" else 306)


def check_distinct(values: Iterable[Value]) -> None:
    """Refuse what DISTINCT would have to compare.

    Raises:
        SqlError: 421 for a type that does not compare.
    """
    for name in _incomparable(values):
        raise messages.error(421, name)


def check_united(values: Iterable[Value]) -> None:
    """Refuse what UNION, INTERSECT and EXCEPT would have to compare.

    Raises:
        SqlError: 5335 for a type that does not compare.
    """
    for name in _incomparable(values):
        raise messages.error(5335, name)


def _incomparable(values: Iterable[Value]) -> Iterable[str]:
    return (v.type.name for v in values if v.type.name in INCOMPARABLE_TYPES and not v.is_null)
