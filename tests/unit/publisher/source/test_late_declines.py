"""A page of blocks that turns out to be declined when further pages were fetched behind it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from tailrace_publisher.change.page import ChangePage, ChangeRow, position_of
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.encode.columns.column_forms import Declined, NotAscii
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.pages.page_lanes import PageLane, Places
from tailrace_publisher.source.pages.page_readers import Fetched, RowReader
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tests.unit.publisher.source.test_change_pages import (
    FIRST,
    LAST,
    TABLE,
    ChangeTable,
    instance,
)

WITHIN_S = 20.0
PAGE = PageLimit(3, 1 << 30)
# Transactions that end inside of pages, and one of several pages.
SIZES = [1, 2, 4, 1, 9, 1, 1]
ROWS = [
    (Lsn(1, 2 + number, 0), 1, 7 + row, 2)
    for number, count in enumerate(SIZES)
    for row in range(count)
]


class Encoding:
    """In place of blocks: what it encodes are positions, on a thread of its own.

    Args:
        reader: reads the rows.
        declined: the row that it declines, not before another page was read.
        reason: with what.
    """

    rows_min = 2
    as_bytes: frozenset[str] = frozenset()

    def __init__(self, reader: RowReader, declined: int, reason: Declined | None = None) -> None:
        self._reader = reader
        self._declined = declined
        self._reason = reason or Declined("as asked")
        self._executor = ThreadPoolExecutor(1)
        self._reads = 0
        self._changed = threading.Condition()

    def read(self, *asked: Any) -> Fetched[list[ChangeRow]]:
        found = self._reader.read(*asked)
        with self._changed:
            self._reads += 1
            self._changed.notify_all()
        return found

    def together(self, parts: Sequence[list[ChangeRow]]) -> list[ChangeRow]:
        return self._reader.together(parts)

    def encode(self, rows: list[ChangeRow]) -> Future[EncodedRows]:
        read = self._reads
        is_last = any(row[5] == len(ROWS) - 1 for row in rows)

        def encoded() -> EncodedRows:
            if any(row[5] == self._declined for row in rows):
                with self._changed:
                    assert is_last or self._changed.wait_for(lambda: self._reads > read, WITHIN_S)
                raise self._reason
            return EncodedRows("t", 1, [position_of(row).to_bytes() for row in rows])

        return self._executor.submit(encoded)

    def close(self) -> None:
        self._executor.shutdown()


@pytest.mark.parametrize("free", [2, 3])
@pytest.mark.parametrize("declined", range(len(ROWS) + 1))
@pytest.mark.parametrize("reason", [Declined(), NotAscii()], ids=["for good", "for its texts"])
def test_every_row_comes_once_whichever_page_is_declined(
    reason: Declined, declined: int, free: int
):
    connection: Any = ChangeTable(ROWS, has_id=True)
    capture = instance(ordered_by_command_id=True)
    schema = TableSchema(TABLE, "t", FIRST, current_columns(capture))
    size = RowSize(schema)
    others = [Encoding(RowReader(connection, PAGE, size), len(ROWS))]
    others.append(Encoding(RowReader(connection, PAGE, size), declined, reason))
    made = list(others)
    reading = ThreadPoolExecutor(1)
    lane = PageLane(reading, lambda: connection, lambda: None)

    def change_pages() -> ChangePages:
        span = LsnRange(ChangePosition.end_of(FIRST), LAST)
        return ChangePages(
            connection, capture, schema, span, PAGE, FIRST, size, lambda: cast(Any, others.pop())
        )

    positions: list[bytes] = []
    by_row = 0
    places = Places(free)
    try:
        for page in lane.read_ahead(change_pages, places):
            if isinstance(page, ChangePage):
                by_row += 1
                positions += [position_of(row).to_bytes() for row in page.rows]
            else:
                positions += page.positions
    finally:
        reading.shutdown()
        for encoding in made:
            encoding.close()

    assert positions == [
        ChangePosition(lsn, command, Lsn(0, 0, seqval), Operation.INSERT).to_bytes()
        for lsn, command, seqval, _ in ROWS
    ]
    assert (by_row > 0) == (declined < len(ROWS) and not isinstance(reason, NotAscii))
    assert [places.take_if_free() for _ in range(free + 1)] == [True] * free + [False]
