"""At the end of the demo: do change tables, topics and the data set's own figures agree?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.demo.compare import TopicComparison, compare_positions
from tailrace.demo.flights import Figures
from tailrace_schemas.position.change_position import ChangePosition

if TYPE_CHECKING:
    import pyodbc
    from pyspark.sql import SparkSession

    from tailrace.demo.change_tables import ChangeTables
    from tailrace.reading.topics import Event

PATCH = "patch"
OPERATIONS = ("c", "u", "d", "r", PATCH)
"""Of events; those of a patch are an operation of their own."""


@dataclass(slots=True)
class TopicFacts:
    """What was read from the topics, table by table."""

    positions: dict[str, list[ChangePosition]] = field(default_factory=lambda: defaultdict(list))
    operations: dict[str, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: dict.fromkeys(OPERATIONS, 0))
    )
    commits: list[tuple[str, int]] = field(default_factory=list)
    """(commit LSN, commit time in ms) of every streamed change."""
    patches: list[Mapping[str, Any]] = field(default_factory=list)
    """Envelopes of rows that were re-read: no change of the source."""

    @property
    def events_total(self) -> int:
        """Events without tombstones."""
        return sum(sum(counts.values()) for counts in self.operations.values())


def gather(events: Iterable[Event]) -> TopicFacts:
    """Read the topics' events once."""
    facts = TopicFacts()
    for event in events:
        if event.envelope is None:
            continue
        table = event.topic.rsplit(".", 1)[1]
        operation, source = event.envelope["op"], event.envelope["source"]
        if source["snapshot"] == PATCH:
            facts.operations[table][PATCH] += 1
            facts.patches.append(event.envelope)
            continue
        facts.operations[table][operation] += 1
        facts.positions[table].append(event.position)
        if operation != "r":
            facts.commits.append((source["commit_lsn"], source["ts_ms"]))
    return facts


def check_topics(
    connection: pyodbc.Connection, change_tables: ChangeTables, facts: TopicFacts
) -> list[TopicComparison]:
    """Every change row of every change table is in its topic exactly once, by position."""
    return [
        compare_positions(table, change_tables.positions(connection, table), facts.positions[table])
        for table in change_tables.tables
    ]


def check_figures(
    spark: SparkSession,
    flights: tuple[str, int],
    facts: TopicFacts,
    expected: Figures,
    gates: int,
) -> list[tuple[str, object, object]]:
    """(figure, data set, lake) of each of the data set's own figures, and of the gates."""
    path, version = flights
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    row = frame.selectExpr(
        "count(*) AS flown",
        "avg(dep_delay) AS departure",
        "avg(arr_delay) AS arrival",
        "count(gate) AS gates",
    ).first()
    if row is None:
        raise ValueError(f"{path} gave no figures")
    operations = facts.operations["flights"]
    return [
        ("flights scheduled", expected.scheduled, operations["c"]),
        ("flights cancelled", expected.cancelled, operations["d"]),
        ("flights flown", expected.flown, row["flown"]),
        ("of them in dbo.flights, by its name", expected.flown, spark.table("dbo.flights").count()),
        ("of them from a gate (the new column)", gates, row["gates"]),
        (
            "mean departure delay, min",
            _rounded(expected.mean_departure_delay),
            _rounded(row["departure"]),
        ),
        (
            "mean arrival delay, min",
            _rounded(expected.mean_arrival_delay),
            _rounded(row["arrival"]),
        ),
    ]


def _rounded(value: float) -> float:
    return round(value, 6)
