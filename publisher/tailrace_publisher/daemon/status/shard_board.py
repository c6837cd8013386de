"""What a publisher of several shards reports of itself: what each of them reports, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailrace_publisher.daemon.status.labelled_metrics import LabelledMetrics
from tailrace_publisher.daemon.status.status_board import StatusBoard
from tailrace_publisher.errors.one_table import text_of
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.runtime import Runtime
from tailrace_service.status import DaemonStatus


class ShardBoard(StatusBoard):
    """The present state of all shards that one publisher has."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._boards: dict[int, StatusBoard] = {}
        self.metrics = LabelledMetrics("shard")

    # -- for the publisher -------------------------------------------------------------------------

    def add(self, shard: int, board: StatusBoard, metrics: Metrics) -> None:
        """Add a shard that is now published here."""
        self._boards[shard] = board
        self.metrics.parts[str(shard)] = metrics.registry

    def remove(self, shard: int) -> None:
        """Remove a shard that is no longer published here."""
        self._boards.pop(shard, None)
        self.metrics.parts.pop(str(shard), None)

    def joined(self) -> None:
        """Note that the group has assigned this publisher's shards."""
        self._phase = "running"

    def failed(self, error: BaseException) -> None:
        """Store an error of one shard, or of the group."""
        self._runtime.metrics.failed(type(error).__name__, text_of(error))

    # -- for the endpoint --------------------------------------------------------------------------

    @property
    def parts(self) -> Sequence[StatusBoard]:
        """The boards of the shards that are here."""
        return tuple(self._boards.copy().values())

    def _own_status(self) -> DaemonStatus:
        counts = {"shards": self._runtime.config.shards.count, "shards_here": len(self._boards)}
        figures = {name: float(count) for name, count in counts.items()}
        return replace(super()._own_status(), figures=figures)
