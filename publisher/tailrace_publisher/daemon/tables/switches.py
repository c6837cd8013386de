"""Tables whose rows came or went with a partition (ADR 0055).

A table's checkpoint record has the ids of its partitions, so the publisher also notices a switch
during its downtime. It reads the ids before a snapshot reads its first row. A later switch is then
a difference, and the snapshot is taken again.

The catalog shows a switch at once, but the stream reaches the changes before the switch later.
Those changes must not follow the start of the new snapshot. Otherwise every reader would keep a row
that was updated and then switched out. So the table restarts once more when the stream has passed
the end that the log had when the switch was noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_record import BEFORE, WAITING, TableRecord
from tailrace_publisher.daemon.tables.table_state import PUBLISHED, TableEvent, TableState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.errors import RowsSwitched, SourceBusy
from tailrace_publisher.ports import Clock, Connection
from tailrace_publisher.snapshot.fence import Fence, FenceSource
from tailrace_publisher.source.catalog.partitions import (
    Comparison,
    Partitions,
    are_elsewhere,
    captured_partitions,
)
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_LOCKED: Final = frozenset({0, 1222})
"""Lock timeout, or query timeout (no number): the next attempt would wait as long."""
_PAUSE_S: Final = 300.0
"""Time between two attempts while the catalog is locked: each delays a poll by some seconds."""


class Switches:
    """Comparison of all tables' partitions with those in the checkpoint, in one statement.

    Args:
        connection: of the main loop.
        fences: show when the stream has passed a switch.
    """

    def __init__(
        self,
        connection: Connection,
        fences: FenceSource,
        tables: PublishedTables,
        state: PublisherState,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._fences = fences
        self._tables = tables
        self._state = state
        self._clock = clock
        self._seen: dict[TableName, Partitions] = {}
        self._waiting: dict[TableName, tuple[Fence, Partitions]] = {}
        self._not_before = 0.0

    def is_awaited(self) -> bool:
        """Return whether a snapshot waits until the partitions of its table are known."""
        return any(not self._state.of(name).knows_partitions for name in self._state.unread())

    def look(self, finish: Callable[[], None]) -> None:
        """Compare; a table whose rows were switched stops or restarts (snapshot.on_gap).

        Args:
            finish: ends the Kafka transaction before the tables are refreshed.

        Raises:
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        if self._clock.monotonic() < self._not_before:
            return
        try:
            found = captured_partitions(self._connection)
            lost = self._compared(found, finish)
        except SourceBusy as error:
            if error.number not in _LOCKED:
                raise  # for example a deadlock: the session repeats its poll after a short pause
            # An index rebuild locks its table's catalog rows until it ends.
            self._not_before = self._clock.monotonic() + _PAUSE_S
            _log.info("partitions_not_compared", reason=str(error), again_in_s=_PAUSE_S)
            return
        if lost:
            finish()
            self._wait(lost)
            self._tables.lose({name: RowsSwitched(name) for name in lost})
            for name, now in lost.items():
                waiting = replace(self._state.of(name), partitions=f"{WAITING}{now}")
                self._state.store(name, waiting)

    def _compared(
        self, found: dict[int, Partitions], finish: Callable[[], None]
    ) -> dict[TableName, Partitions]:
        """Return tables whose rows were switched, as they are now; store others' partitions."""
        lost: dict[TableName, Partitions] = {}
        for table in self._tables:
            name, record = table.name, self._state.of(table.name)
            if record.state not in PUBLISHED:
                continue
            now = found.get(table.instances.newest.source_object_id)
            if now is None:
                continue  # no instance captures it at the moment: its record stays as it is
            if record.partitions is not None and record.knows_partitions:
                if self._is_switched(name, self._known(name, record.partitions), now):
                    lost[name] = now
                    continue
            elif not self._may_start(name, record, now, finish):
                continue
            self._seen[name] = now
            self._state.store(name, replace(self._state.of(name), partitions=str(now)))
        return lost

    def _known(self, table: TableName, recorded: str) -> Partitions:
        """Return the partitions of the last comparison, with their row counts if known."""
        seen = self._seen.get(table)
        return seen if seen is not None and str(seen) == recorded else Partitions.parse(recorded)

    def _is_switched(self, table: TableName, before: Partitions, now: Partitions) -> bool:
        comparison = now.compare(before)
        if comparison is not Comparison.MOVED:
            return comparison is Comparison.SWITCHED
        is_switched = are_elsewhere(self._connection, now.gone(before))
        if not is_switched:
            _log.info("partitions_moved", table=str(table))
        return is_switched

    def _wait(self, lost: dict[TableName, Partitions]) -> None:
        fence = self._fences.mark(self._state.position.commit_lsn)
        self._waiting.update({name: (fence, now) for name, now in lost.items()})

    def _may_start(
        self, table: TableName, record: TableRecord, now: Partitions, finish: Callable[[], None]
    ) -> bool:
        """Return whether a table waits for no switch; restart one whose wait is over."""
        if table not in self._waiting:
            if record.partitions is None:
                return True
            before = Partitions.parse(record.partitions[1:])
            if record.partitions.startswith(BEFORE):
                if not self._is_switched(table, before, now):
                    return True
                before = now
            self._wait({table: before})
        fence, before = self._waiting[table]
        reached = self._fences.reached(fence)
        position = self._state.position.commit_lsn
        if record.state is not TableState.PENDING or reached is None or position < reached:
            return False
        if self._is_switched(table, before, now):
            self._wait({table: now})
            return False
        del self._waiting[table]
        # Its events since the switch was noticed are void. Those that were sent but not committed
        # would count as after the restart if they shared its Kafka transaction.
        finish()
        self._state.happened(table, TableEvent.PLACE_LOST, record)
        self._state.happened(table, TableEvent.SNAPSHOT_WANTED, record)
        return True
