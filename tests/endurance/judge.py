"""What is wrong with the topics, given everything that was captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tailrace.audit.audit import audit
from tailrace.reading.topics import Event
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition
from tailrace_schemas.registry import SchemaRegistry
from tests.endurance.source import DATABASE, Source
from tests.pipeline.chaos import TABLES, is_in_order, names_of, rows_of
from tests.pipeline.conftest import Topics

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
        _judge_table(source, topics, table, [(Lsn.ZERO, begin), *named], verdict)
    with SchemaRegistry(topics.registry_url) as registry:
        found = audit(topics.bootstrap, topics.names, registry)
    verdict.problems += [f"audit: {problem}" for problem in found.problems.texts]
    return verdict


def _named(records: list[dict[str, Any]], table: str) -> Iterator[Span]:
    """The spans in which a table was not part of the cut."""
    begin: Lsn | None = None
    for record in records:
        is_named = any(topic.endswith(f".{table}") for topic in record["snapshotting"])
        if is_named and begin is None:
            begin = Lsn.parse(record["after_lsn"])
        elif not is_named and begin is not None:
            yield begin, Lsn.parse(record["after_lsn"])
            begin = None
    if begin is not None:
        yield begin, Lsn.MAX


def _judge_table(
    source: Source, topics: Topics, table: str, excused: list[Span], verdict: Verdict
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
    _judge_state(source, events, table, excused[-1][0], verdict)


def _judge_state(
    source: Source, events: list[Event], table: str, whole_from: Lsn, verdict: Verdict
) -> None:
    """Whoever applies the events behind the last naming has the source's keys and values."""
    behind = [event for event in events if event.position.commit_lsn >= whole_from]
    applied = set(rows_of(behind, table).values())
    found = source.rows(f"SELECT {', '.join(names_of(table))} FROM dbo.{table}")
    if applied != found:
        more, less = applied - found, found - applied
        verdict.problems.append(
            f"{table}: {len(more)} rows that the source has not, {len(less)} that it has only"
        )


def _outside(positions: set[ChangePosition], excused: list[Span]) -> set[ChangePosition]:
    return {
        position
        for position in positions
        if not any(after < position.commit_lsn <= up_to for after, up_to in excused)
    }
