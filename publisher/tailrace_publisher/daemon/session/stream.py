"""One poll: from the present position to the next window's end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from tailrace_publisher.change.page import ChangePage, ChangeRow
from tailrace_publisher.change.ranges import first_lsn_after, is_closed
from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.tables.coverage import Reading
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.encode.around_bad_events import encoding_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.key_moves import KeyMoves
from tailrace_publisher.errors import (
    CaptureInstanceGone,
    PermissionMissing,
    TableFailed,
)
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.events import UnavailableValues
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.snapshot.reselect import Reselection
from tailrace_publisher.source.catalog.catalog_state import CatalogState, News, catalog_state
from tailrace_publisher.source.log.probe import Probe
from tailrace_publisher.source.log.windows import Window, WindowSize, plan_window
from tailrace_publisher.source.pages.commits_ahead import CommitsAhead
from tailrace_publisher.source.pages.merge import merge
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


class Stream:
    """Windows of change rows, read one per poll and passed on in blocks.

    A poll without news costs one statement. A poll with news costs three, and one per page.

    Args:
        observe: receives every page of a table whose snapshot is unfinished, in the poll that
            publishes the page.
    """

    def __init__(
        self,
        runtime: Runtime,
        source: SourceAccess,
        tables: PublishedTables,
        committer: Committer,
        observe: Callable[[TableName, ChangePage], None],
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._tables = tables
        self._committer = committer
        self._state = committer.state
        self._observe = observe
        self._encode = encoding_of(runtime.config.on_bad_event)
        self._row_sizes: dict[str, RowSize] = {}
        self._window_size = WindowSize(runtime.config.window_transactions)
        self._snapshotting: set[TableName] = set()
        self._reads_few = True
        self._planning_s = 0.0

    def poll(self) -> bool:
        """Publish the next window.

        Returns:
            Whether to poll again at once.

        Raises:
            TableFailed: one table must stop. For example, rows that are still needed were cleaned
                up, a schema was refused, or the login may not read its changes any more.
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        source, metrics = self._source, self._runtime.metrics
        before = source.queries
        try:
            return self._poll()
        finally:
            sent = source.queries - before
            metrics.queries.inc(sent)
            metrics.queries_per_poll.observe(sent)

    def _poll(self) -> bool:
        control, time, clock = self._source.control, self._source.time, self._runtime.clock
        # Sent rows wait while this window is planned; assume that planning takes as long again.
        self._committer.commit_if_old(self._planning_s)
        began = clock.monotonic()
        first = first_lsn_after(self._state.position)
        commits, limit = self._source.commits.take(first, self._window_size.transactions, time.zone)
        plan = self._tables.plan
        window = plan_window(
            self._state.position,
            commits,
            limit,
            plan.covers_from(first),
            plan.schema_lsns(first),
            time.utc_offset_minutes,
        )
        if window is None:
            return False
        self._runtime.on_step(Step.WINDOW)
        readings = plan.at(window.first_lsn)
        names: set[str] = set()
        gone: CaptureInstanceGone | None = None
        try:
            names.update(readings.probe.ask(control, window.span.first_lsn, window.span.up_to))
        except CaptureInstanceGone as error:
            gone = error
        except PermissionMissing as error:
            refused = self._refused(readings.all, window)
            if refused is None:
                return False  # the permission was granted again meanwhile
            raise refused from error
        # The catalog is read last, so it shows all DDL and cleanup before the other two answers.
        with_news = [r for r in readings.all if r.instance.name in names]
        ids = {reading.instance.object_id for reading in with_news}
        state = self._newer_catalog(ids if gone is None else None)
        if state is None:
            return True
        if gone is not None:
            raise gone
        self._tables.check_not_expired(readings.all, state)
        self._planning_s = clock.monotonic() - began
        with self._reading_ahead(window):
            self._publish(window, with_news)
        return not window.is_last

    def _reading_ahead(self, window: Window) -> AbstractContextManager[None]:
        """Read the next window's commits meanwhile, if there are any and the connection is free."""
        reselects = self._runtime.config.unavailable_values is UnavailableValues.RESELECT
        if window.is_last or reselects:
            return nullcontext()
        first, limit = window.span.up_to.increment(), self._window_size.transactions
        return self._source.commits.reading(first, limit, self._source.time.zone)

    def refresh_if_catalog_changed(self) -> None:
        """Refresh the tables if the catalog changed, for when no poll with news does.

        A table whose last capture instance was dropped brings no news. From then on the publisher
        must not report the table complete up to a time, nor publish what it read of the table.

        Raises:
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        self._newer_catalog()

    def _newer_catalog(self, object_ids: Collection[int] | None = None) -> CatalogState | None:
        """Return the catalog's state; if it changed, refresh the tables and return None.

        Args:
            object_ids: of the change tables whose DDL matters now; None for all. DDL of other
                tables does not affect this window, so the heartbeat's query finds it.
        """
        known = self._tables.catalog_state
        news = None if object_ids is None or known is None else News(object_ids, known)
        state = catalog_state(self._source.control, first_lsn_after(self._state.position), news)
        if state == self._tables.catalog_state:
            return state
        self._committer.finish()
        self._tables.refresh()
        return None

    def _refused(self, readings: Sequence[Reading], window: Window) -> TableFailed | None:
        """Find the table whose changes the login may not read, by probing the tables one by one."""
        control, span = self._source.control, window.span
        for reading in readings:
            try:
                Probe.of([reading.instance]).ask(control, span.first_lsn, span.up_to)
            except PermissionMissing as refusal:
                return TableFailed(reading.table.name, refusal)
        return None

    def _publish(self, window: Window, readings: list[Reading]) -> None:
        self._committer.add_times(window.commit_ms, window.commits, is_last=window.is_last)
        config = self._runtime.config
        limit = PageLimit.of_each(
            config.page_rows, config.pages_bytes, ROWS_AHEAD_MAX, max(1, len(readings))
        )
        # A snapshot must know which rows changed, so until it ends its table is read row by row.
        self._snapshotting = {table.name for table in self._tables.in_snapshot()}
        self._reads_few = len(readings) <= AHEAD_MAX
        self._tables.make_ready(readings)
        lanes, places = self._source.lanes, Places(pages_held(len(readings)))
        pages = [
            self._pages(window, reading, limit, lanes.lane(number), places)
            for number, reading in enumerate(readings)
        ]
        rows = 0
        for block in merge(pages):
            rows += len(block)
            self._committer.add(block)
            if self._runtime.stop.is_set():
                return
        self._committer.pass_to(window.span.up_to, is_last=window.is_last)
        self._runtime.metrics.transactions.inc(len(window.commit_ms))
        self._window_size.learn(len(window.commits), rows)

    def _pages(
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
            coming = lane.read_ahead(change_pages, places, self._committer.commit_if_old)
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
        return Reselection(
            self._source.control,
            instance,
            page.schema,
            config.pages_bytes // 4,
            self._committer.commit_if_old,
        ).parts(page.rows)

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
