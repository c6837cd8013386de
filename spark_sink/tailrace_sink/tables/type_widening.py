"""Comparison of types: whether a lake column's type holds another, or can be widened to it."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

_DECIMAL: Final = re.compile(r"^DECIMAL\((\d+),(\d+)\)$")
_INTEGER_DIGITS: Final = {"SMALLINT": 10, "INT": 10, "BIGINT": 20}
"""Digits before the point that Delta requires of a decimal to hold the integer type."""
_ORDERED: Final = (("SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP_NTZ"))

_PROMOTIONS: Final = frozenset({("INT", "BIGINT"), ("FLOAT", "DOUBLE")})


class Widening(Enum):
    """The change that a column needs to hold values of another type."""

    HOLDS = auto()
    WIDENS = auto()
    REFUSED = auto()


def widening(present: str, wanted: str, *, is_few: bool = False) -> Widening:
    """Compare a lake column's type with that of a newer schema version.

    Source: Delta's type widening (integers upwards, float to double, integers to double and
    decimal, decimals that grow, date to timestamp_ntz).

    Args:
        present: Spark SQL type of the lake column.
        wanted: Spark SQL type of the source column.
        is_few: whether only Iceberg's promotions widen (INT to BIGINT, FLOAT to DOUBLE, decimals
            of one scale).
    """
    present, wanted = present.upper(), wanted.upper()
    if _holds(present, wanted):
        return Widening.HOLDS
    if _holds(wanted, present) and (not is_few or _is_promotion(present, wanted)):
        return Widening.WIDENS
    return Widening.REFUSED


def _is_promotion(narrow: str, wide: str) -> bool:
    """Whether Iceberg promotes one type to the other. Source: its specification."""
    if (narrow, wide) in _PROMOTIONS:
        return True
    before, after = _DECIMAL.match(narrow), _DECIMAL.match(wide)
    return before is not None and after is not None and before[2] == after[2]


def _holds(wide: str, narrow: str) -> bool:
    """Whether every value of ``narrow`` is exactly one of ``wide``."""
    if wide == narrow:
        return True
    for order in _ORDERED:
        if wide in order and narrow in order:
            return order.index(wide) > order.index(narrow)
    if wide == "DOUBLE" and narrow in {"SMALLINT", "INT"}:
        return True
    decimal = _DECIMAL.match(wide)
    if decimal is None:
        return False
    precision, scale = int(decimal[1]), int(decimal[2])
    if narrow in _INTEGER_DIGITS:
        return precision - scale >= _INTEGER_DIGITS[narrow]
    other = _DECIMAL.match(narrow)
    if other is None:
        return False
    return scale >= int(other[2]) and precision - scale >= int(other[1]) - int(other[2])
