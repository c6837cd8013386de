"""The sink in a session: log, fold, and the loop that retries."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from pyspark.sql import SparkSession

from tailrace_service.registry.access import open_registry
from tailrace_sink.daemon.endpoint import endpoint
from tailrace_sink.daemon.fold_thread import FoldThread
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.status_board import SinkBoard
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.watch.backlog_watch import watched_backlog
from tailrace_sink.watch.hang_detector import Part, watched_tasks
from tailrace_sink.watch.hooks import LOG_STEPS, Hook, no_hook
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.retries import RETRIED, Retries

_log = structlog.get_logger("tailrace.sink")


def serve(
    spark: SparkSession,
    config: SinkConfig,
    stop: threading.Event,
    *,
    once: bool = False,
    on_ready: Callable[[], None] | None = None,
    hook: Hook | None = None,
    metrics: SinkMetrics | None = None,
) -> None:
    """Run the sink in an existing session, which keeps running afterwards (``start.run``)."""
    metrics = metrics or SinkMetrics()
    board = SinkBoard(config, metrics)
    with (
        endpoint(config, metrics, board),
        open_registry(config.registry) as registry,
        watched_tasks(spark, board.steps),
        watched_backlog(metrics, spark) as backlog,
    ):

        def stepped(step: str, path: str) -> None:
            backlog.stepped(step)
            board.steps.stepped(Part.LOG if step in LOG_STEPS else Part.FOLD)
            (hook or no_hook)(step, path)

        sink = Sink(spark, config, registry.schema_by_id, metrics=metrics, hook=stepped)
        board.open(sink)

        def ready() -> None:
            board.enter("running")
            (on_ready or _nothing)()

        stream = ProgressStream(spark, config, sink.schemas.schema_by_id, sink, board.steps)
        try:
            if once:
                _carry_once(sink, stream, stop, ready)
            else:
                fold = FoldThread(sink, stop, sink.warm_up, board.steps)
                _log_until(sink, stream, fold, stop, board, ready)
        finally:
            sink.close()


def _carry_once(
    sink: Sink, stream: ProgressStream, stop: threading.Event, on_ready: Callable[[], None]
) -> None:
    """Carry everything up to the present end of the progress topic into log and tables."""
    retries = Retries(sink.config, sink.metrics)
    is_told = False
    while not stop.is_set():
        try:
            sink.open()
            if not is_told:
                is_told = True
                on_ready()
            cuts = stream.catch_up(stop)
            batches = sink.fold_tables(stop)
            sink.fold.tidy(stop.is_set)
        except RETRIED as error:
            retries.wait_after(error, sink.fold.state.batch, stop)
        else:
            _log.info("carried_once", cuts=cuts, batches=batches)
            return


def _log_until(
    sink: Sink,
    stream: ProgressStream,
    fold: FoldThread,
    stop: threading.Event,
    board: SinkBoard,
    on_ready: Callable[[], None],
) -> None:
    """Catch up and stream; after a retryable error, open the log again and continue."""
    retries = Retries(sink.config, sink.metrics)
    is_folding = False
    try:
        while not stop.is_set():
            try:
                with board.steps.working(Part.LOG):
                    sink.open_log()
                if not is_folding:
                    is_folding = True
                    fold.start()
                    on_ready()
                board.enter("running")
                stream.catch_up(stop)
                fold.log_is_caught_up.set()
                if not stop.is_set():
                    stream.run(stop)
            except RETRIED as error:
                board.enter("retrying")
                retries.wait_after(error, sink.log.state.batch, stop)
    finally:
        stop.set()
        if is_folding:
            fold.join()
    if fold.failure is not None:
        raise fold.failure
    _log.info("stopped", log_lsn=sink.log.state.closed_lsn, closed_lsn=sink.fold.state.closed_lsn)


def _nothing() -> None:
    """Do nothing when the sink is ready."""
