"""The pause of a publisher: it lives, keeps its place and its lease, and publishes nothing.

It is kept in the checkpoint, so a restart does not undo it. Progress records go on, without changes
and without a newer time up to which everything is known to be out: no reader takes it for a source
at rest. Change rows wait in the change tables meanwhile, and cleanup takes those one day; so a
pause ends by itself.
"""

from __future__ import annotations

import structlog

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.runtime import Runtime

_log = structlog.get_logger(__name__)


class Pause:
    """Whether the publisher is paused.

    Args:
        runtime: with the option pause_max_h.
        state: keeps since when.

    Attributes:
        state: what is out.
    """

    def __init__(self, runtime: Runtime, state: PublisherState) -> None:
        self.state = state
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._longest_h = runtime.config.pause_max_h
        if state.paused_since_ms is not None:
            self._tell(state.paused_since_ms)

    @property
    def is_on(self) -> bool:
        """Whether nothing is to be published."""
        return self.state.paused_since_ms is not None

    def set(self, *, is_paused: bool) -> str | None:
        """Pause, or go on; goes with the next commit.

        Returns:
            Why that changes nothing; None when it does.
        """
        if is_paused == self.is_on:
            return refusal_of(is_paused=is_paused)
        self.state.paused_since_ms = self._clock.now_ms() if is_paused else None
        if self.state.paused_since_ms is None:
            _log.info("publisher_resumed")
        else:
            self._tell(self.state.paused_since_ms)
        self.show()
        return None

    def end_if_too_long(self) -> None:
        """Go on when the pause has lasted as long as one may; goes with the next commit."""
        since_ms = self.state.paused_since_ms
        if since_ms is None or self._clock.now_ms() - since_ms < self._longest_h * 3_600_000:
            return
        self.state.paused_since_ms = None
        _log.warning(
            "pause_ended",
            after_h=self._longest_h,
            reason="cleanup takes change rows one day, published or not",
            fix="pause_max_h says how long a pause may be; keep it below that retention",
        )
        self.show()

    def show(self) -> None:
        """Tell the metrics."""
        self._metrics.paused.set(self.is_on)
        self._metrics.up.set(not self.is_on)

    def _tell(self, since_ms: int) -> None:
        _log.warning(
            "publisher_paused",
            since_ms=since_ms,
            ends_after_h=self._longest_h,
            effect="nothing is published until it is resumed: tailrace resume",
        )


def refusal_of(*, is_paused: bool) -> str:
    """What is said to a wish that is fulfilled already."""
    return "the publisher is paused already" if is_paused else "the publisher is not paused"
