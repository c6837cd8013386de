"""The source's local time, which its commit times are in, and its offset from UTC."""

from __future__ import annotations

from typing import Final

from tailrace_publisher.ports import Clock, Connection
from tailrace_publisher.source.log.commit_times import time_zone, utc_offset_minutes

_REFRESH_S: Final = 600.0
"""How often the server's offset from UTC is read again: it changes with daylight saving time."""


class ServerTime:
    """The offset of the source's local time from UTC.

    Args:
        configured: value of the option source.time_zone.

    Attributes:
        zone: name of the server's time zone; None if the server does not show it.
        utc_offset_minutes: how far its local time is ahead of UTC now.

    Raises:
        ConfigError: the option does not name the server's zone.
        SourceError: the server did not answer.
    """

    def __init__(self, connection: Connection, clock: Clock, configured: str | None = None) -> None:
        self._connection = connection
        self._clock = clock
        self.zone = time_zone(connection, configured)
        self.utc_offset_minutes = utc_offset_minutes(connection)
        self._read_at = clock.monotonic()

    def refresh(self) -> None:
        """Read the offset again if the last reading is too old.

        Raises:
            SourceError: the server did not answer.
        """
        now = self._clock.monotonic()
        if now - self._read_at > _REFRESH_S:
            self.utc_offset_minutes = utc_offset_minutes(self._connection)
            self._read_at = now
