"""The tables of the load: each has a rule by which the lake's value is not simply the source's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import pyodbc

from tests.verify_values import COLUMNS, VALUES, WITHHELD

DATABASE: Final = "load"
ACCOUNTS: Final = 4_000
QUIET_ACCOUNTS: Final = 1_000
"""Accounts after these that no writer changes: rows of the lake are damaged there."""
EVOLVING: Final = 22_000
"""More rows than a key range has."""
_AT_ONCE: Final = 1_000

_CREATED: Final = (
    f"CREATE TABLE dbo.kinds (id int PRIMARY KEY, {', '.join(COLUMNS)})",
    "CREATE TABLE dbo.accounts (branch smallint, id int, owner nvarchar(40) NOT NULL,"
    " balance decimal(12, 2), twice AS balance * 2, photo varbinary(max),"
    " PRIMARY KEY (branch, id))",
    "CREATE TABLE dbo.people (code varchar(12) COLLATE Latin1_General_CI_AS PRIMARY KEY,"
    " name nvarchar(60), salary nvarchar(30), mail varchar(50), remarks nvarchar(200), born date)",
    "CREATE TABLE dbo.documents (id bigint PRIMARY KEY, pages int, body nvarchar(max), note text,"
    " page xml, scan varbinary(max))",
    "CREATE TABLE dbo.readings (at datetime, sensor nchar(4), value float, rough real,"
    " rounded smalldatetime, exact datetime2(7), zone datetimeoffset(3), PRIMARY KEY (at, sensor))",
    "CREATE TABLE dbo.sizes (size float PRIMARY KEY, price money, cheap smallmoney, day date,"
    " since time(3), precise decimal(38, 18))",
    "CREATE TABLE dbo.words (word nvarchar(30) COLLATE Turkish_CI_AS PRIMARY KEY,"
    " latin varchar(30) COLLATE SQL_Latin1_General_CP1_CI_AS,"
    " greek varchar(30) COLLATE Greek_CI_AI, japanese nvarchar(30) COLLATE Japanese_CS_AS_KS_WS,"
    " exact varchar(30) COLLATE Latin1_General_BIN2, padded char(8))",
    "CREATE TABLE dbo.clicks (page varchar(20), ms float)",
    "CREATE TABLE dbo.visits (page varchar(20), hour int, hits int)",
    "CREATE TABLE dbo.evolving (id int PRIMARY KEY, name varchar(20), amount int)",
)
TABLES: Final = tuple(sorted(statement.split()[2].removeprefix("dbo.") for statement in _CREATED))
EVOLVING_TABLES: Final = frozenset({"dbo.accounts", "dbo.evolving"})
"""Tables that get and lose columns."""
PUBLISHER: Final[dict[str, Any]] = {
    **WITHHELD,
    "lossless_columns": {"dbo.kinds": ["lossless"]},
    "message_keys": {"dbo.visits": ["page", "hour"]},
    "tables": {"schema_change": "rotate"},
    "snapshot": {"mode": "initial"},
}
SINK: Final[dict[str, Any]] = {
    "delete_mode": "soft",
    "kinds": {r"dbo\.(accounts|evolving)": ["mirror", "changelog"]},
    "trigger_interval_s": 3,
    "spark": {"spark.driver.memory": "1g"},
}


def create(server: str, database: str, chance: random.Random) -> None:
    """Create and fill the database, and capture its tables.

    Args:
        server: ODBC connection string of the server.
        database: the same of the database.
    """
    with pyodbc.connect(server, autocommit=True) as master:
        master.execute(f"CREATE DATABASE [{DATABASE}]")
        master.execute("EXEC sp_configure 'max text repl size', -1")
        master.execute("RECONFIGURE")
    with pyodbc.connect(database, autocommit=True) as source:
        for statement in _CREATED:
            source.execute(statement)
        for number in range(400):
            source.execute(f"INSERT dbo.kinds VALUES ({number}, {', '.join(literals(chance))})")
        accounts = range(ACCOUNTS + QUIET_ACCOUNTS)
        _fill(
            source,
            "accounts (branch, id, owner, balance, photo)",
            [(n % 7, n, f"owner {n}", n, b"x" * (n % 5)) for n in accounts],
        )
        _fill(source, "evolving", [(n, f"n{n % 977}", n) for n in range(EVOLVING)])
        source.execute("EXEC sys.sp_cdc_enable_db")
        for table in TABLES:
            source.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
                " @role_name = NULL",
                table,
            )
        source.execute("EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 1")
        for step in ("stop", "start"):
            source.execute(f"EXEC sys.sp_cdc_{step}_job @job_type = N'capture'")


def literals(chance: random.Random) -> list[str]:
    """T-SQL of a value of each column of ``dbo.kinds`` but its key."""
    found = [
        "NULL" if chance.random() < 0.1 else chance.choice(values).literal
        for values in VALUES.values()
    ]
    return [*found, f"'2024-01-01T00:00:00.{chance.randrange(10**7):07}'"]


def _fill(source: pyodbc.Connection, target: str, rows: Sequence[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    with source.cursor() as cursor:
        cursor.fast_executemany = True
        for begin in range(0, len(rows), _AT_ONCE):
            cursor.executemany(
                f"INSERT INTO dbo.{target} VALUES ({marks})", rows[begin : begin + _AT_ONCE]
            )
