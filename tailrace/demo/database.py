"""The airline's database: its tables as a DBA would type them, and change data capture on each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tailrace.demo.flights import load, records

if TYPE_CHECKING:
    import pyodbc

DATABASE: Final = "Airline"

TABLES: Final[dict[str, str]] = {
    "airlines": """
        CREATE TABLE dbo.airlines (
            carrier char(2) NOT NULL CONSTRAINT pk_airlines PRIMARY KEY,
            name    nvarchar(60) NOT NULL
        )""",
    "airports": """
        CREATE TABLE dbo.airports (
            faa   char(3) NOT NULL CONSTRAINT pk_airports PRIMARY KEY,
            name  nvarchar(80) NOT NULL,
            lat   decimal(9, 6) NOT NULL,
            lon   decimal(9, 6) NOT NULL,
            alt   smallint NOT NULL,
            tz    smallint NOT NULL,
            dst   char(1) NOT NULL,
            tzone varchar(40) NULL
        )""",
    "planes": """
        CREATE TABLE dbo.planes (
            tailnum        nvarchar(8) NOT NULL CONSTRAINT pk_planes PRIMARY KEY,
            built          smallint NULL,
            kind           nvarchar(40) NULL,
            manufacturer   nvarchar(60) NULL,
            model          nvarchar(40) NULL,
            engines        tinyint NULL,
            seats          smallint NULL,
            flights        int NOT NULL CONSTRAINT df_planes_flights DEFAULT 0,
            air_minutes    int NOT NULL CONSTRAINT df_planes_minutes DEFAULT 0,
            miles          decimal(12, 1) NOT NULL CONSTRAINT df_planes_miles DEFAULT 0,
            last_departure datetime2(0) NULL
        )""",
    "flights": """
        CREATE TABLE dbo.flights (
            flight_id      int NOT NULL CONSTRAINT pk_flights PRIMARY KEY,
            reference      uniqueidentifier NOT NULL
                           CONSTRAINT df_flights_reference DEFAULT NEWID(),
            carrier        char(2) NOT NULL,
            flight         smallint NOT NULL,
            tailnum        nvarchar(8) NULL,
            origin         char(3) NOT NULL,
            dest           char(3) NOT NULL,
            flight_date    date NOT NULL,
            scheduled      datetime2(0) NOT NULL,
            sched_arr_time smallint NOT NULL,
            dep_time       datetime2(0) NULL,
            dep_delay      smallint NULL,
            arr_time       smallint NULL,
            arr_delay      smallint NULL,
            air_time       smallint NULL,
            distance       smallint NOT NULL,
            diverted       bit NOT NULL CONSTRAINT df_flights_diverted DEFAULT 0,
            entered        datetime2(3) NOT NULL
                           CONSTRAINT df_flights_entered DEFAULT SYSUTCDATETIME()
        )""",
    "weather": """
        CREATE TABLE dbo.weather (
            weather_id int IDENTITY(1, 1) NOT NULL CONSTRAINT pk_weather PRIMARY KEY,
            origin     char(3) NOT NULL,
            observed   datetime2(0) NOT NULL,
            temp       decimal(6, 2) NULL,
            dewp       decimal(6, 2) NULL,
            humid      decimal(6, 2) NULL,
            wind_dir   smallint NULL,
            wind_speed decimal(9, 5) NULL,
            wind_gust  decimal(9, 5) NULL,
            precip     decimal(5, 2) NULL,
            pressure   decimal(6, 1) NULL,
            visib      decimal(5, 2) NULL
        )""",
}


def create(connection: pyodbc.Connection) -> None:
    """Create the database and its empty tables; ``connection`` is autocommit, to any database."""
    cursor = connection.cursor()
    cursor.execute(f"CREATE DATABASE [{DATABASE}]")
    cursor.execute(f"USE [{DATABASE}]")
    for statement in TABLES.values():
        cursor.execute(statement)


def load_reference_tables(connection: pyodbc.Connection) -> dict[str, int]:
    """Fill airlines, airports and planes from the data set; returns rows per table."""
    airlines = load("airlines")
    airports = load("airports")
    planes = load("planes")
    return {
        "airlines": _insert(
            connection,
            "INSERT INTO dbo.airlines (carrier, name) VALUES (?, ?)",
            records(airlines[["carrier", "name"]]),
        ),
        "airports": _insert(
            connection,
            "INSERT INTO dbo.airports (faa, name, lat, lon, alt, tz, dst, tzone)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (r.faa, r.name, round(r.lat, 6), round(r.lon, 6), r.alt, r.tz, r.dst, r.tzone)
                for r in records(airports)
            ),
        ),
        "planes": _insert(
            connection,
            "INSERT INTO dbo.planes (tailnum, built, kind, manufacturer, model, engines, seats)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (r.tailnum, r.year, r.type, r.manufacturer, r.model, r.engines, r.seats)
                for r in records(planes)
            ),
        ),
    }


def _insert(connection: pyodbc.Connection, sql: str, rows: Iterable[Any]) -> int:
    # NaN is the data set's NULL; a float column with NULLs holds whole numbers (planes.year).
    clean = [tuple(None if value != value else _plain(value) for value in row) for row in rows]
    connection.autocommit = False
    cursor = connection.cursor()
    cursor.fast_executemany = True
    for start in range(0, len(clean), 1000):
        cursor.executemany(sql, clean[start : start + 1000])
    connection.commit()
    cursor.close()
    connection.autocommit = True
    return len(clean)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        from decimal import Decimal

        return int(value) if value.is_integer() else Decimal(str(value))
    return value.item() if hasattr(value, "item") else value


def enable_cdc(connection: pyodbc.Connection, *, polling_interval_s: int) -> None:
    """Enable change data capture for the database and every table.

    The capture job is then restarted with ``polling_interval_s`` seconds between its scans: a
    changed setting takes effect on the job's next start only.
    """
    cursor = connection.cursor()
    cursor.execute("EXEC sys.sp_cdc_enable_db")
    for table in TABLES:
        cursor.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
            " @role_name = NULL, @supports_net_changes = 1",
            table,
        )
        while cursor.nextset():
            pass
    cursor.execute(
        "EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = ?",
        polling_interval_s,
    )
    cursor.execute("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    cursor.execute("EXEC sys.sp_cdc_start_job @job_type = N'capture'")
