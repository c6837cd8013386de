"""The watch over the source's space: when is its log full, and when its disk.

The log holds what the capture job has not read. Change tables hold what is not published, and with
cleanup.wait_for also what lakes lack. Both end the source's own writes.
"""

from __future__ import annotations

from typing import Final

import structlog

from tailrace_publisher.daemon.upkeep.near_forecast import NearForecast
from tailrace_publisher.errors import PermissionMissing, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.log_end import grant_log_right
from tailrace_publisher.source.log.space import Space, read_space

_log = structlog.get_logger(__name__)

_EVERY_S: Final = 30.0
_REPLICATION: Final = "REPLICATION"
_FIX_CAPTURE: Final = (
    "start SQL Server Agent, or EXEC sys.sp_cdc_start_job @job_type = N'capture'; see"
    " sys.dm_cdc_errors"
)


class SpaceWatch:
    """Notes the used space, and warns once per growth.

    Args:
        connection: of the main loop.
    """

    def __init__(self, connection: Connection, runtime: Runtime) -> None:
        self._connection = connection
        self._metrics = runtime.metrics
        self._clock = runtime.clock
        # A session that ends at once asks the server for nothing more.
        self._due_at = runtime.clock.monotonic() + _EVERY_S
        self._is_visible = True
        self._hidden: set[str] = set()
        self._log, self._disk = NearForecast(), NearForecast()

    def look(self) -> None:
        """Read the space from time to time.

        Raises:
            SourceError: the server did not answer.
        """
        now = self._clock.monotonic()
        if not self._is_visible or now < self._due_at:
            return
        self._due_at = now + _EVERY_S
        space = read_space(self._connection, self._refused)
        if space is None:
            self._is_visible = False
            return
        self._metrics.note_space(space.log_used, space.log_limit, space.disk_free)
        self._warn_of_log(space)
        left_s = self._metrics.disk_full_s()
        if self._disk.is_news(left_s):
            _log.warning(
                "disk_fills_up",
                left_s=round(left_s),
                free_bytes=space.disk_free,
                effect="the source cannot write any more once the volume is full",
                fix="let the publisher and its lakes catch up, or lower the retention of the"
                " cleanup job, which loses changes that are not published",
            )

    def _refused(self, view: str, refusal: SourceError) -> None:
        """Log once what a view would have shown."""
        if view in self._hidden:
            return
        self._hidden.add(view)
        _log.info(
            "space_not_visible",
            view=view,
            effect="nobody forecasts when the source's "
            + ("disk is full" if view.endswith("volume_stats") else "log is full"),
            fix=grant_log_right(self._connection)
            if isinstance(refusal, PermissionMissing)
            else "none: this server does not have the view",
            reason=str(refusal),
        )

    def _warn_of_log(self, space: Space) -> None:
        left_s = self._metrics.log_full_s()
        if self._log.is_news(left_s):
            _log.warning(
                "log_fills_up",
                left_s=round(left_s),
                log_reuse_wait=space.log_waits_for,
                effect="every write of the source fails with error 9002 once the log is full",
                fix=_FIX_CAPTURE
                if space.log_waits_for == _REPLICATION
                else "remove what log_reuse_wait names, or enlarge the log",
            )
