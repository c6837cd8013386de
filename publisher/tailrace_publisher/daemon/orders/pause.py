"""The pause of a publisher: it runs, keeps its position and fences others, but publishes nothing.

The checkpoint stores the pause, so a restart does not end it. Progress records continue, but
without changes and without a newer time up to which all changes are published. So no reader takes
the source for quiet. Meanwhile change rows wait in the change tables, and cleanup deletes them some
day. Therefore a pause ends automatically.
"""

from __future__ import annotations

import structlog

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.runtime import Runtime

_log = structlog.get_logger(__name__)


class Pause:
    """The pause of the publisher, on or off.

    Args:
        runtime: with the option pause_max_h.
        state: stores since when it is paused.
    """

    def __init__(self, runtime: Runtime, state: PublisherState) -> None:
        self.state = state
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._longest_h = runtime.config.pause_max_h
        if state.paused_since_ms is not None:
            self._log_pause(state.paused_since_ms)

    @property
    def is_on(self) -> bool:
        """Whether nothing may be published."""
        return self.state.paused_since_ms is not None

    def set(self, *, is_paused: bool) -> str | None:
        """Pause or resume; takes effect with the next commit.

        Returns:
            Why that changes nothing; None if it does.
        """
        if is_paused == self.is_on:
            return refusal_of(is_paused=is_paused)
        self.state.paused_since_ms = self._clock.now_ms() if is_paused else None
        if self.state.paused_since_ms is None:
            _log.info("publisher_resumed")
        else:
            self._log_pause(self.state.paused_since_ms)
        self.show()
        return None

    def end_if_too_long(self) -> None:
        """Resume if the pause has reached its longest time; takes effect with the next commit."""
        since_ms = self.state.paused_since_ms
        if since_ms is None or self._clock.now_ms() - since_ms < self._longest_h * 3_600_000:
            return
        self.state.paused_since_ms = None
        _log.warning(
            "pause_ended",
            after_h=self._longest_h,
            reason="cleanup deletes change rows after its retention, published or not",
            fix="keep pause_max_h below that retention",
        )
        self.show()

    def show(self) -> None:
        """Update the metrics."""
        self._metrics.paused.set(self.is_on)
        self._metrics.up.set(not self.is_on)

    def _log_pause(self, since_ms: int) -> None:
        _log.warning(
            "publisher_paused",
            since_ms=since_ms,
            ends_after_h=self._longest_h,
            effect="nothing is published until it is resumed: tailrace resume",
        )


def refusal_of(*, is_paused: bool) -> str:
    """Return why a pause or a resume changes nothing."""
    return "the publisher is paused already" if is_paused else "the publisher is not paused"
