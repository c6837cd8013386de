"""How many change rows a page may hold, learned from the rows before it (pure).

The number of rows says little. A row of integers occupies half a kilobyte, one of ``nvarchar(max)``
up to two gigabytes. So a page is also bounded in bytes. The size of a row is first estimated from
the declared widths, and later from the rows that were read. The estimate only decides how many rows
are *requested*. The read itself enforces the bound of the page. It measures value by value, for
every table whose declared widths do not rule out a larger page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.transforms import TransformKind

VALUE_BYTES: Final = 64
"""A value with the row's reference to it; the largest fixed type occupies about as much."""

_ROW_BYTES: Final = 512
"""A row without its values: its object, and the five that are its position and update mask."""

LARGE_GUESS_BYTES: Final = 65_536
"""Estimate for a value of a (max) type before any was read."""

_NARROW_BYTES: Final = 128
"""Values declared up to this width are not measured one by one."""

_TEXT: Final = frozenset({"char", "varchar", "nchar", "nvarchar", "sysname"})
_BINARY: Final = frozenset({"binary", "varbinary"})
_TEXT_BYTES: Final = 3
"""Bytes of a character at most: two in memory (except with emoji), three in UTF-8."""

_SHARES: Final = 4
"""Pages in addition to those that wait: while one is encoded, its rows, their columns, their
images and their envelopes are in memory."""


AHEAD_MAX: Final = 64
"""Pages read ahead, of all instances together."""

FEW_ROWS: Final = 256
"""Fewer rows than this cost less one by one: the kernels of a block have a fixed price of 2 ms, as
much as 200 rows of 12 columns take (bench page_paths, pages of 10 to 2000 rows)."""


@dataclass(frozen=True, slots=True)
class PageLimit:
    """What a page may hold.

    Attributes:
        rows: change rows at most, at least 1.
        size: bytes at most. A page has at least one row (an update: two), whatever its size.
    """

    rows: int
    size: int

    @classmethod
    def of_each(cls, rows: int, size: int, rows_ahead: int, instances: int) -> PageLimit:
        """Return the limit of each page while pages of several capture instances are in memory.

        See :func:`pages_held`.

        Args:
            rows: of one page at most.
            size: bytes of all pages together.
            rows_ahead: rows of all pages together. The limit of one page may be lower.
            instances: number of capture instances with news, at least 1.
        """
        held = pages_held(instances)
        return cls(max(1, min(rows, rows_ahead // held)), max(1, size // (held + _SHARES)))


def pages_held(instances: int) -> int:
    """Return how many pages may be in memory while several capture instances are read.

    One page of each instance is current and encoded. Two more of each are read meanwhile, but at
    most :data:`AHEAD_MAX` of all instances. Of many instances, most have only one page, and three
    pages would each have to be a third as large.

    Args:
        instances: number of capture instances with news, at least 1.
    """
    return instances + min(2 * instances, AHEAD_MAX)


class RowSize:
    """The learned size of the rows of one capture instance in one version.

    Args:
        leading: columns before the first value: position and update mask.
        in_last_range: estimate for the first range.

    Attributes:
        in_last_range: number of rows in the last range that was read.
    """

    def __init__(
        self, schema: TableSchema, leading: int = 5, in_last_range: int = FEW_ROWS
    ) -> None:
        self.in_last_range = in_last_range
        self._leading = leading
        self.schema = schema
        declared = [_declared_bytes(_read_type(column)) for column in schema.columns]
        self._wide = [
            place
            for place, size in enumerate(declared, leading)
            if size is None or size > _NARROW_BYTES
        ]
        self._fixed = _ROW_BYTES + VALUE_BYTES * len(declared)
        self._most = (
            None if None in declared else self._fixed + sum(size for size in declared if size)
        )
        self._expected = float(
            self._fixed + sum(LARGE_GUESS_BYTES if size is None else size for size in declared)
        )

    def needs_measuring(self, limit: PageLimit) -> bool:
        """Return whether a page of so many rows may be larger than so many bytes."""
        return self.may_exceed(limit.rows, limit)

    def may_exceed(self, rows: int, limit: PageLimit) -> bool:
        """Return whether so many rows may be larger than a page's bytes."""
        return self._most is None or self._most * rows > limit.size

    def rows_of(self, limit: PageLimit) -> int:
        """Return how many rows to request: a page of them is expected to be three quarters full.

        The number is higher if so many rows fit whatever their values.
        """
        if not self.needs_measuring(limit):
            return limit.rows
        certain = 0 if self._most is None else limit.size // self._most
        return max(1, min(limit.rows, max(certain, int(0.75 * limit.size / self._expected))))

    def of(self, row: Sequence[Any]) -> int:
        """Return the bytes of a row; 0 for a row of another result set, which has no values."""
        if len(row) < self._leading:
            return 0
        size = self._fixed
        for place in self._wide:
            size += sys.getsizeof(row[place])
        return size

    def of_block(self, rows: int, values: int) -> int:
        """Return the bytes of rows whose values occupy so many bytes in columns."""
        return self._fixed * rows + values

    def learn(self, rows: int, size: int) -> None:
        """Learn from rows that were read.

        A larger size counts at once, a smaller one by halves, because large rows return.

        Args:
            rows: number of rows, at least 1.
            size: bytes of all of them.
        """
        seen = size / rows
        self._expected = max(seen, (self._expected + seen) / 2)


def _read_type(column: SchemaColumn) -> ColumnType:
    """Return the type that is read: for a hashed column, the whole text."""
    made = column.transform
    if made is not None and made.kind is TransformKind.HASH and made.width:
        return ColumnType("nvarchar", length=made.width)
    return column.type


def _declared_bytes(column_type: ColumnType) -> int | None:
    """Return a value's highest size without :data:`VALUE_BYTES`; None if it has no limit."""
    if column_type.length == MAX or column_type.is_large:
        return None
    if column_type.name in _TEXT:
        return _TEXT_BYTES * column_type.length
    if column_type.name in _BINARY:
        return column_type.length
    if column_type.name in _FIXED:
        return 0
    return None


_FIXED: Final = frozenset(
    {
        *("bit", "tinyint", "smallint", "int", "bigint", "real", "float"),
        *("money", "smallmoney", "decimal", "numeric", "timestamp", "uniqueidentifier"),
        *("date", "smalldatetime", "datetime", "datetime2", "time", "datetimeoffset"),
    }
)
