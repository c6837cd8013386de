"""The middle of the demo's day, over a source, a publisher and topics of three flights."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyodbc
import pytest

from tailrace.demo import database, midday, verify
from tailrace.demo.change_tables import ChangeTables, instances_of
from tailrace.demo.flights import ARRIVE, DEPART, INSERT_FLIGHT, SourceTransaction, change_rows
from tailrace.demo.patched import check_patch
from tailrace.demo.replay import Replay, plan
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.test_kill import scanning
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

_AT = datetime(2013, 1, 1, 6)  # noqa: DTZ001 - local times, as in the data set
_FLOWN = (DEPART, (_AT, 0, 1))
_LANDS_LATER = (DEPART, (_AT, 5, 2))


def scheduled(flight: int) -> tuple[str, tuple[Any, ...]]:
    fixed = ("UA", flight, None, "EWR", "IAH", date(2013, 1, 1), _AT, 830, 1400)
    return INSERT_FLIGHT, (flight, *fixed)


def arrived(flight: int) -> tuple[str, tuple[Any, ...]]:
    return ARRIVE, (830, 0, 120, False, flight)


def test_at_noon_a_column_is_added_and_no_value_is_missing(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
):
    """Flight 1 is patched, flight 2 too or else its arrival brings the gate, flight 3 leaves."""
    monkeypatch.setattr(pyodbc, "native_uuid", True)  # as values, not as upper-case text
    source = pipe.source
    source.execute(database.TABLES[midday.TABLE])
    source.enable(midday.TABLE, supports_net_changes="1")
    kinds = [[scheduled(1), scheduled(2), scheduled(3)], [_FLOWN, arrived(1), _LANDS_LATER]]
    kinds += [[arrived(2)], [(DEPART, (_AT, 9, 3))]]
    day = midday.with_gates([SourceTransaction(_AT, "kind", tuple(each)) for each in kinds])
    change_tables = ChangeTables([midday.TABLE])
    connection = source.server.connect(source.name, autocommit=False)

    with Running(pipe.config(tables={"schema_change": "rotate"})) as publisher, scanning(source):
        publisher.until(lambda: pipe.is_caught_up(scan=False), "it has begun")
        work = Replay(
            connection,
            day.transactions,
            plan(day.transactions),
            {day.noon: lambda c, wait: midday.add_gates(c, day, change_tables, wait)},
        )
        with work.running(0):
            publisher.until(lambda: work.has_ended(0), "the day is over")
        assert work.failure is None
        publisher.until(lambda: bool(publisher.told("patch_finished")), "the gates are out")
        publisher.until(
            lambda: instances_of(source.connection, midday.TABLE) == ["dbo_flights_r1"], "it ends"
        )
        publisher.until(lambda: pipe.is_caught_up(scan=False), "everything is out")
    connection.close()

    facts = verify.gather(pipe.topics.events(source.name, midday.TABLE))
    whole_from = publisher.told("patch_finished")[0]["whole_from_lsn"]
    patch = check_patch(
        source.connection,
        instances_of(source.connection, midday.TABLE),
        facts.patches,
        day.left,
        (whole_from, whole_from),
        (midday.TABLE, midday.KEY),
    )
    (in_topic,) = verify.check_topics(source.connection, change_tables, facts)
    captured = change_tables.captured(source.connection)
    assert patch.equal, patch
    assert 1 in {event["after"]["flight_id"] for event in facts.patches}
    assert in_topic.equal, in_topic
    assert captured.change_rows == {midday.TABLE: change_rows(day.transactions)[midday.TABLE]}
    state = pipe.topics.state(source.name, midday.TABLE, midday.KEY)
    assert {key: row["gate"] for key, row in state.items()} == {1: "B02", 2: "C03", 3: "D04"}
