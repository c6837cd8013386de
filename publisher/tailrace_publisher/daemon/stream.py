"""One poll: from our position to the next window's end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.config import PublisherConfig
from tailrace_publisher.daemon.book import Book
from tailrace_publisher.daemon.committer import Committer
from tailrace_publisher.daemon.tables import PublishedTables, Reading
from tailrace_publisher.encode.rows import EncodedRows
from tailrace_publisher.errors import (
    CaptureInstanceGone,
    PermissionMissing,
    PublisherError,
    TableFailed,
)
from tailrace_publisher.metrics import Metrics
from tailrace_publisher.one_table import of_one_table
from tailrace_publisher.source.connection import Connection
from tailrace_publisher.source.merge import merge
from tailrace_publisher.source.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages import ROWS_AHEAD_MAX, ChangePages, read_ahead
from tailrace_publisher.source.queries import catalog_state, commits_from, instances_with_news
from tailrace_publisher.source.windows import Window, plan_window


class Stream:
    """Reads windows of change rows and hands their blocks on.

    A poll without news costs one statement; with news three, and one per page.

    Args:
        config: the options.
        control: connection for positions and metadata.
        bulk: connection of the reading thread.
        reader: executor with that one thread.
        tables: what is published.
        book: what is out.
        committer: takes the blocks.
        metrics: counts.
        observe: sees every block's parts before they are sent.
        clock_ms: milliseconds UTC.
        stop: set to end a window between two blocks.
        on_step: called with a name at each step, for tests that stop the process there.
    """

    def __init__(
        self,
        config: PublisherConfig,
        control: Connection,
        bulk: Connection,
        reader: Executor,
        tables: PublishedTables,
        book: Book,
        committer: Committer,
        metrics: Metrics,
        observe: Callable[[list[EncodedRows]], None],
        clock_ms: Callable[[], int],
        stop: threading.Event,
        on_step: Callable[[str], None],
    ) -> None:
        self._config = config
        self._control = control
        self._bulk = bulk
        self._reader = reader
        self._tables = tables
        self._book = book
        self._committer = committer
        self._metrics = metrics
        self._observe = observe
        self._clock_ms = clock_ms
        self._stop = stop
        self._on_step = on_step
        self._row_sizes: dict[str, RowSize] = {}
        self.utc_offset_minutes = 0
        self.time_zone: str | None = None

    def poll(self) -> bool:
        """Publish the next window.

        Returns:
            Whether there may be more at once.

        Raises:
            TableFailed: one table cannot go on: rows that are still needed were cleaned up, a value
                does not fit, a schema was refused, or its changes may not be read any more.
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        before = self._control.queries + self._bulk.queries
        try:
            return self._poll()
        finally:
            sent = self._control.queries + self._bulk.queries - before
            self._metrics.queries.inc(sent)
            self._metrics.queries_per_poll.observe(sent)

    def _poll(self) -> bool:
        limit = self._config.window_transactions
        commits = commits_from(
            self._control, first_lsn_after(self._book.position), limit, self.time_zone
        )
        window = plan_window(
            self._book.position,
            commits,
            limit,
            self._tables.hand_overs(),
            self._tables.schema_lsns(),
            self.utc_offset_minutes,
        )
        if window is None:
            return False
        self._on_step("window")
        readings = self._tables.readings(window.first_lsn)
        names: set[str] = set()
        gone: CaptureInstanceGone | None = None
        try:
            names.update(
                instances_with_news(
                    self._control,
                    [reading.instance for reading in readings],
                    window.span.first_lsn,
                    window.span.up_to,
                )
            )
        except CaptureInstanceGone as error:
            gone = error
        except PermissionMissing as error:
            raise self._refused(readings, window, error) from error
        # Asked behind both: what it shows of DDL and cleanup is not older than what they showed.
        state = catalog_state(self._control)
        if self._tables.state is None or not state.same_as(self._tables.state):
            self._tables.refresh()
            return True
        if gone is not None:
            raise gone
        self._tables.check_not_expired(readings, state)
        self._publish(window, [reading for reading in readings if reading.instance.name in names])
        return not window.is_last

    def _refused(
        self, readings: list[Reading], window: Window, error: PermissionMissing
    ) -> PublisherError:
        """The failure of the table whose changes may not be read: asked for one by one."""
        span = window.span
        for reading in readings:
            try:
                instances_with_news(self._control, [reading.instance], span.first_lsn, span.up_to)
            except PermissionMissing as refusal:
                return TableFailed(reading.table.name, refusal)
        return error

    def _publish(self, window: Window, readings: list[Reading]) -> None:
        self._committer.add_times(window.commit_ms, window.commits)
        config = self._config
        limit = PageLimit.of_each(
            config.page_rows, config.pages_bytes, ROWS_AHEAD_MAX, max(1, len(readings))
        )
        for block in merge([self._pages(window, reading, limit) for reading in readings]):
            self._observe(block.parts)
            self._committer.add(block)
            if self._stop.is_set():
                return
        self._committer.pass_to(window.span.up_to, is_last=window.is_last)
        self._metrics.transactions.inc(len(window.commit_ms))

    def _pages(self, window: Window, reading: Reading, limit: PageLimit) -> Iterator[EncodedRows]:
        """The encoded pages of one instance; what goes wrong with them concerns its table."""
        span = window.span
        doing = (
            f"reading change rows of capture instance {reading.instance.name} behind {span.after}"
            f" and up to {span.up_to}"
        )
        with of_one_table(reading.table.name, doing):
            yield from self._encoded_pages(window, reading, limit)

    def _encoded_pages(
        self, window: Window, reading: Reading, limit: PageLimit
    ) -> Iterator[EncodedRows]:
        """The encoded pages of one instance; the first is on its way before it is asked for."""
        encoder = self._tables.encoder(reading.table, reading.schema)
        pages = read_ahead(
            ChangePages(
                self._bulk,
                reading.instance,
                reading.schema,
                window.span,
                limit,
                reading.covered_from,
                self._row_size(reading),
            ),
            self._reader,
        )
        for page in pages:
            self._on_step("page")
            if page.rows:
                yield encoder.encode(page.rows, window.commit_ms, self._clock_ms())

    def _row_size(self, reading: Reading) -> RowSize:
        """What is known of the rows of an instance in its version."""
        known = self._row_sizes.get(reading.instance.name)
        if known is None or known.schema is not reading.schema:
            known = self._row_sizes[reading.instance.name] = RowSize(reading.schema)
        return known
