"""Compares one table of a busy source with the lake at one LSN.

Theory of operation. The rows of the source are read while it changes, between two moments. What
was committed up to the first is known as an LSN (started). What was committed before the second is
in the change tables once they have reached a fence (reached). The lake is read at a cut. A row
without a change in (min(started, cut), max(reached, cut)] was the same during the read and at the
cut. So if it differs, the lake is wrong. The change tables have the keys of all other rows.

The first read is of the checksums of key ranges, if both sides order the keys alike. The rows of
the ranges that differ, else all rows, are then read as hashes. Each row that differs is read by its
key, with its columns, and compared again at a later cut. It is reported as different if it did not
change meanwhile, and compared again if it did. Rows that change each time are counted as unsettled.
So a row that only moves is never reported.

A row that is equal may have changed as well: it was read before a change that the lake lacks. So
all rows that changed during these reads are compared again, too. Then one that is equal is settled.

A keyless table has no rows to look at again. It is read again as a whole while it changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from tailrace.verify.changed_keys import changed_keys
from tailrace.verify.lake_cuts import LakeCuts
from tailrace.verify.lake_rows import (
    Differences,
    checksums,
    differences,
    require_replaceable,
    row_count,
    texts_of,
)
from tailrace.verify.not_provable import NotProvable, errors_of_one_table
from tailrace.verify.ranges import EVERYTHING, KeyRange, differing, has_ranges, whole
from tailrace.verify.row_differences import Kind, RowDifference, row_difference
from tailrace.verify.source_rows import Reading, SourceRows, wait_for
from tailrace.verify.table_result import TableResult
from tailrace.verify.table_shape import Key, TableShape
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import ROWS_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace_sink.options.config import SinkConfig
    from tailrace_sink.reading.cut import Cut

_ROUNDS_MAX: Final = 6
_MOVED_MAX: Final = 200_000
"""Rows that changed during the first reads and are compared again."""
_KEYS_AT_ONCE: Final = 20_000
"""Rows that are compared by key against one cut."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a comparison.

    Attributes:
        wait_s: for the capture process, and for a cut that has what was read.
        examples: differing rows of a table that are shown.
    """

    wait_s: float = 120.0
    examples: int = 20


class Comparison:
    """Compares tables, one after another."""

    def __init__(
        self, source: SourceRows, spark: SparkSession, lake: SinkConfig, limits: Limits
    ) -> None:
        self._source = source
        self._spark = spark
        self._cuts = LakeCuts(spark, lake, limits.wait_s)
        self._limits = limits
        self._is_stuck = False

    def check_cut(self) -> None:
        """Check that the lake has a cut at all, before a table of the source is read.

        Raises:
            NotThere: no cut was published into it yet.
        """
        self._cuts.check()

    def compare(
        self, shape: TableShape, after: int | None = None, rows: int | None = None
    ) -> TableResult:
        """Compare a table; an error that concerns no other table becomes its problem.

        Args:
            after, rows: the part of a table with ranges, as :meth:`SourceRows.checksums`.

        Raises:
            SourceError: the server did not answer.
            SinkError: the lake cannot be read.
        """
        result = TableResult(f"{shape.table.schema}.{shape.table.table}", notes=_notes(shape))
        begun = time.monotonic()
        try:
            with errors_of_one_table(shape):
                self._cuts.require_own_rows(shape.table)
                if companions := self._cuts.companions(shape.table):
                    result.notes.append(f"rows not compared: {', '.join(companions)}")
                if shape.key:
                    self._compare_keyed(shape, result, after, rows)
                else:
                    self._compare_counted(shape, result)
                self._cuts.require_own_rows(shape.table)  # Somebody may have been at it meanwhile.
        except NotProvable as error:
            result.problem = str(error)
        result.seconds = time.monotonic() - begun
        return result

    def _compare_keyed(
        self, shape: TableShape, result: TableResult, after: int | None, rows: int | None
    ) -> None:
        ranges, moved, part = [EVERYTHING], set[Key](), EVERYTHING
        pending: list[Key] = []
        unexplained = 0
        for _ in range(_ROUNDS_MAX):
            if has_ranges(shape):
                part, ranges, moved = self._differing_ranges(shape, after, rows, result)
            if ranges:
                reading = self._timed(partial(self._source.rows, shape, ranges), result)
                found, changed = self._differences(shape, reading, result)
                result.not_examined = found.count - len(found.rows)
                pending = [difference.key for difference in found.rows]
                moved |= changed or set()
            unexplained = _unexplained(ranges, [*pending, *moved]) if has_ranges(shape) else 0
            if not unexplained:
                break
        if part != EVERYTHING:
            moved = {key for key in moved if part.has(int(str(key[0])))}
        result.last_key = part.last
        further = moved.difference(pending)
        pending += islice(further, _MOVED_MAX)
        result.not_examined += max(0, len(further) - _MOVED_MAX)
        for _ in range(_ROUNDS_MAX):
            starts = range(0, len(pending), _KEYS_AT_ONCE)
            some = [pending[at : at + _KEYS_AT_ONCE] for at in starts]
            pending = [key for keys in some for key in self._examine(shape, keys, result)]
            if self._cuts.is_late:  # What changed after the newest cut stays so.
                break
        result.unsettled = len(pending)
        if unexplained and not result.not_examined:
            raise NotProvable(
                f"table {shape.table}: rows of {unexplained} key ranges differ by their checksums,"
                f" and by key none does. Fix: tailrace snapshot {result.table}"
            )

    def _compare_counted(self, shape: TableShape, result: TableResult) -> None:
        for number in range(_ROUNDS_MAX):
            reading = self._timed(lambda: self._source.rows(shape), result)
            found, changed = self._differences(shape, reading, result)
            if changed is not None or (number and not found.count):
                break
        else:
            raise NotProvable(
                f"table {shape.table} has no key, and its rows changed during each comparison. Fix:"
                " run tailrace verify when it is quiet"
            )
        result.not_examined = found.count - len(found.rows)
        for row in found.rows:
            kind = Kind.MISSING if row.source > row.lake else Kind.SURPLUS
            count = abs(row.source - row.lake)
            self._report(RowDifference(kind, {"hash": row.key[0]}, rows=count), result)

    def _differing_ranges(
        self, shape: TableShape, after: int | None, rows: int | None, result: TableResult
    ) -> tuple[KeyRange, list[KeyRange], set[Key]]:
        """Return what was read, its ranges that differ, and the keys that changed meanwhile."""
        reading = self._timed(lambda: self._source.checksums(shape, after, rows), result)
        reached, cut = self._settled(reading, result)
        begun = time.monotonic()
        lake = checksums(shape, cut.read(shape.table), reading.ranges)
        result.lake_s += time.monotonic() - begun
        result.source_rows = reading.count
        result.lake_rows = sum(checksum[0] for checksum in lake.values())
        result.ranges = len(reading.ranges)
        found = differing(reading.ranges, reading.checksums, lake)
        result.ranges_differing = len(found)
        changed = self._changed(shape, reading, reached, cut) or set()
        return whole(reading.ranges), found, changed

    def _differences(
        self, shape: TableShape, reading: Reading, result: TableResult
    ) -> tuple[Differences, set[Key] | None]:
        """Compare all rows; return also the keys that changed during the read.

        They are None if rows of a keyless table changed.
        """
        reached, cut = self._settled(reading, result)
        begun = time.monotonic()
        table = cut.read(shape.table)
        rows = reading.rows
        if rows is None:
            raise ValueError("all rows are compared by their hashes")
        found = differences(self._spark, shape, rows, table, reading.ranges)
        if not result.ranges:
            result.source_rows, result.lake_rows = reading.count, row_count(shape, table)
        result.lake_s += time.monotonic() - begun
        return found, self._changed(shape, reading, reached, cut)

    def _examine(
        self,
        shape: TableShape,
        keys: Sequence[Key],
        result: TableResult,
        *,
        in_tables: bool = False,
    ) -> list[Key]:
        """Compare rows by key and column; return the keys of those that changed meanwhile.

        Raises:
            NotProvable: ``in_tables``, and no event can replace a row that differs.
        """
        reading = self._timed(lambda: self._source.rows_of(shape, keys), result)
        reached, cut = self._settled(reading, result, in_tables=in_tables)
        begun = time.monotonic()
        lake = texts_of(self._spark, shape, cut.read(shape.table), keys)
        result.lake_s += time.monotonic() - begun
        changed = self._changed(shape, reading, reached, cut) or set()
        again: list[Key] = []
        for key in keys:
            found = row_difference(shape, key, reading.texts.get(key), lake.get(key, ()))
            if found is None:
                continue
            if key in changed:
                again.append(key)
            else:
                self._report(found, result)
        if in_tables and result.keys:
            table = cut.read(shape.table)
            require_replaceable(self._spark, shape, table, cut.closed_lsn, result.keys)
        return again

    def differing_of(
        self, shape: TableShape, keys: Sequence[Key], result: TableResult
    ) -> list[Key]:
        """Compare rows in the tables again; return the keys of those that differ or still change.

        The log's tail shows an event whatever the table's row is, which the sink may yet drop.

        Args:
            result: of the table; the LSN of the cut is noted there.

        Raises:
            NotProvable: they cannot be compared, or no event can replace one.
            SourceError, SinkError: as :meth:`compare`.
        """
        found = TableResult(result.table)
        with errors_of_one_table(shape):
            self._cuts.require_own_rows(shape.table)
            moving = self._examine(shape, keys, found, in_tables=True)
        result.lsn = found.lsn
        return [*found.keys, *moving]

    def _report(self, found: RowDifference, result: TableResult) -> None:
        result.differing[found.kind.value] += found.rows
        if len(result.keys) <= ROWS_MAX:
            result.keys.append(tuple(found.key.values()))
        if len(result.examples) < self._limits.examples:
            result.examples.append(found)

    def _timed(self, read_source: Callable[[], Reading], result: TableResult) -> Reading:
        begun = time.monotonic()
        reading = read_source()
        result.source_s += time.monotonic() - begun
        result.rows_read += reading.count
        return reading

    def _settled(
        self, reading: Reading, result: TableResult, *, in_tables: bool = False
    ) -> tuple[Lsn, Cut]:
        """Wait until what was read is captured and in a cut; return its LSN, and the newest cut."""
        limit_s = self._limits.wait_s
        # A capture process that stood still for one table is not waited for again.
        stuck_s = 0 if self._is_stuck else limit_s
        reached = wait_for(lambda: self._source.reached(reading.fence), stuck_s)
        self._is_stuck = reached is None
        if reached is None:
            raise NotProvable(
                f"the capture process has not read the log within {limit_s:g} s, so changes during"
                " the comparison are not known. Fix: check the capture job (tailrace doctor), or"
                " give --wait more seconds"
            )
        cut = self._cuts.newest(reached, in_tables=in_tables)
        result.lsn = cut.closed_lsn
        result.first_lsn = result.first_lsn or cut.closed_lsn
        return reached, cut

    def _changed(
        self, shape: TableShape, reading: Reading, reached: Lsn, cut: Cut
    ) -> set[Key] | None:
        after, up_to = window(reading.started, reached, Lsn.parse(cut.closed_lsn))
        return changed_keys(self._source.control, shape, after, up_to)


def window(started: Lsn, reached: Lsn, cut: Lsn) -> tuple[Lsn, Lsn]:
    """Return (after, up_to] of the changes that a row must not have, to be the same on both sides.

    Args:
        started: everything up to it was committed before the read.
        reached: everything that was committed before the end of the read is at or before it.
    """
    return min(started, cut), max(reached, cut)


def _unexplained(ranges: Iterable[KeyRange], keys: Collection[Key]) -> int:
    """Return how many of the ranges that differ have none of the keys that differ or changed."""
    known = [None if key[0] is None else int(str(key[0])) for key in keys]
    return sum(
        not any(found.last is None if key is None else found.has(key) for key in known)
        for found in ranges
    )


def _notes(shape: TableShape) -> list[str]:
    notes = []
    if shape.left_out:
        notes.append(f"not in the lake: {', '.join(shape.left_out)}")
    if shape.presence_only:
        names = ", ".join(shape.presence_only)
        notes.append(f"only NULL or not, as the source does not know the salt: {names}")
    return notes
