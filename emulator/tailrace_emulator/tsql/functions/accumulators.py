"""The aggregates that SQLite calls: one object per group, or per window frame."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from tailrace_emulator import messages
from tailrace_emulator.tsql.conversions.numbers import rescale
from tailrace_emulator.tsql.functions.operators import decimal_of, scaled_of
from tailrace_emulator.tsql.functions.sqlite_functions import AGGREGATES, sqlite_function


class DecimalSum:
    """SUM of exact decimals as decimal(38, s)."""

    def __init__(self) -> None:
        self.total = 0
        self.count = 0
        self.scales = (0, 0)

    def step(self, value: int | bytes | None, source: int, target: int) -> None:
        """A row enters."""
        if value is not None:
            self.total += scaled_of(value)
            self.count += 1
        self.scales = (source, target)

    def inverse(self, value: int | bytes | None, _: int, __: int) -> None:
        """A row leaves the window."""
        if value is not None:
            self.total -= scaled_of(value)
            self.count -= 1

    def value(self) -> Any:
        """The sum now."""
        if not self.count:
            return None
        return decimal_of(rescale(self.total, *self.scales), 38)

    def final(self) -> Any:
        """The sum at the end."""
        return self.value()


class DecimalAverage(DecimalSum):
    """AVG of exact decimals: cut, not rounded, at its scale."""

    def value(self) -> Any:
        """The average now."""
        if not self.count:
            return None
        source, target = self.scales
        scaled = self.total * 10 ** (target - source)
        quotient = abs(scaled) // self.count
        return decimal_of(-quotient if scaled < 0 else quotient, 38)


class DistinctValues:
    """The values that a DISTINCT aggregate sees, as JSON of scaled integers."""

    def __init__(self) -> None:
        self.kept: list[int] = []

    def step(self, value: int | bytes | None) -> None:
        """A row."""
        if value is not None:
            self.kept.append(scaled_of(value))

    def inverse(self, value: int | bytes | None) -> None:
        """Not used: DISTINCT is no window."""

    def value(self) -> Any:
        """The list now."""
        return json.dumps([str(number) for number in self.kept])

    def final(self) -> Any:
        """The list."""
        return self.value()


def _of_list(name: str, factory: Callable[[], DecimalSum]) -> None:
    """Registers a decimal aggregate over such a list."""

    @sqlite_function(f"{name}_of", 3)
    def compute(numbers: str, source: int, target: int) -> Any:
        aggregate = factory()
        aggregate.scales = (source, target)
        for number in json.loads(numbers):
            aggregate.total += int(number)
            aggregate.count += 1
        return aggregate.final()


class Percentile:
    """PERCENTILE_CONT and PERCENTILE_DISC over the rows of a partition."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.fraction = 0.0
        self.descending = self.continuous = False

    def step(self, fraction: float, value: Any, descending: int, continuous: int) -> None:
        """A row enters; NULL is not looked at."""
        self.fraction = fraction
        self.descending, self.continuous = bool(descending), bool(continuous)
        if value is not None:
            self.values.append(value)

    def inverse(self, _: float, value: Any, *__: int) -> None:
        """A row leaves the window."""
        if value is not None:
            self.values.remove(value)

    def value(self) -> Any:
        """The percentile now."""
        if not self.values:
            return None
        ordered = sorted(self.values, reverse=self.descending)
        if not self.continuous:
            return ordered[max(0, math.ceil(self.fraction * len(ordered)) - 1)]
        row = self.fraction * (len(ordered) - 1)
        low, high = math.floor(row), math.ceil(row)
        return ordered[low] + (ordered[high] - ordered[low]) * (row - low)

    def final(self) -> Any:
        """The percentile at the end."""
        return self.value()


class ChecksumAggregate:
    """CHECKSUM_AGG: exclusive or of all values."""

    def __init__(self) -> None:
        self.total = 0

    def step(self, value: int | None) -> None:
        """A row enters."""
        self.total ^= value or 0

    def inverse(self, value: int | None) -> None:
        """A row leaves the window."""
        self.total ^= value or 0

    def value(self) -> int:
        """The sum now."""
        return self.total

    def final(self) -> int:
        """The sum at the end."""
        return self.total


class Single:
    """The one value of a scalar subquery; a second row is error 512."""

    def __init__(self) -> None:
        self.rows = 0
        self.kept: Any = None

    def step(self, value: Any) -> None:
        """A row."""
        self.rows += 1
        if self.rows > 1:
            raise messages.subquery_many_rows()
        self.kept = value

    def inverse(self, value: Any) -> None:
        """Not used: never a window."""

    def value(self) -> Any:
        """The value."""
        return self.kept

    def final(self) -> Any:
        """The value."""
        return self.kept


class Spread:
    """Variance and standard deviation by Welford's sums."""

    sample = True
    root = False

    def __init__(self) -> None:
        self.numbers: list[float] = []

    def step(self, value: float | None) -> None:
        """A row enters."""
        if value is not None:
            self.numbers.append(value)

    def inverse(self, value: float | None) -> None:
        """A row leaves the window."""
        if value is not None:
            self.numbers.remove(value)

    def value(self) -> Any:
        """The spread now."""
        count = len(self.numbers)
        divisor = count - 1 if self.sample else count
        if divisor < 1:
            return None
        try:
            mean = math.fsum(self.numbers) / count
            variance = math.fsum((x - mean) ** 2 for x in self.numbers) / divisor
        except OverflowError as error:
            raise messages.arithmetic_overflow("float") from error
        return math.sqrt(variance) if self.root else variance

    def final(self) -> Any:
        """The spread at the end."""
        return self.value()


def _spread(*, sample: bool, root: bool) -> Callable[[], Any]:
    """One of the four."""
    return type("Spread", (Spread,), {"sample": sample, "root": root})


_of_list("t_decimal_sum", DecimalSum)
_of_list("t_decimal_average", DecimalAverage)

AGGREGATES.extend(
    [
        ("t_decimal_sum", DecimalSum, 3),
        ("t_decimal_average", DecimalAverage, 3),
        ("t_distinct_values", DistinctValues, 1),
        ("t_percentile", Percentile, 4),
        ("t_checksum_agg", ChecksumAggregate, 1),
        ("t_single", Single, 1),
        ("t_stdev", _spread(sample=True, root=True), 1),
        ("t_stdevp", _spread(sample=False, root=True), 1),
        ("t_var", _spread(sample=True, root=False), 1),
        ("t_varp", _spread(sample=False, root=False), 1),
    ]
)
