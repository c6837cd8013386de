"""Decide where Kafka transactions end, and commit them with the state that they make true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.daemon.session.bad_events import BadEvents
from tailrace_publisher.daemon.session.commit_pace import CommitPace
from tailrace_publisher.daemon.session.transaction_size import TransactionSize
from tailrace_publisher.daemon.start.fencing import FencingCheck
from tailrace_publisher.daemon.status.commit_traces import CommitTraces
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.transaction_numbers import TransactionNumbers
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_publisher.source.pages.merge import Block
from tailrace_schemas.position.change_position import POSITION_BYTES, ChangePosition
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn
from tailrace_schemas.topics.topic_names import TableName

_END_OF_TRANSACTION = b"\xff" * (POSITION_BYTES - LSN_BYTES)
_OF_TIMEOUT: Final = 1 / 3
"""Share of the brokers' limit: a Kafka transaction of this age is committed at any position.
The rest of the limit is for the next rows and for the commit."""


class Committer:
    """Kafka transactions that end where source transactions end.

    A Kafka transaction is committed at the first end of a source transaction once it holds
    ``rows_per_transaction`` rows or ``bytes_per_transaction`` bytes, or is ``linger_ms`` old. It
    may grow older if commits take long, or if more than one window is waiting.

    A source transaction spans several Kafka transactions only in two cases. It has more rows or
    bytes than that, or it is read so slowly that the brokers would abort the Kafka transaction for
    its age. All of these but the last one repeat the last closed LSN.

    Args:
        fencing: receives the database's record of each transaction before and after its commit.
    """

    def __init__(
        self,
        runtime: Runtime,
        delivery: KafkaDelivery,
        state: PublisherState,
        fencing: FencingCheck,
    ) -> None:
        self.state = state
        self._delivery = delivery
        self._size = TransactionSize(
            runtime.config.rows_per_transaction, runtime.config.bytes_per_transaction
        )
        self._age_max_s = runtime.config.kafka.transaction_timeout_s * _OF_TIMEOUT
        self._metrics = runtime.metrics
        self._clock = runtime.clock
        self._fencing = fencing
        self._on_step = runtime.on_step
        self._pace = CommitPace(runtime.config.linger_ms / 1000, runtime.clock.monotonic)
        self._uncounted: Counter[str] = Counter()
        self._last: tuple[str, bytes] | None = None
        self._committed_at = self._clock.monotonic()
        self._announced: set[TableName] = set()
        self._times: Mapping[bytes, int] = {}
        self._commits = Commits()
        self._position_ms: int | None = None
        self._closed_ms: int | None = None
        self._bad = BadEvents(runtime, delivery, state)
        self._traces = CommitTraces(runtime)
        self._numbers: TransactionNumbers | None = None
        if runtime.config.transaction_metadata:
            self._numbers = TransactionNumbers(state.position.commit_lsn, state.open_transaction)

    @property
    def idle_s(self) -> float:
        """Seconds since the last Kafka transaction."""
        return self._clock.monotonic() - self._committed_at

    def add_times(
        self,
        commit_ms: Mapping[bytes, int],
        commits: Commits | None = None,
        *,
        is_last: bool = True,
    ) -> None:
        """Add a window's commits, before the blocks that need them.

        Args:
            commit_ms: commit times, milliseconds UTC, by the bytes of the commit LSN.
            is_last: whether no later commits were known when the window was planned.
        """
        self._note_commit(self.state.position.commit_lsn)  # the new window does not know it
        self._pace.is_behind = not is_last
        self._times = commit_ms
        self._commits = commits or Commits()
        self._traces.planned()

    def add(self, block: Block) -> None:
        """Send a block; commit at each place where a transaction is due."""
        parts = [self._bad.without_too_large(part) for part in block.parts]
        while parts:
            frontier = block.frontier
            rest: list[EncodedRows] = []
            last = self._size.commit_lsn_that_fills(
                parts, self._delivery.rows_in_transaction, self._delivery.bytes_in_transaction
            )
            if last is not None:
                # The source transaction that fills the Kafka transaction is its last one.
                frontier = last + _END_OF_TRANSACTION
                parts, rest = Block(frontier, parts).up_to(frontier)
            self._traces.opened(parts, self._times)
            self._send(self._numbered(parts, ends=bool(rest) or block.ends_transaction))
            if rest:
                self._close(frontier)
                self.commit()
            elif block.ends_transaction:
                self._close(block.frontier)
                self._commit_if_due()
            else:
                self._leave_open(block.frontier, parts)
            parts = rest

    def pass_to(self, lsn: Lsn, *, is_last: bool) -> None:
        """Move to the end of a window, after all of its blocks.

        Args:
            lsn: last commit of the window.
            is_last: whether the publisher has caught up, so that there are no further rows to wait
                for.
        """
        self.state.position = ChangePosition.end_of(lsn)
        self._position_ms = self._times.get(lsn.to_bytes(), self._position_ms)
        self._size.closed()
        if self._numbers is not None:
            self._delivery.send_boundaries(self._numbers.end())
        if self._delivery.rows_in_transaction and is_last:
            self.commit()
        else:
            self._commit_if_due()

    def add_snapshot(self, parts: Iterable[EncodedRows]) -> None:
        """Send snapshot rows that are current at the closed position; a commit must follow."""
        self._send(self._bad.without_too_large(part) for part in parts)

    def heartbeat(self, known_ms: int | None) -> None:
        """Commit a progress record, even without rows.

        Args:
            known_ms: time up to which the source is known to have committed nothing newer,
                milliseconds UTC; None if more is known to come.
        """
        if not is_closed(self.state.position):
            return
        if known_ms is not None:
            self._position_ms = max(known_ms, self._position_ms or 0)
        self.commit()

    def announce_snapshots(self) -> None:
        """Commit the names of tables outside the cut before the first row of their snapshots.

        Readers take a table's events after that record for the whole table.
        """
        named = self.state.out_of_cut()
        if self.state.restarted_tables() or not self._announced.issuperset(named):
            self.heartbeat(None)

    def commit_start(self) -> None:
        """Commit what a start has decided before anything else can fail.

        If a table's state changed, this commits inside a source transaction, too. A start that
        ended before the end of that source transaction would forget its decision and decide again.
        """
        if is_closed(self.state.position) or self.state.has_moved:
            self.commit()

    def finish(self) -> None:
        """Commit what was sent, before a clean stop or a refresh of the catalog.

        The transaction is complete up to the position. If a table then restarts, the transaction
        that names it holds only events of its restart.
        """
        if self._delivery.rows_in_transaction:
            self.commit()

    def commit_if_old(self, ahead_s: float = 0.0) -> None:
        """Commit, also inside a source transaction, before the brokers abort the transaction.

        Args:
            ahead_s: seconds that pass before the next call.

        Raises:
            DeliveryError, PublisherReplaced: see :meth:`KafkaDelivery.commit`.
        """
        age_s = self._delivery.age_s
        if age_s is not None and age_s + ahead_s >= self._age_max_s:
            self.commit()

    def commit(self) -> None:
        """Commit what was sent with the progress and checkpoint records.

        Raises:
            DeliveryError, PublisherReplaced: see :meth:`KafkaDelivery.commit`.
        """
        state = self.state
        closed = is_closed(state.position)
        closed_lsn = state.position.commit_lsn if closed else state.closed_lsn
        closed_ms = self._position_ms if closed else self._closed_ms
        rows = self._delivery.rows_in_transaction
        self._note_commit(state.position.commit_lsn)
        state.open_transaction = None if self._numbers is None else self._numbers.open_counts
        now_ms = self._clock.now_ms()
        database = state.database_record(closed_lsn, now_ms)
        checkpoints = state.records_to_write(database, now_ms)
        named = state.out_of_cut()
        self._on_step(Step.BEFORE_COMMIT)
        after_lsn = state.closed_lsn
        self._traces.sealed()
        self._fencing.writing(database)
        with self._pace.committing():
            self._delivery.commit(
                after_lsn=after_lsn,
                closed_lsn=closed_lsn,
                closed_commit_ms=closed_ms,
                closed=closed,
                snapshotting=named,
                again=state.restarted_tables(),
                patched=state.patched,
                checkpoints=checkpoints,
            )
        self._fencing.written(database)
        state.written(closed_lsn)
        self._announced = set(named)
        self._closed_ms = closed_ms
        self._committed_at = self._clock.monotonic()
        self._size.closed()
        self._metrics.committed(closed_ms)
        self._traces.committed(after_lsn, closed_lsn, rows, self._uncounted)
        for topic, sent in self._uncounted.items():
            self._metrics.rows.labels(topic=topic).inc(sent)
        self._uncounted.clear()
        if self._last is not None:
            topic, place = self._last
            position = ChangePosition.from_bytes(place)
            self._metrics.event_committed(topic, position.operation.name)
            self._last = None
        self._bad.committed()
        self._on_step(Step.COMMITTED if rows else Step.HEARTBEAT)

    def _note_commit(self, lsn: Lsn) -> None:
        """Store the commit at the position; a later start recognises the database by it."""
        if self.state.commit is not None and self.state.commit.commit_lsn == lsn:
            return
        self.state.commit = self._commits.at(lsn)

    def _numbered(self, parts: list[EncodedRows], *, ends: bool) -> list[EncodedRows]:
        """Return the events with their numbers in their transactions, if the options want them."""
        if self._numbers is None:
            return parts
        parts, boundaries = self._numbers.number(parts, self._times, ends=ends)
        self._delivery.send_boundaries(boundaries)
        return parts

    def _send(self, parts: Iterable[EncodedRows]) -> None:
        if not self._delivery.rows_in_transaction:
            self._pace.opened()
        for part in parts:
            self._delivery.send(self._bad.note(part))
            self._uncounted[part.topic] += len(part) - len(part.letters)
            if part.positions and (self._last is None or part.positions[-1] >= self._last[1]):
                self._last = part.topic, part.positions[-1]
        self._on_step(Step.SENT)

    def _close(self, frontier: bytes) -> None:
        lsn = frontier[:LSN_BYTES]
        self.state.position = ChangePosition.end_of(Lsn.from_bytes(lsn))
        self._position_ms = self._times.get(lsn, self._position_ms)
        self._size.closed()

    def _commit_if_due(self) -> None:
        delivery = self._delivery
        rows = delivery.rows_in_transaction
        if self._size.is_full(rows, delivery.bytes_in_transaction) or (
            rows and self._pace.is_due()
        ):
            self.commit()
        else:
            self.commit_if_old()

    def _leave_open(self, frontier: bytes, parts: list[EncodedRows]) -> None:
        """Advance inside a source transaction; commit if the Kafka transaction is full or old."""
        self.state.position = ChangePosition.from_bytes(frontier)
        if self._size.is_filled_by(frontier[:LSN_BYTES], parts):
            self.commit()
        else:
            self.commit_if_old()
