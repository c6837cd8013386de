"""One poll: from the present position to the next window's end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.session.encoded_pages import EncodedPages, SourceAccess
from tailrace_publisher.daemon.tables.coverage import Reading
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.errors import CaptureInstanceGone, PermissionMissing, TableFailed
from tailrace_publisher.options.events import UnavailableValues
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.source.catalog.catalog_state import CatalogState, News, catalog_state
from tailrace_publisher.source.log.probe import Probe
from tailrace_publisher.source.log.windows import Window, WindowSize, plan_window, seen_by_readers
from tailrace_publisher.source.pages.merge import merge
from tailrace_schemas.topics.topic_names import TableName


class Stream:
    """Windows of change rows, read one per poll and passed on in blocks.

    A poll without news costs one statement. A poll with news costs three, a fourth if marks of time
    follow its last commit, and one per page.

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
        self._pages = EncodedPages(runtime, source, tables, observe, committer.commit_if_old)
        self._window_size = WindowSize(runtime.config.window_transactions)
        self._planning_s = 0.0

    @property
    def may_lack_commits(self) -> bool:
        """Whether the last poll left out entries, though their commits may be captured."""
        return self._source.commits.is_cut

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
        started_at = clock.monotonic()
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
            window = seen_by_readers(window, names, partial(readings.probe.ask, control))
        except CaptureInstanceGone as error:
            gone = error
        except PermissionMissing as error:
            refused = self._refused(readings.all, window)
            if refused is None:
                return True  # the permission was granted again meanwhile: the window is still due
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
        self._planning_s = clock.monotonic() - started_at
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
        rows = 0
        for block in merge(self._pages.in_window(window, readings)):
            rows += len(block)
            self._committer.add(block)
            if self._runtime.stop.is_set():
                return
        self._committer.pass_to(window.span.up_to, is_last=window.is_last)
        self._runtime.metrics.transactions.inc(len(window.commit_ms))
        self._window_size.learn(len(window.commits), rows)
