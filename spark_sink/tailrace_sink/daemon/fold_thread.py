"""The fold in a thread of its own with its own retries, so that the log never waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.watch.hang_detector import Part, Steps
from tailrace_sink.watch.retries import RETRIED, Retries

_POLL_S: Final = 0.2
_REST_MAX_S: Final = 1.0

_log = structlog.get_logger("tailrace.sink")


class FoldThread:
    """A thread that folds new cuts until it is stopped.

    Args:
        sink: with an open log.
        stop: ends the thread; the fold sets it when it cannot continue.
        warm_up: called once if there is nothing to fold at first.

    Attributes:
        log_is_caught_up: set by the log's thread. Until then the first cut has the processors.
    """

    def __init__(
        self, sink: Sink, stop: threading.Event, warm_up: Callable[[], None], steps: Steps
    ) -> None:
        self._sink = sink
        self._stop = stop
        self._warm_up = warm_up
        self._steps = steps
        self._is_warm = False
        self.log_is_caught_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fold", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the batch in progress."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._fold()
        except BaseException as error:  # noqa: BLE001 - raised again by who joins
            self.failure = error
            self._stop.set()

    def _fold(self) -> None:
        sink, stop = self._sink, self._stop
        retries = Retries(sink.config, sink.metrics)
        while not stop.is_set():
            try:
                with self._steps.working(Part.FOLD):
                    sink.open_tables()
                while not stop.is_set():
                    began, has_all = time.monotonic(), self.log_is_caught_up.is_set()
                    with self._steps.working(Part.FOLD):
                        has_folded = sink.fold_tables(stop, batches_max=1) > 0
                    if has_folded:
                        self._is_warm = True
                        # Readers wait for the cuts of the log: leave them the processors for as
                        # long again. Changes that arrive meanwhile become one batch.
                        stop.wait(min(time.monotonic() - began, _REST_MAX_S))
                    elif has_all and not self._is_warm:
                        self._is_warm = True
                        self._warm_up()
                    else:
                        sink.fold.feed.wait(_POLL_S)
            except RETRIED as error:
                retries.wait_after(error, sink.fold.state.batch, stop)
