"""The pages of a window, read on lanes and encoded, capture instance by capture instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from tailrace_publisher.change.page import ChangePage, ChangeRow
from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.tables.coverage import Reading
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.encode.around_bad_events import encoding_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.key_moves import KeyMoves
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.events import UnavailableValues
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.snapshot.reselect import Reselection
from tailrace_publisher.source.log.windows import Window
from tailrace_publisher.source.pages.commits_ahead import CommitsAhead
from tailrace_publisher.source.pages.page_lanes import PageLane, PageLanes, Places
from tailrace_publisher.source.pages.page_readers import EncodingReader, Stamps
from tailrace_publisher.source.pages.page_size import (
    AHEAD_MAX,
    FEW_ROWS,
    PageLimit,
    RowSize,
    pages_held,
)
from tailrace_publisher.source.pages.pages import ROWS_AHEAD_MAX, ChangePages
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """How the source is read.

    Attributes:
        control: connection for positions and metadata.
        lanes: read pages of change rows.
        time: the server's local time.
    """

    control: Connection
    lanes: PageLanes
    time: ServerTime
    commits: CommitsAhead

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return self.control.queries + self.lanes.queries + self.commits.queries


class EncodedPages:
    """The pages of capture instances in a window.

    Args:
        observe: receives every page of a table whose snapshot is unfinished.
        while_waiting: called again and again while no page is ready.
    """

    def __init__(
        self,
        runtime: Runtime,
        source: SourceAccess,
        tables: PublishedTables,
        observe: Callable[[TableName, ChangePage], None],
        while_waiting: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._tables = tables
        self._observe = observe
        self._while_waiting = while_waiting
        self._encode = encoding_of(runtime.config.on_bad_event)
        self._row_sizes: dict[str, RowSize] = {}
        self._snapshotting: set[TableName] = set()
        self._reads_few = True
        self._not_reselected: set[TableName] = set()

    def in_window(self, window: Window, readings: Sequence[Reading]) -> list[Iterator[EncodedRows]]:
        """Return the encoded pages of each instance; their first pages are already being read."""
        config = self._runtime.config
        limit = PageLimit.of_each(
            config.page_rows, config.pages_bytes, ROWS_AHEAD_MAX, max(1, len(readings))
        )
        # A snapshot must know which rows changed, so until it ends its table is read row by row.
        self._snapshotting = {table.name for table in self._tables.in_snapshot()}
        self._reads_few = len(readings) <= AHEAD_MAX
        self._tables.prepare_encoders(readings)
        lanes, places = self._source.lanes, Places(pages_held(len(readings)))
        return [
            self._of(window, reading, limit, lanes.lane(number), places)
            for number, reading in enumerate(readings)
        ]

    def _of(
        self, window: Window, reading: Reading, limit: PageLimit, lane: PageLane, places: Places
    ) -> Iterator[EncodedRows]:
        """Return the encoded pages of one instance, whose first page is already being read.

        An error in them stops the instance's table.
        """
        span = window.span
        doing = (
            f"reading change rows of capture instance {reading.instance.name} after {span.after}"
            f" and up to {span.up_to}"
        )
        with of_one_table(reading.table.name, doing):
            encoder = self._tables.encoder(reading.table, reading.schema)
            change_pages = partial(self._change_pages, window, reading, limit, lane, encoder)
            coming = lane.read_ahead(change_pages, places, self._while_waiting)
        return self._encoded(window, reading, doing, encoder, coming)

    def _encoded(
        self,
        window: Window,
        reading: Reading,
        doing: str,
        encoder: EnvelopeEncoder,
        coming: Iterator[ChangePage | EncodedRows],
    ) -> Iterator[EncodedRows]:
        moves = self._moves_of(window, reading)
        with of_one_table(reading.table.name, doing):
            for page in coming:
                self._runtime.on_step(Step.PAGE)
                if isinstance(page, EncodedRows):
                    parts: Iterable[EncodedRows] = [page]
                else:
                    parts = self._encoded_page(window, reading, encoder, page)
                for encoded in parts:
                    if moves is not None:
                        moves.check(encoded)
                    if encoded.skipped:
                        skipped = self._runtime.metrics.skipped.labels(topic=encoded.topic)
                        skipped.inc(encoded.skipped)
                    yield encoded

    def _encoded_page(
        self, window: Window, reading: Reading, encoder: EnvelopeEncoder, page: ChangePage
    ) -> Iterator[EncodedRows]:
        if not page.rows:
            return
        for rows in self._completed(reading, page):
            yield self._encode(
                encoder,
                rows,
                window.commit_ms,
                self._runtime.clock.now_ms(),
                is_whole=reading.table.name not in self._snapshotting,
            )
        self._observe(reading.table.name, page)

    def _completed(self, reading: Reading, page: ChangePage) -> Iterable[Sequence[ChangeRow]]:
        """Return the rows, with reselected values if the options want them."""
        config, instance = self._runtime.config, reading.instance
        if config.unavailable_values is not UnavailableValues.RESELECT:
            return [page.rows]
        if not Reselection.is_possible(instance, page.schema):
            return [page.rows]
        reselection = Reselection(
            self._source.control,
            instance,
            page.schema,
            config.pages_bytes // 4,
            self._while_waiting,
        )
        return self._reselected(reselection, page)

    def _reselected(
        self, reselection: Reselection, page: ChangePage
    ) -> Iterator[Sequence[ChangeRow]]:
        """Yield the completed rows; log once a session if the login does not see their values."""
        yield from reselection.parts(page.rows)
        table, hidden = page.schema.table, reselection.hidden
        if hidden is not None and table not in self._not_reselected:
            self._not_reselected.add(table)
            _log.warning(
                "reselect_refused",
                table=str(table),
                reason=str(hidden),
                effect="values that the change table lacks stay unavailable",
            )

    def _moves_of(self, window: Window, reading: Reading) -> KeyMoves | None:
        """Return the check of the keys' order; None if change tables are read directly."""
        instance = reading.instance
        if not instance.by_function or not instance.key:
            return None
        after = window.span.after  # a window ends with a transaction, a session anywhere
        return KeyMoves(None if is_closed(after) else after.commit_lsn.to_bytes())

    def _change_pages(
        self,
        window: Window,
        reading: Reading,
        limit: PageLimit,
        lane: PageLane,
        encoder: EnvelopeEncoder,
    ) -> ChangePages:
        """Return the pages of one instance, to be read on the lane's thread."""
        row_size = self._row_size(reading)

        def blocks() -> EncodingReader | None:
            in_blocks = lane.blocks()
            if in_blocks is None:
                return None
            stamps = Stamps(window.commit_ms, self._runtime.clock.now_ms)
            return in_blocks.reader(encoder, limit, row_size, stamps)

        return ChangePages(
            lane.connection(),
            reading.instance,
            reading.schema,
            window.span,
            limit,
            reading.covers_from,
            row_size,
            None if reading.table.name in self._snapshotting else blocks,
        )

    def _row_size(self, reading: Reading) -> RowSize:
        """Return the known sizes of an instance's rows in its present version."""
        known = self._row_sizes.get(reading.instance.name)
        if known is None or known.schema is not reading.schema:
            # If many tables have news, most have few rows.
            guess = FEW_ROWS if self._reads_few else 0
            known = RowSize(reading.schema, in_last_range=guess)
            self._row_sizes[reading.instance.name] = known
        return known
