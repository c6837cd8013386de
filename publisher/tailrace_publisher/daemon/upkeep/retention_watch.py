"""The watch over the retention: does cleanup reach what is not published, and when."""

from __future__ import annotations

from typing import Final

import structlog

from tailrace_publisher.daemon.upkeep.near_forecast import NearForecast
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.cdc_jobs import retention_s

_log = structlog.get_logger(__name__)

_READ_EVERY_S: Final = 600.0


class RetentionWatch:
    """Notes the lag of what cleanup may remove, and warns once per growth.

    Args:
        connection: of the main loop.
    """

    def __init__(self, connection: Connection, runtime: Runtime) -> None:
        self._connection = connection
        self._metrics = runtime.metrics
        self._clock = runtime.clock
        self._read_at: float | None = None
        self._forecast = NearForecast()

    def look(self, *, is_caught_up: bool) -> None:
        """Note the lag; read the retention from time to time.

        Args:
            is_caught_up: whether everything that was captured is published, so that cleanup can
                remove nothing that is needed, however old the newest change is.

        Raises:
            SourceError: the server did not answer.
        """
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _READ_EVERY_S:
            self._read_at = now
            self._metrics.retention_s = retention_s(self._connection)
        self._metrics.note_unpublished(is_caught_up=is_caught_up)
        left_s = self._metrics.retention_left_s()
        if self._forecast.is_news(left_s):
            _log.warning(
                "retention_overtakes",
                left_s=round(left_s),
                effect="cleanup removes change rows that are not published, which stops tables",
                fix="raise the retention: EXEC sys.sp_cdc_change_job @job_type = N'cleanup',"
                " @retention = <minutes>",
            )
