"""Key ranges and their checksums: sums of the parts of row hashes. Pure.

A sum does not depend on the order of rows, so each side adds its rows as it reads them. Four parts
of four bytes are added, because the sum of a part over 2^31 rows still is a bigint. Rows that
differ change at least one of the sums, but for a chance of 2^-128.

Only keys of one integer column have ranges that both sides order alike. The order of texts and of
uniqueidentifier is that of the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.verify.canonical_text import source_row
from tailrace.verify.table_shape import ONE_PROCESSOR, TableShape
from tailrace_publisher.snapshot.key_text import typed_parameter
from tailrace_publisher.source.connection.quoting import quote_name, quote_table
from tailrace_sink.tables.lake_table import quote

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_PARTS: Final = 4
_PART_BYTES: Final = 4
RANGE_ROWS: Final = 20_000
RANGES_MAX: Final = 200
"""Spark finds the range of a row by halves; more of them make a larger expression, not a slower
one."""

Checksum = tuple[int, ...]
"""Number of rows, and the sums of the parts of their hashes; of no rows all are 0."""
NOTHING: Final[Checksum] = (0,) * (1 + _PARTS)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows whose key is in (after, last].

    Attributes:
        after: None for all up to ``last``.
        last: None for all after ``after``.
    """

    after: int | None
    last: int | None

    def condition(self, name: str) -> str:
        """Return the condition of its rows, in T-SQL and Spark SQL alike.

        Args:
            name: the quoted name of the key's column.
        """
        bounds = [] if self.after is None else [f"{name} > {self.after}"]
        bounds += [] if self.last is None else [f"{name} <= {self.last}"]
        return " AND ".join(bounds) or "1 = 1"

    def lake_condition(self, name: str) -> str:
        """Return the same for a lake, where a wrong row may have NULL: it is in the last range."""
        is_last = self.last is None and self.after is not None
        return self.condition(name) + (f" OR {name} IS NULL" if is_last else "")

    def has(self, key: int) -> bool:
        """Return whether a key is in it."""
        return (self.after is None or key > self.after) and (self.last is None or key <= self.last)


EVERYTHING: Final = KeyRange(None, None)


def has_ranges(shape: TableShape) -> bool:
    """Return whether both sides order the keys of a table alike."""
    identity = shape.newest.identity_columns
    return (
        len(identity) == 1
        and shape.newest.key == shape.newest.identity
        and identity[0].type.name in _INTEGERS
    )


def whole(ranges: Sequence[KeyRange]) -> KeyRange:
    """Return what some ranges have together, each of which follows the one before it."""
    return KeyRange(ranges[0].after, ranges[-1].last)


def range_rows(rows: int) -> int:
    """Return how many rows a range has, so that there are not too many ranges."""
    return max(RANGE_ROWS, -(-rows // RANGES_MAX))


def checksum_statement(shape: TableShape, *, is_first: bool) -> str:
    """Return the statement of the checksum of the next rows by key, and of the last key.

    Its parameters are the number of rows and, but for the first ones, the key before them.
    """
    column = shape.newest.identity_columns[0]
    key = quote_name(column.name)
    where = "" if is_first else f" WHERE {key} > {typed_parameter(column)}"
    parts = ", ".join(
        f"SUM(CAST(SUBSTRING(h, {1 + place * _PART_BYTES}, {_PART_BYTES}) AS bigint))"
        for place in range(_PARTS)
    )
    return (
        f"SELECT COUNT_BIG(*), {parts}, MAX(k) FROM (SELECT TOP (?) {key} AS k,"
        f" {source_row(shape.columns)} AS h"
        f" FROM {quote_table(shape.newest.source_table)}{where}"
        f" ORDER BY {key}) AS hashed {ONE_PROCESSOR}"
    )


def lake_parts(row_hash: str) -> list[str]:
    """Return the Spark SQL expressions of the parts of a row's hash.

    Args:
        row_hash: expression of the hash, as binary.
    """
    width = 2 * _PART_BYTES
    return [
        f"CAST(conv(substr(hex({row_hash}), {1 + place * width}, {width}), 16, 10) AS BIGINT)"
        for place in range(_PARTS)
    ]


def range_of(key: str, lasts: Sequence[int], begin: int = 0) -> str:
    """Return the Spark SQL expression of the number of a key's range, found by halves.

    Args:
        key: name of the key's column.
        lasts: the last key of each range but the last one, in order.
        begin: the number of the first range.
    """
    if not lasts:
        return str(begin)
    half = len(lasts) // 2
    lower = range_of(key, lasts[:half], begin)
    upper = range_of(key, lasts[half + 1 :], begin + half + 1)
    return f"CASE WHEN {quote(key)} <= {lasts[half]} THEN {lower} ELSE {upper} END"


def differing(
    ranges: Sequence[KeyRange], source: Sequence[Checksum], lake: Mapping[int, Checksum]
) -> list[KeyRange]:
    """Return the ranges whose checksums differ; neighbours are joined.

    Args:
        lake: by the number of the range; without rows there is none.
    """
    found: list[KeyRange] = []
    for number, (keys, checksum) in enumerate(zip(ranges, source, strict=True)):
        if checksum == lake.get(number, NOTHING):
            continue
        if found and found[-1].last == keys.after and keys.after is not None:
            found[-1] = KeyRange(found[-1].after, keys.last)
        else:
            found.append(keys)
    return found
