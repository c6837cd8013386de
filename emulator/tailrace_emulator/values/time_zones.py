"""Time zones under the names that Windows, and so SQL Server, gives them.

The rules come from the IANA database of the machine (or the package tzdata). Here is which of its
zones a Windows name means, by Unicode's CLDR, for the zones that people use most.

https://learn.microsoft.com/sql/t-sql/queries/at-time-zone-transact-sql
"""

from __future__ import annotations

import datetime
import zoneinfo
from functools import lru_cache
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported

TICKS_PER_MINUTE: Final = 600_000_000
_MICROSECOND_TICKS: Final = 10
_YEARS: Final = (2, 9998)
"""Outside of these the offset of the nearest of them holds: Python's dates end at 1 and 9999."""

WINDOWS_ZONES: Final = {
    "UTC": "Etc/UTC",
    "Dateline Standard Time": "Etc/GMT+12",
    "Hawaiian Standard Time": "Pacific/Honolulu",
    "Alaskan Standard Time": "America/Anchorage",
    "Pacific Standard Time": "America/Los_Angeles",
    "US Mountain Standard Time": "America/Phoenix",
    "Mountain Standard Time": "America/Denver",
    "Central Standard Time": "America/Chicago",
    "Central Standard Time (Mexico)": "America/Mexico_City",
    "Canada Central Standard Time": "America/Regina",
    "Eastern Standard Time": "America/New_York",
    "US Eastern Standard Time": "America/Indianapolis",
    "SA Pacific Standard Time": "America/Bogota",
    "Atlantic Standard Time": "America/Halifax",
    "Venezuela Standard Time": "America/Caracas",
    "Pacific SA Standard Time": "America/Santiago",
    "Newfoundland Standard Time": "America/St_Johns",
    "E. South America Standard Time": "America/Sao_Paulo",
    "Argentina Standard Time": "America/Buenos_Aires",
    "Greenland Standard Time": "America/Godthab",
    "Azores Standard Time": "Atlantic/Azores",
    "GMT Standard Time": "Europe/London",
    "Greenwich Standard Time": "Atlantic/Reykjavik",
    "Morocco Standard Time": "Africa/Casablanca",
    "W. Europe Standard Time": "Europe/Berlin",
    "Central Europe Standard Time": "Europe/Budapest",
    "Romance Standard Time": "Europe/Paris",
    "Central European Standard Time": "Europe/Warsaw",
    "W. Central Africa Standard Time": "Africa/Lagos",
    "GTB Standard Time": "Europe/Bucharest",
    "Middle East Standard Time": "Asia/Beirut",
    "Egypt Standard Time": "Africa/Cairo",
    "E. Europe Standard Time": "Europe/Chisinau",
    "South Africa Standard Time": "Africa/Johannesburg",
    "FLE Standard Time": "Europe/Kiev",
    "Israel Standard Time": "Asia/Jerusalem",
    "Turkey Standard Time": "Europe/Istanbul",
    "Arabic Standard Time": "Asia/Baghdad",
    "Arab Standard Time": "Asia/Riyadh",
    "Belarus Standard Time": "Europe/Minsk",
    "Russian Standard Time": "Europe/Moscow",
    "E. Africa Standard Time": "Africa/Nairobi",
    "Iran Standard Time": "Asia/Tehran",
    "Arabian Standard Time": "Asia/Dubai",
    "Azerbaijan Standard Time": "Asia/Baku",
    "Georgian Standard Time": "Asia/Tbilisi",
    "Afghanistan Standard Time": "Asia/Kabul",
    "West Asia Standard Time": "Asia/Tashkent",
    "Ekaterinburg Standard Time": "Asia/Yekaterinburg",
    "Pakistan Standard Time": "Asia/Karachi",
    "India Standard Time": "Asia/Calcutta",
    "Sri Lanka Standard Time": "Asia/Colombo",
    "Nepal Standard Time": "Asia/Katmandu",
    "Bangladesh Standard Time": "Asia/Dhaka",
    "Myanmar Standard Time": "Asia/Rangoon",
    "SE Asia Standard Time": "Asia/Bangkok",
    "China Standard Time": "Asia/Shanghai",
    "Singapore Standard Time": "Asia/Singapore",
    "W. Australia Standard Time": "Australia/Perth",
    "Taipei Standard Time": "Asia/Taipei",
    "Tokyo Standard Time": "Asia/Tokyo",
    "Korea Standard Time": "Asia/Seoul",
    "Cen. Australia Standard Time": "Australia/Adelaide",
    "AUS Central Standard Time": "Australia/Darwin",
    "E. Australia Standard Time": "Australia/Brisbane",
    "AUS Eastern Standard Time": "Australia/Sydney",
    "Tasmania Standard Time": "Australia/Hobart",
    "Vladivostok Standard Time": "Asia/Vladivostok",
    "New Zealand Standard Time": "Pacific/Auckland",
    "Fiji Standard Time": "Pacific/Fiji",
    "Tonga Standard Time": "Pacific/Tongatapu",
    "Samoa Standard Time": "Pacific/Apia",
}
"""In the order of their offsets."""

_FOLDED: Final = {name.casefold(): iana for name, iana in WINDOWS_ZONES.items()}


@lru_cache(maxsize=256)
def zone(name: str) -> datetime.tzinfo:
    """The zone of a Windows name.

    Raises:
        SqlError: 9820 for a name that is none; 50900 when the machine has no time zone data.
    """
    iana = _FOLDED.get(name.rstrip().casefold())
    if iana is None:
        raise messages.error(9820, name)
    if iana == "Etc/UTC":
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(iana)
    except zoneinfo.ZoneInfoNotFoundError as error:
        raise not_supported(
            f"AT TIME ZONE '{name}' without the machine's time zone data (install tzdata)"
        ) from error


def _moment(ticks: int) -> datetime.datetime:
    """A moment without its last digit, within the years that Python can move about in."""
    base = datetime.datetime(1, 1, 1)  # noqa: DTZ001 - the zone is what is being looked for
    moment = base + datetime.timedelta(microseconds=ticks // _MICROSECOND_TICKS)
    low, high = _YEARS
    return (
        moment.replace(year=min(max(moment.year, low), high), day=min(moment.day, 28))
        if not (low <= moment.year <= high)
        else moment
    )


def _minutes(offset: datetime.timedelta | None) -> int:
    return 0 if offset is None else round(offset.total_seconds() / 60)


def offset_at(utc_ticks: int, name: str) -> int:
    """A zone's offset from UTC in minutes at an instant."""
    moment = _moment(utc_ticks).replace(tzinfo=datetime.UTC)
    return _minutes(moment.astimezone(zone(name)).utcoffset())


def to_utc(local_ticks: int, name: str) -> int:
    """The instant of a local time, in UTC ticks.

    A time that the clock skips counts from before the change; one that comes twice is the first.
    """
    moment = _moment(local_ticks).replace(tzinfo=zone(name), fold=0)
    return local_ticks - _minutes(moment.utcoffset()) * TICKS_PER_MINUTE


def is_daylight_saving(utc_ticks: int, name: str) -> bool:
    """Whether a zone has summer time at an instant."""
    moment = _moment(utc_ticks).replace(tzinfo=datetime.UTC).astimezone(zone(name))
    return bool(moment.dst())
