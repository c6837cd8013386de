"""``tailrace verify --continuous``: compare range after range at a low rate, without an end.

Each step compares the range that was compared longest ago. It does so as ``tailrace verify`` does,
with connections, catalog and cut of its own. Then what was found is stored in the lake, in one
small file. A process that was killed has lost no more than its last step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from tailrace.verify.metrics import VerifyMetrics
from tailrace.verify.pace import CONTINUOUS_ROWS_PER_S, Hours
from tailrace.verify.ranges import EVERYTHING, KeyRange, has_ranges
from tailrace.verify.verified import (
    VerifiedRange,
    VerifiedTable,
    due_ms,
    next_range,
    of_json,
    to_json,
    verified_path,
    with_tables,
)
from tailrace.verify.verify import PublishedShapes, VerifyOptions, comparing
from tailrace_publisher.errors import ColumnsRefused
from tailrace_service.endpoint import daemon_endpoint, metrics_response
from tailrace_service.http.messages import Response, Route
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_sink.delta.file_log import read_text, write_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.verify.compare import Comparison
    from tailrace.verify.table_result import TableResult
    from tailrace.verify.table_shape import TableShape
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig

_log = structlog.get_logger(__name__)

_STEP_S: Final = 600
"""A step has the rows of this time at the rate, so that only a few changes fall into it."""
_LOOK_S: Final = 600.0
"""How often new tables are looked for while no range is due."""


class Stopped(Exception):
    """The process is to end; the step is given up."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Compares the ranges of all tables, one at each step.

    Args:
        hours: in which a step may begin; None: in all.
    """

    publisher: PublisherConfig
    sink: SinkConfig
    spark: SparkSession
    options: VerifyOptions
    hours: Hours | None = None

    def run(self, metrics: VerifyMetrics, stop: threading.Event) -> None:
        """Compare until the stop is set.

        Raises:
            VerifiedUnreadable: the stored file is not what this writes.
            NotThere, SourceError, SinkError: as :func:`tailrace.verify.verify`.
        """

        def pause(seconds: float) -> None:
            if stop.wait(seconds):
                raise Stopped

        known, differing_first = self._stored(), True
        try:
            while not stop.is_set():
                pause(0.0 if self.hours is None else self.hours.wait_s(time.time()))
                with comparing(self.publisher, self.sink, self.spark, self.options, pause) as (
                    _,
                    published,
                    comparison,
                ):
                    shapes = dict(_shapes(published, self.options.tables))
                    ids = {name: one.newest.source_object_id for name, one in shapes.items()}
                    tables = with_tables(known, ids, _now_ms())
                    metrics.show(tables)
                    picked = next_range(tables, _now_ms(), differing_first=differing_first)
                    if picked is not None:
                        name, part = picked
                        tables[name] = self._step(
                            comparison, shapes[name], tables[name], part, metrics
                        )
                        differing_first = not differing_first
                        known |= tables
                        self._store(known)
                        metrics.show(tables)
                if picked is None:
                    pause(min(_LOOK_S, max(1.0, (due_ms(tables) - _now_ms()) / 1000)))
        except Stopped:
            return

    def _step(
        self,
        comparison: Comparison,
        shape: TableShape,
        table: VerifiedTable,
        part: VerifiedRange,
        metrics: VerifyMetrics,
    ) -> VerifiedTable:
        """Compare the rows from the begin of a range; return the table as it then is known."""
        at_ms = _now_ms()
        rows = round((self.options.rows_per_s or CONTINUOUS_ROWS_PER_S) * _STEP_S)
        result = comparison.compare(shape, part.keys.after, rows)
        keys = part.keys
        if result.problem is None:
            begin = part.keys.after
            keys = KeyRange(begin, result.last_key) if has_ranges(shape) else EVERYTHING
            metrics.compared(result.table, result.source_rows)
        _report(result)
        lsn = result.first_lsn if result.is_proven else None
        return table.compared(keys, at_ms, result.differing.total(), lsn)

    @property
    def _path(self) -> str:
        return verified_path(self.sink.lake)

    def _stored(self) -> dict[str, VerifiedTable]:
        text = read_text(self.spark, self.sink.log_path, self._path)
        return {} if text is None else of_json(text, self._path)

    def _store(self, tables: dict[str, VerifiedTable]) -> None:
        write_text(self.spark, self.sink.log_path, self._path, to_json(tables))


@contextmanager
def metrics_served(options: EndpointOptions, metrics: VerifyMetrics) -> Iterator[None]:
    """Serve /metrics and /health while the block runs, if there is a port.

    Raises:
        EndpointRefused: it cannot listen there.
    """
    routes = {
        ("GET", "/health"): Route(lambda _: Response.of_text("ok"), is_open=True),
        ("GET", "/metrics"): Route(
            lambda request: metrics_response(request, metrics.registry), is_open=True
        ),
    }
    with daemon_endpoint(options, routes) as url:
        if url is not None:
            _log.info("http_served", url=url)
        yield


def _report(result: TableResult) -> None:
    if result.problem is not None:
        _log.warning("range_not_verified", table=result.table, reason=result.problem)
    elif result.differs:
        _log.error(
            "rows_differ",
            table=result.table,
            rows=result.differing.total(),
            lsn=result.lsn,
            fix=f"tailrace verify {result.table} shows them",
        )
    elif not result.is_proven:
        moved = result.unsettled + result.not_examined
        _log.warning(
            "range_not_verified", table=result.table, reason=f"{moved} rows changed each time"
        )
    else:
        _log.info(
            "range_verified", table=result.table, rows=result.source_rows, lsn=result.first_lsn
        )


def _shapes(published: PublishedShapes, asked: Sequence[str]) -> Iterator[tuple[str, TableShape]]:
    """Yield the tables that can be compared, by name; log why others cannot."""
    for name in published.names(asked):
        try:
            yield name.in_database, published.of(name)
        except ColumnsRefused as error:
            _log.warning("range_not_verified", table=name.in_database, reason=str(error))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
