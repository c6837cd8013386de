"""SET DATEFORMAT: in which order a session's texts name day, month and year.

Conversions are values that all sessions share, so the order belongs to the thread that runs a
session's request. It is put there when a request begins and whenever the option changes.

https://learn.microsoft.com/sql/t-sql/statements/set-dateformat-transact-sql

Documented: the orders, and that ydm is not for date, datetime2 and datetimeoffset. Inferred, from
what users measured: a year of four digits is the year wherever it stands. The newer types read it
first under every order. They read it in the middle only under myd and dym, and last only under mdy,
dmy and ymd.
"""

from __future__ import annotations

import threading
from typing import Final

ORDERS: Final = frozenset({"mdy", "dmy", "ymd", "ydm", "myd", "dym"})
_YEAR_MIDDLE: Final = frozenset({"myd", "dym"})
_YEAR_LAST: Final = frozenset({"mdy", "dmy", "ymd"})
_YEAR_DIGITS: Final = 4


class _Current(threading.local):
    """The order that the running session asked for."""

    order: str = "mdy"


CURRENT: Final = _Current()


def arranged(
    parts: tuple[str, str, str], order: str, *, legacy: bool, is_iso: bool
) -> tuple[str, str, str]:
    """Year, month and day of a date of three numbers.

    Args:
        parts: digits, as they come.
        order: one of those in ``ORDERS``.
        legacy: whether they are read as datetime or smalldatetime.
        is_iso: whether a year in front is followed by month and day whatever the order.

    Raises:
        ValueError: the type does not read such a date under this order.
    """
    years = [n for n, digits in enumerate(parts) if len(digits) == _YEAR_DIGITS]
    if len(years) > 1 or any(len(d) > 2 for n, d in enumerate(parts) if n not in years):
        raise ValueError(parts)
    if not years:
        if order == "ydm" and not legacy:
            raise ValueError(parts)
        named = dict(zip(order, parts, strict=True))
        return named["y"], named["m"], named["d"]
    position = years[0]
    if not legacy and (
        (position == 1 and order not in _YEAR_MIDDLE) or (position == 2 and order not in _YEAR_LAST)
    ):
        raise ValueError(parts)
    rest = [digits for n, digits in enumerate(parts) if n != position]
    first_is_day = order.index("d") < order.index("m")
    if position == 0 and (is_iso or not legacy):
        first_is_day = False
    month, day = reversed(rest) if first_is_day else rest
    return parts[position], month, day
