"""Iterating over the changes of tables, plainly or with asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar

from confluent_kafka import KafkaException, TopicPartition

from tailrace.reading.moments import Moment
from tailrace.subscribe.commit_order import CommitOrder, Ended, Ready, Started, WindowEnd
from tailrace.subscribe.errors import ArgumentRefused, TransactionTooLarge
from tailrace.subscribe.events import (
    Change,
    Closed,
    Event,
    Marker,
    PatchFinished,
    SchemaChanged,
    SnapshotFinished,
    SnapshotStarted,
    Transaction,
)
from tailrace.subscribe.fetching import Fetcher
from tailrace.subscribe.groups import GroupRecords
from tailrace.subscribe.options import Opened, Options
from tailrace.subscribe.rows import Decoded, utc
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.topics.topic_names import TableName

_WAIT_S: Final = 0.1
_ROWS_AT_ONCE: Final = 1000
_T = TypeVar("_T")


class Subscription:
    """The changes of tables in commit order; :func:`subscribe` opens it.

    Iterate over it for events, or over :meth:`transactions`; with ``async for`` over it or over
    :meth:`atransactions`. One thread or task at a time may iterate. :meth:`close` ends the
    iteration, from any thread.

    An error that is ``retryable`` leaves it usable: iterate again.
    """

    def __init__(self, opened: Opened, options: Options) -> None:
        mark = opened.bookmark
        self._opened = opened
        self._options = options
        self._since: Moment | None = opened.since
        self._order = CommitOrder[Decoded](
            opened.decoder, mark.place, mark.consumed, verify=options.verify
        )
        self._records = GroupRecords(self._is_wanted, mark.place.lsn, mark.place.named)
        self._fetcher = Fetcher(
            opened.brokers, opened.consumer, self._order, options.memory_bytes, self._add
        )
        self._fetcher.begin(mark.place.offset)
        self._schemas: dict[TableName, TableSchema] = {}
        self._schema_ids: set[int] = set()
        self._waiting: deque[Event] = deque()
        self._gathered: list[Change] = []
        self._closed = Closed(Lsn.ZERO, None)
        self._stopped = threading.Event()
        self._pumping = threading.Lock()

    @property
    def bookmark(self) -> str:
        """Where to continue after the last event that was yielded.

        Store it in the transaction that stores what the event led to. Pass it to
        :func:`subscribe` as ``after``. Then each event counts once, whatever is killed.
        """
        consumed = self._order.consumed
        for event in reversed([*self._gathered, *self._waiting]):
            if isinstance(event, Change):
                consumed[event.topic, event.partition] = event.offset
        mark = self._opened.bookmark
        return str(replace(mark, place=self._order.place, consumed=consumed))

    @property
    def closed(self) -> Closed:
        """The newest LSN up to which everything was yielded."""
        return self._closed

    def commit(self) -> None:
        """Commit the offsets of the group: a later subscription of it continues there.

        It continues at the newest closed LSN, so events after that come again. A subscription that
        is closed commits nothing.

        Raises:
            BrokersUnavailable, BrokersRefused: the brokers do not answer, or refuse.
            ArgumentRefused: the subscription has no group.
        """
        if not self._opened.has_group:
            raise ArgumentRefused(
                "a subscription without a group has no offsets to commit. Fix: pass group= to"
                " subscribe, or store its bookmark"
            )
        topic = self._opened.brokers.names.progress
        offsets = [TopicPartition(topic, 0, self._order.place.offset)]
        with self._pumping:
            if self._stopped.is_set():
                return
            try:
                self._opened.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                raise self._opened.brokers.failure(error) from error

    def close(self) -> None:
        """End the iteration, and leave the brokers."""
        self._stopped.set()
        with self._pumping:
            self._fetcher.close()
            if self._opened.registry is not None:
                self._opened.registry.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __iter__(self) -> Iterator[Event]:
        """Events in commit order."""
        return self._waiting_for(self._next)

    def transactions(self) -> Iterator[Transaction | Marker]:
        """Whole source transactions in commit order, with what happens between them.

        Rows of snapshots come as transactions of at most 1,000 rows.

        Raises:
            TransactionTooLarge: one has more changes than ``transaction_max``.
        """
        return self._waiting_for(self._next_transaction)

    def __aiter__(self) -> AsyncIterator[Event]:
        """Events in commit order; the event loop is free while it waits."""
        return self._awaiting(self._next)

    def atransactions(self) -> AsyncIterator[Transaction | Marker]:
        """As :meth:`transactions`, for asyncio."""
        return self._awaiting(self._next_transaction)

    def _waiting_for(self, step: Callable[[], _T | None]) -> Iterator[_T]:
        while not self._stopped.is_set():
            item = step()
            if item is not None:
                yield item
            elif self._is_at_end():
                return
            else:
                self._pump()

    async def _awaiting(self, step: Callable[[], _T | None]) -> AsyncIterator[_T]:
        while not self._stopped.is_set():
            item = step()
            if item is not None:
                yield item
            elif self._is_at_end():
                return
            else:
                await asyncio.to_thread(self._pump)

    def _is_at_end(self) -> bool:
        return not self._options.follow and self._fetcher.has_seen_end and self._order.is_idle

    def _pump(self) -> None:
        with self._pumping:
            if self._stopped.is_set():
                return
            for schema_id in sorted(self._schema_ids):
                self._opened.decoder.learn(schema_id)
                self._schema_ids.discard(schema_id)
            self._fetcher.pump(_WAIT_S)

    def _is_wanted(self, topic: str) -> bool:
        return self._opened.table_of(topic) is not None

    def _add(self, offset: int, record: Progress) -> None:
        for part in record.partitions:
            if self._is_wanted(part.topic):
                self._schema_ids.update(part.schema_ids)
        group = self._records.add(offset, record)
        if group is None:
            return
        old = self._opened.bookmark.skipped(group.first)
        self._order.add(group.without(old) if old else group)

    def _next(self) -> Event | None:
        """The next event; None until more is fetched."""
        while (event := self._any()) is not None:
            if self._options.closed or not isinstance(event, Closed):
                return event
        return None

    def _any(self) -> Event | None:
        if self._waiting:
            return self._waiting.popleft()
        while (taken := self._order.take()) is not None:
            if isinstance(taken, WindowEnd):
                commit_ms = taken.commit_ms
                commit_time = None if commit_ms is None else utc(commit_ms)
                self._closed = Closed(Lsn.parse(taken.closed_lsn), commit_time)
                return self._closed
            if isinstance(taken, Ready):
                if self._is_asked(taken.event.change):
                    return self._with_schema(taken.event)
                continue
            table = self._opened.table_of(taken.topic)
            if table is not None and isinstance(taken, Started):
                return SnapshotStarted(table, Lsn.parse(taken.after_lsn))
            if table is not None and isinstance(taken, Ended):
                lsn = Lsn.parse(taken.closed_lsn)
                if taken.columns:
                    return PatchFinished(table, taken.columns, lsn)
                return SnapshotFinished(table, lsn)
        return None

    def _is_asked(self, change: Change) -> bool:
        """Whether the moment to begin at is reached; once it is, all that follows is."""
        if self._since is None or change.is_read:
            return True
        ms = round(change.commit_time.timestamp() * 1000)
        if self._since.has_reached(change.commit_lsn, ms):
            self._since = None
        return self._since is None

    def _with_schema(self, found: Decoded) -> Event:
        schema, change = found.schema, found.change
        known = self._schemas.get(change.table)
        if schema is None or (known is not None and schema.schema_lsn <= known.schema_lsn):
            return change
        self._schemas[change.table] = schema
        if known is not None and schema.columns == known.columns:
            return change
        self._waiting.append(change)
        return SchemaChanged(change.table, known, schema)

    def _next_transaction(self) -> Transaction | Marker | None:
        while (event := self._any()) is not None:
            if isinstance(event, SchemaChanged) and self._gathered and self._continues():
                return event  # before the transaction, which it does not divide
            if not isinstance(event, Change):
                if self._gathered:
                    self._waiting.appendleft(event)
                    return self._transaction()
                if self._options.closed or not isinstance(event, Closed):
                    return event
            elif self._gathered and not self._belongs(event):
                self._waiting.appendleft(event)
                return self._transaction()
            else:
                self._gather(event)
        return None

    def _continues(self) -> bool:
        """Whether the change that waits is of the transaction that is gathered."""
        change = self._waiting[0]
        return isinstance(change, Change) and self._belongs(change)

    def _belongs(self, change: Change) -> bool:
        first = self._gathered[0]
        if first.is_read or change.is_read:
            return first.is_read and change.is_read and len(self._gathered) < _ROWS_AT_ONCE
        return change.commit_lsn == first.commit_lsn

    def _gather(self, change: Change) -> None:
        self._gathered.append(change)
        if not change.is_read and len(self._gathered) > self._options.transaction_max:
            self._waiting.extendleft(reversed(self._gathered))
            self._gathered = []
            raise TransactionTooLarge(
                f"the transaction that was committed at LSN {change.commit_lsn} has more than"
                f" {self._options.transaction_max:,} changes. Fix: raise transaction_max, or"
                " iterate over events"
            )

    def _transaction(self) -> Transaction:
        changes, self._gathered = tuple(self._gathered), []
        last = changes[-1]
        return Transaction(last.commit_lsn, last.commit_time, changes, self.bookmark)
