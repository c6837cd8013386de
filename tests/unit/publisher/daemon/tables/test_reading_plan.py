"""What is kept of where tables are read: it is what would be worked out anew for each LSN."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import PublishedTable, reading_of
from tailrace_publisher.daemon.tables.reading_plan import ReadingPlan
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_publisher.source.log.probe import PROBE_INSTANCES, Probe
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

LAST: Final = 12


def at(number: int) -> Lsn:
    return Lsn(1, number, 0)


def instance(table: TableName, number: int, start: int) -> CaptureInstance:
    return CaptureInstance(
        name=f"{table.table}_{number}",
        table=table,
        low_watermark=at(start),
        create_date=datetime.fromisoformat("2026-01-01") + timedelta(minutes=number),
        object_id=1000 * number + int.from_bytes(table.table.encode()) % 1_000_003,
        source_object_id=1,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=(),
        key=(),
        identity=(),
    )


@st.composite
def tables(draw: st.DrawFn) -> list[PublishedTable]:
    """Tables with one or two instances, each with versions that begin anywhere."""
    lsns = st.integers(1, LAST)
    found = []
    for name in "abc"[: draw(st.integers(0, 3))]:
        table = TableName("shop", "dbo", name)
        instances = [instance(table, n, draw(lsns)) for n in range(draw(st.integers(1, 2)))]
        versions = {
            i.name: tuple(
                TableSchema(table, i.name, at(number), ())
                for number in sorted(draw(st.sets(lsns, min_size=1, max_size=3)))
            )
            for i in instances[: draw(st.integers(0, len(instances)))]
        }
        covers = {i.name: at(draw(lsns)) for i in instances}
        found.append(PublishedTable(table, TableInstances(instances), versions, covers))
    return found


@given(tables(), st.lists(st.integers(1, LAST + 1), min_size=1))
def test_it_is_what_is_worked_out_for_each_lsn(found: list[PublishedTable], asked: list[int]):
    plan = ReadingPlan(found, found)
    for number in asked:
        expected = [reading_of(table, at(number)) for table in found]
        assert list(plan.at(at(number)).all) == [r for r in expected if r is not None]


@given(tables(), st.integers(1, LAST + 1))
def test_windows_end_at_those_that_are_to_come(found: list[PublishedTable], first: int):
    plan = ReadingPlan(found[:1], found)
    versions = [v.schema_lsn for t in found for vs in t.versions.values() for v in vs]
    newer = [
        table.covers[name] for table in found if len(table.versions) > 1 for name in table.versions
    ]
    assert plan.schema_lsns(at(first)) == sorted(lsn for lsn in versions if lsn >= at(first))
    assert plan.covers_from(at(first)) == sorted(lsn for lsn in newer if lsn >= at(first))


def test_the_same_readings_are_given_again_while_they_are_the_same():
    table = TableName("shop", "dbo", "a")
    one, two = instance(table, 1, 1), instance(table, 2, 5)
    versions = {i.name: (TableSchema(table, i.name, at(1), ()),) for i in (one, two)}
    covers = {one.name: at(1), two.name: at(5)}
    published = PublishedTable(table, TableInstances((one, two)), versions, covers)
    plan = ReadingPlan([published], [published])

    assert plan.at(at(5)) is plan.at(at(2))
    assert plan.at(at(6)) is plan.at(at(9))
    assert [r.instance.name for r in (*plan.at(at(5)).all, *plan.at(at(6)).all)] == ["a_1", "a_2"]


def test_a_probe_has_a_statement_for_a_hundred_instances():
    instances = [instance(TableName("shop", "dbo", f"t{n}"), 0, 1) for n in range(250)]
    probe = Probe.of(instances)
    assert len(probe.statements) == -(-250 // PROBE_INSTANCES)
    assert sum(text.count("WHERE EXISTS") for text in probe.statements) == 250
    assert probe == Probe.of(reversed(instances))
