"""A server's clock: its time zone with daylight saving time, and steps of an operator or of NTP.

``tran_end_time``, the scan sessions' times and GETDATE() are all local time of the server, so in
autumn an hour comes twice.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.simulation.sqlserver.database import as_datetime
from tests.simulation.world import World


@dataclass(slots=True)
class Zone:
    """A time zone with at most one change of its offset in a run.

    Attributes:
        name: as CURRENT_TIMEZONE_ID() tells it.
        before_minutes: how far local time is ahead of UTC before the change.
        after_minutes: the same from the change on.
        change: the moment, UTC without a zone; None where there is none.
    """

    name: str
    before_minutes: int
    after_minutes: int
    change: datetime | None

    def offset_at(self, utc: datetime) -> int:
        """Minutes by which local time is ahead of UTC at a moment."""
        if self.change is None or utc < self.change:
            return self.before_minutes
        return self.after_minutes

    def offset_of_local(self, local: datetime) -> int:
        """What AT TIME ZONE says of a local time.

        In the hour that comes twice it takes the offset before the change; in the hour that does
        not come it takes that before the change, too.

        https://learn.microsoft.com/sql/t-sql/queries/at-time-zone-transact-sql
        """
        if self.change is None:
            return self.before_minutes
        if local - timedelta(minutes=self.before_minutes) < self.change:
            return self.before_minutes
        return self.after_minutes


@dataclass(slots=True)
class ServerClock:
    """The clock of one server.

    Attributes:
        world: the true time.
        zone: of the server.
        error_ms: by how much it is wrong, as its operator set it.
        last_step_back: true time of its last step back; None before the first.
    """

    world: World
    zone: Zone
    error_ms: int = 0
    last_step_back: datetime | None = None

    def utc(self) -> datetime:
        """What the server takes for UTC, without a zone."""
        return self.world.now.replace(tzinfo=None) + timedelta(milliseconds=self.error_ms)

    def local(self) -> datetime:
        """GETDATE()."""
        utc = self.utc()
        return as_datetime(utc + timedelta(minutes=self.zone.offset_at(utc)))

    def offset_minutes(self) -> int:
        """DATEPART(tz, SYSDATETIMEOFFSET())."""
        return self.zone.offset_at(self.utc())

    def step(self, milliseconds: int) -> None:
        """Set the clock."""
        self.error_ms += milliseconds
        if milliseconds < 0:
            self.last_step_back = self.world.now
