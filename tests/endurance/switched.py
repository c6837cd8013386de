"""A captured table whose partitions are switched: rows come and go without change rows.

Each switch has a table of its own on the other side, which stays: the id of what left is there.
Writers soon touch every row of theirs, which hides a switch that nobody noticed. So half of the
switches are of a partition whose rows no writer touches, and bring it other rows.
"""

from __future__ import annotations

import random
from typing import Final

import pyodbc

from tests.pipeline.daemon.chaos import KEYS
from tests.pipeline.source_database import SourceDatabase

TABLE: Final = "parts"
_BOUNDARIES: Final = (0, KEYS // 2, 100)
_FIRST_IDS: Final = (-1000, *_BOUNDARIES)
_STEP: Final = 3
"""Remainders of negative ids, -1000 - 3 n, are not those of the writers' conditions."""


def create(source: SourceDatabase) -> None:
    """Create the table in three partitions, under change data capture."""
    boundaries = ", ".join(map(str, _BOUNDARIES))
    source.execute(
        f"CREATE PARTITION FUNCTION by_id (int) AS RANGE RIGHT FOR VALUES ({boundaries})",
        "CREATE PARTITION SCHEME by_id AS PARTITION by_id ALL TO ([PRIMARY])",
        f"CREATE TABLE dbo.{TABLE} (id int PRIMARY KEY, v int) ON by_id (id)",
        f"INSERT dbo.{TABLE} VALUES (-1000, 0), (1, 0), (7, 0), (101, 0)",
    )
    source.enable(TABLE)


def switch(connection: pyodbc.Connection, rng: random.Random, number: int) -> str:
    """Switch a partition out, another one in for it, or both."""
    partition = rng.choice((1, 1, 1, 2, 3, 4))
    what = rng.choice(("in", "out and in", "out")[: 2 if partition == 1 else 3])
    statements = []
    if "out" in what:
        statements += [
            *_created(f"out_{number}"),
            "BEGIN TRAN",
            f"ALTER TABLE dbo.{TABLE} SWITCH PARTITION {partition} TO dbo.out_{number}",
        ]
    if "in" in what:
        first = _FIRST_IDS[partition - 1]
        ids = range(first, first + _STEP * rng.randrange(1, 4), _STEP if first < 0 else 1)
        rows = ", ".join(f"({n}, {rng.randrange(1000)})" for n in ids)
        loaded = f"INSERT dbo.in_{number} (id, v) VALUES {rows}"
        statements = [*_created(f"in_{number}"), loaded, *statements]
        if what == "in":
            last = (*_BOUNDARIES, 1000)[partition - 1]
            statements += [
                "BEGIN TRAN",
                f"DELETE dbo.{TABLE} WHERE id >= {first} AND id < {last}",
            ]
        statements.append(
            f"ALTER TABLE dbo.in_{number} SWITCH TO dbo.{TABLE} PARTITION {partition}"
        )
    connection.execute("SET LOCK_TIMEOUT 5000; SET XACT_ABORT ON")
    for statement in (*statements, "COMMIT"):
        connection.execute(statement)
    return f"partition {partition} switched {what}"


def _created(name: str) -> list[str]:
    """Statements that create an empty table with the columns of the captured one."""
    return [
        f"SELECT TOP 0 * INTO dbo.{name} FROM dbo.{TABLE}",
        f"ALTER TABLE dbo.{name} ADD PRIMARY KEY (id)",
    ]
