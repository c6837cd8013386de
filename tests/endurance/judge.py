"""What is wrong with the topics, given everything that was captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tailrace.audit.audit import audit
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_service.registry.client import SchemaRegistry
from tests.endurance.source import DATABASE, TABLES, Source
from tests.endurance.world import World
from tests.pipeline.conftest import Topics
from tests.pipeline.daemon.chaos import is_in_order, names_of, rows_of
from tests.sink.lake_rows import query_delta

Span = tuple[Lsn, Lsn]
"""(after, up to]"""


@dataclass
class Verdict:
    """What was found.

    Attributes:
        events: change events that were published.
        snapshots: how often a table was named as not being part of the cut, by table.
        problems: what is wrong; none is what one hopes for.
    """

    events: int = 0
    snapshots: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def compare(self, what: str, rows: set[Any], of_source: set[Any]) -> None:
        """Note rows that are not those of the source."""
        if rows != of_source:
            more, less = rows - of_source, of_source - rows
            self.problems.append(
                f"{what}: {len(more)} rows that the source lacks, {len(less)} that only it has:"
                f" {sorted(map(str, more))[:3]} {sorted(map(str, less))[:3]}"
            )


def judge(source: Source, topics: Topics) -> Verdict:
    """Compare the topics with the source.

    Args:
        source: everything is captured, and nothing is written any more.
        topics: everything is published.
    """
    verdict = Verdict()
    records = topics.progress()
    for before, after in pairwise(records):
        if after["after_lsn"] != before["through_lsn"]:
            verdict.problems.append(f"gap between progress records: {before} {after}")
    begin = Lsn.parse(records[0]["after_lsn"])
    for table in TABLES:
        named = list(_named(records, table))
        verdict.snapshots[table] = len(named)
        excused = [(Lsn.ZERO, begin), *named]
        _judge_table(source, topics, table, excused, _whole_from(records, table), verdict)
    with SchemaRegistry(topics.registry_url) as registry:
        found = audit(topics.bootstrap, topics.names, registry)
    verdict.problems += [f"audit: {problem}" for problem in found.problems.texts]
    return verdict


def _named(records: list[dict[str, Any]], table: str) -> Iterator[Span]:
    """The spans in which a table was not part of the cut."""
    begin: Lsn | None = None
    for record in records:
        is_named = _is_named(record, table)
        if is_named and begin is None:
            begin = Lsn.parse(record["after_lsn"])
        elif not is_named and begin is not None:
            yield begin, Lsn.parse(record["after_lsn"])
            begin = None
    if begin is not None:
        yield begin, Lsn.MAX


def _is_named(record: dict[str, Any], table: str) -> bool:
    return any(topic.endswith(f".{table}") for topic in record["snapshotting"])


def _whole_from(records: list[dict[str, Any]], table: str) -> dict[int, int]:
    """The first offset of each partition since the table was last named anew."""
    first: dict[int, int] = {}
    was_named = False
    for record in records:
        is_named = _is_named(record, table)
        if is_named and not was_named:
            first.clear()
        was_named = is_named
        for part in record["partitions"]:
            if part["topic"].endswith(f".{table}"):
                first.setdefault(part["partition"], part["first_offset"])
    return first


def _judge_table(
    source: Source,
    topics: Topics,
    table: str,
    excused: list[Span],
    whole_from: dict[int, int],
    verdict: Verdict,
) -> None:
    events = [event for event in topics.events(DATABASE, table) if event.envelope is not None]
    changes = [event for event in events if event.envelope and event.envelope["op"] != "r"]
    verdict.events += len(changes)
    counts = Counter(event.position for event in changes)
    twice = [position for position, count in counts.items() if count > 1]
    missing = _outside(source.captured[table] - counts.keys(), excused)
    unknown = counts.keys() - source.captured[table]
    for what, positions in (("twice", twice), ("missing", missing), ("unknown", unknown)):
        if positions:
            shown = ", ".join(str(position) for position in sorted(positions)[:5])
            verdict.problems.append(f"{table}: {len(positions)} changes {what}: {shown}")
    if not is_in_order(changes):
        verdict.problems.append(f"{table}: changes out of order")
    # A subscriber who applies the events since the last naming has the source's keys and values.
    since = [e for e in events if e.offset >= whole_from.get(e.partition, e.offset + 1)]
    verdict.compare(f"topic of {table}", set(rows_of(since, table).values()), source.state(table))


def judge_lake(source: Source, world: World, verdict: Verdict) -> None:
    """Compare the lake's newest cut with the source."""
    cut = world.commits.read()[-1]
    verdict.problems += [f"lake: {topic} is stopped: {why}" for topic, why in cut.stopped.items()]
    for table in TABLES:
        path = f"{DATABASE}/dbo/{table}"
        if path not in cut.tables:
            verdict.problems.append(f"lake: {table} is not part of the cut")
            continue
        query = f"SELECT {', '.join(names_of(table))} FROM t"
        rows = query_delta(f"{world.lake}/{path}", query, cut.tables[path])
        if len(rows) != len(found := {tuple(row.values()) for row in rows}):
            verdict.problems.append(f"lake: {table} has rows twice")
        verdict.compare(f"lake: {table}", found, source.state(table))


def _outside(positions: set[ChangePosition], excused: list[Span]) -> set[ChangePosition]:
    return {
        position
        for position in positions
        if not any(after < position.commit_lsn <= up_to for after, up_to in excused)
    }
