"""What a publisher of several shards tells of itself: what each of them tells, put together."""

from __future__ import annotations

from typing import Final

from tailrace_publisher.daemon.status.labelled_metrics import LabelledMetrics
from tailrace_publisher.daemon.status.status_board import Board, Phase
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.errors.one_table import text_of
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.runtime import Runtime
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.status import DaemonStatus, of_shards

_ORDER: Final[tuple[Phase, ...]] = ("retrying", "starting", "paused", "running")
"""The phase of all is the first of these that one has."""
_LOOKS_S: Final = 300.0
"""Without shards, what a start and a look at the group may take."""


class ShardBoard:
    """The present state of all shards that one publisher has.

    Args:
        runtime: what all parts share.

    Attributes:
        metrics: the counts of the shards.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._boards: dict[int, Board] = {}
        self._phase: Phase = "starting"
        self._since_ms = runtime.clock.now_ms()
        self._turned_at = runtime.clock.monotonic()
        self.metrics = LabelledMetrics("shard")

    # -- for the publisher -------------------------------------------------------------------------

    def add(self, shard: int, board: Board, metrics: Metrics) -> None:
        """A shard is published here."""
        self._boards[shard] = board
        self.metrics.parts[str(shard)] = metrics.registry

    def remove(self, shard: int) -> None:
        """A shard is published here no more."""
        self._boards.pop(shard, None)
        self.metrics.parts.pop(str(shard), None)

    def joined(self) -> None:
        """The group has told what is ours."""
        self._phase = "running"

    def failed(self, error: BaseException) -> None:
        """Keep an error of one shard, or of the group."""
        self._runtime.metrics.failed(type(error).__name__, text_of(error))

    def turned(self) -> None:
        """It has looked at the group."""
        self._turned_at = self._runtime.clock.monotonic()

    # -- for the endpoint --------------------------------------------------------------------------

    @property
    def still_s(self) -> float:
        """Seconds since the one that has stood still for the longest has taken a step."""
        own = self._runtime.clock.monotonic() - self._turned_at
        return max([own, *(board.still_s for board in self._boards.copy().values())])

    @property
    def still_max_s(self) -> float:
        """Seconds without a step that time limits explain; beyond it, it hangs."""
        limits = [board.still_max_s for board in self._boards.copy().values()]
        return max(limits, default=_LOOKS_S)

    @property
    def phase(self) -> Phase:
        """That of the shard that is the furthest from publishing; without shards, our own."""
        phases = {board.phase for board in self._boards.copy().values()} or {self._phase}
        return next(phase for phase in _ORDER if phase in phases)

    @property
    def paused(self) -> frozenset[bool]:
        """Whether an operator has paused the shards that are here; both where they differ."""
        return frozenset(board.is_paused for board in self._boards.copy().values())

    def records(self) -> dict[TableName, TableRecord]:
        """What is known of the tables that are here, by name."""
        boards = self._boards.copy().values()
        return {name: known for board in boards for name, known in board.records().items()}

    def measure(self) -> None:
        """Set the figures that are made of others, before they are read."""
        for board in self._boards.copy().values():
            board.measure()

    def status(self) -> DaemonStatus:
        """All of it; the closed LSN is the smallest of the shards that are here."""
        config = self._runtime.config
        found = [board.status() for board in self._boards.copy().values()]
        figures = {"shards": float(config.shards.count), "shards_here": float(len(found))}
        own = DaemonStatus(
            program="publisher",
            state=self.phase,
            since_ms=self._since_ms,
            now_ms=self._runtime.clock.now_ms(),
            prefix=config.prefix,
            database=config.source.database,
            figures=figures,
            errors=self._runtime.metrics.failures.newest_first(),
        )
        return of_shards(own, found)
