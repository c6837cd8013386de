"""A cut becomes visible in all tables at once, or in none: faults at every step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace_sink.errors import (
    ApplyFailed,
    CatalogUnavailable,
    CatalogUnsafe,
    ForeignCommit,
    LakeTaken,
)
from tailrace_sink.iceberg.catalog import Committed, IcebergCatalog, Outcome
from tailrace_sink.iceberg.loaded_table import Change
from tailrace_sink.iceberg.names import BRANCH, MAIN, TableId
from tailrace_sink.iceberg.publication import Publisher
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.options.iceberg_options import Commits, IcebergOptions
from tests.sink.iceberg.conftest import CatalogServer, Rows, TwoTables, new_tables, stamp
from tests.sink.iceberg.table_by_table import COMMIT, DONE, commit_each
from tests.sink.objects.proxy import Answer, Pass, Request

pytestmark = pytest.mark.spark

BROKEN = Answer(500, {"Content-Type": "application/json"}, b'{"error":{"message":"x","code":500}}')
FIRST = [{1: "a", 2: "b"}, {10: "x"}]
SECOND = [{1: "A", 2: "", 3: "c"}, {11: "y"}]
AFTER_SECOND = [{1: "A", 3: "c"}, {10: "x", 11: "y"}]


def publish(tables: TwoTables, sink: Publisher, batch: int, *rows: Rows) -> dict[TableId, int]:
    staged = tables.stage(sink, batch, *rows)
    assert sink.publish(staged, stamp(sink, batch)).is_done
    return staged


def test_a_deletion_of_whole_files_is_the_batchs_own(tables: TwoTables):
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    statements = ("DELETE FROM {t}", "DELETE FROM {t} WHERE id = 10")
    deletions = zip(tables.names, statements, strict=True)
    staged = {name: tables.run(sink, 6, name, statement) for name, statement in deletions}
    sink.publish(staged, stamp(sink, 6))
    assert tables.all_rows() == [{}, {}]


def test_a_cut_is_one_commit_over_all_tables(server: CatalogServer, tables: TwoTables):
    sink = tables.sink(1)
    first = publish(tables, sink, 5, *FIRST)
    staged = tables.stage(sink, 6, *SECOND)

    assert tables.all_rows() == FIRST  # readers see nothing of what is staged
    server.proxy.seen.clear()
    sink.publish(staged, stamp(sink, 6))

    assert [r.path for r in server.proxy.seen if r.method == "POST"] == [
        next(r.path for r in server.proxy.seen if r.path.endswith(COMMIT))
    ]
    assert tables.all_rows() == AFTER_SECOND
    assert [tables.rows(name, first[name]) for name in tables.names] == FIRST
    for name, version in staged.items():
        table = tables.loaded(name)
        assert table.head(MAIN) == version
        found = table.snapshot(version)
        assert found is not None
        assert found.stamp == stamp(sink, 6)
    orders = tables.loaded(tables.names[0])
    assert set(orders.java.schema().identifierFieldNames()) == {"id"}


@pytest.mark.parametrize("at", [0, 1])
def test_rows_that_somebody_else_added_before_the_commit_refuse_that_table_alone(
    server: CatalogServer, tables: TwoTables, at: int
):
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    staged = tables.stage(sink, 6, *SECOND)
    others = tables.names[at]

    def in_between(request: Request, pass_on: Pass) -> Answer:
        if request.path.endswith(COMMIT):  # after the sink has looked, before the catalog does
            tables.foreign(others, "INSERT INTO {t} VALUES (99L, 'foreign', 0L)")
        return pass_on()

    server.proxy.rule = in_between
    found = sink.publish(staged, stamp(sink, 6))

    assert not found.is_done
    assert list(found.changed) == [others]
    assert re.fullmatch(r"snapshot \d+: append", found.changed[others])
    expected = [dict(rows) for rows in FIRST]
    expected[at][99] = "foreign"
    assert tables.all_rows() == expected
    assert sink.publish(staged, stamp(sink, 6)).changed == found.changed  # asked again

    server.proxy.rule = lambda _request, pass_on: pass_on()
    del staged[others]
    assert sink.publish(staged, stamp(sink, 6)).is_done
    expected[1 - at] = AFTER_SECOND[1 - at]
    assert tables.all_rows() == expected


def test_an_answer_that_all_is_done_is_not_believed(server: CatalogServer, tables: TwoTables):
    """Iceberg's own server says so although a foreign commit was in the way of one table."""
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    staged = tables.stage(sink, 6, *SECOND)

    def in_between(request: Request, pass_on: Pass) -> Answer:
        if not request.path.endswith(COMMIT):
            return pass_on()
        tables.foreign(tables.names[1], "INSERT INTO {t} VALUES (99L, 'foreign', 0L)")
        return commit_each(server, request, to_the_end=True)

    server.proxy.rule = in_between
    found = sink.publish(staged, stamp(sink, 6))
    assert (found.is_done, list(found.changed)) == (False, [tables.names[1]])

    server.proxy.rule = lambda _request, pass_on: pass_on()
    del staged[tables.names[1]]
    assert sink.publish(staged, stamp(sink, 6)).is_done
    assert tables.all_rows() == [AFTER_SECOND[0], FIRST[1] | {99: "foreign"}]


def test_an_answer_that_all_is_done_and_nothing_was_is_told(
    server: CatalogServer, tables: TwoTables
):
    sink = tables.sink(1)
    staged = tables.stage(sink, 5, *FIRST)
    server.proxy.rule = lambda request, pass_on: (
        DONE if request.path.endswith(COMMIT) else pass_on()
    )

    with pytest.raises(CatalogUnsafe, match="said that a commit is done, and did not move"):
        sink.publish(staged, stamp(sink, 5))


def lost(request: Request, pass_on: Pass) -> Answer | None:
    """The catalog commits, and its answer does not arrive."""
    answer = pass_on()
    return None if request.path.endswith(COMMIT) else answer


def broken_after(request: Request, pass_on: Pass) -> Answer:
    answer = pass_on()
    return BROKEN if request.path.endswith(COMMIT) else answer


def never_sent(request: Request, pass_on: Pass) -> Answer | None:
    return None if request.path.endswith(COMMIT) else pass_on()


@pytest.mark.parametrize("rule", [lost, broken_after])
def test_a_publication_whose_answer_was_lost_is_recognized(
    server: CatalogServer, tables: TwoTables, rule: Callable[[Request, Pass], Answer | None]
):
    sink = tables.sink(1)
    staged = tables.stage(sink, 5, *FIRST)
    server.proxy.rule = rule

    sink.publish(staged, stamp(sink, 5))

    assert tables.heads() == list(staged.values())
    assert tables.all_rows() == FIRST


def test_a_request_that_was_lost_is_reported_and_asked_again(
    server: CatalogServer, tables: TwoTables
):
    sink = tables.sink(1)
    staged = tables.stage(sink, 5, *FIRST)
    server.proxy.rule = never_sent
    with pytest.raises(CatalogUnavailable, match="no answer to publishing batch 5"):
        sink.publish(staged, stamp(sink, 5))
    assert tables.all_rows() == [{}, {}]

    server.proxy.rule = lambda _request, pass_on: pass_on()
    sink.publish(staged, stamp(sink, 5))
    sink.publish(staged, stamp(sink, 5))  # and once more: nothing happens

    assert tables.all_rows() == FIRST


def test_a_late_publication_is_not_published_twice(server: CatalogServer, tables: TwoTables):
    """The request of a first attempt arrives after the batch was staged again."""
    sink = tables.sink(1)
    first = tables.stage(sink, 5, *FIRST)
    kept: list[Pass] = []

    def late(request: Request, pass_on: Pass) -> Answer | None:
        if request.path.endswith(COMMIT):
            kept.append(pass_on)
            return None
        return pass_on()

    server.proxy.rule = late
    with pytest.raises(CatalogUnavailable):
        sink.publish(first, stamp(sink, 5))
    server.proxy.rule = lambda _request, pass_on: pass_on()
    for name in tables.names:
        sink.take(name)
    again = tables.stage(sink, 5, *FIRST)
    assert kept[0]().status == 204
    with pytest.raises(ApplyFailed, match="an earlier attempt"):
        sink.publish(again, stamp(sink, 5))

    for name in tables.names:
        sink.take(name)
    publish(tables, sink, 5, *FIRST)

    assert tables.all_rows() == FIRST


def test_a_kill_between_stage_and_publish_leaves_nothing_of_the_batch(tables: TwoTables):
    publish(tables, tables.sink(1), 5, *FIRST)
    killed = tables.sink(2)
    tables.stage(killed, 6, {1: "half", 7: "half"})

    restarted = tables.sink(3)
    assert [tables.loaded(n).head(BRANCH) for n in tables.names] == tables.heads()
    assert tables.all_rows() == FIRST
    publish(tables, restarted, 6, *SECOND)

    assert tables.all_rows() == AFTER_SECOND


def test_a_kill_between_publish_and_its_answer_repeats_nothing(tables: TwoTables):
    killed = tables.sink(1)
    publish(tables, killed, 5, *FIRST)

    restarted = tables.sink(2)
    publish(tables, restarted, 5, *FIRST)  # its position guard lets no row in again

    assert tables.all_rows() == FIRST
    publish(tables, restarted, 6, *SECOND)
    assert tables.all_rows() == AFTER_SECOND


def test_a_published_batch_that_is_applied_again_may_change_some_tables(tables: TwoTables):
    """Its commit row failed. A whole snapshot is written again, what was appended is not."""
    sink = tables.sink(1)
    first, second = publish(tables, sink, 5, *FIRST).items()
    for name in tables.names:
        sink.take(name)

    head = tables.stage_one(sink, 5, second[0], SECOND[1], "again")
    sink.publish({first[0]: first[1], second[0]: head}, stamp(sink, 5, "again"))

    assert tables.all_rows() == [FIRST[0], AFTER_SECOND[1]]


def test_a_sink_that_was_replaced_publishes_nothing(tables: TwoTables):
    older = tables.sink(1)
    staged = tables.stage(older, 5, {1: "old"}, {10: "old"})
    newer = tables.sink(2)

    with pytest.raises(LakeTaken):
        older.publish(staged, stamp(older, 5))
    with pytest.raises(LakeTaken):
        older.take(tables.names[0])
    assert tables.all_rows() == [{}, {}]

    # It wakes up once more, and stages on top of its successor's batch.
    mine = tables.stage(newer, 5, *FIRST)
    tables.stage(older, 5, {1: "zombie"}, {10: "zombie"})
    newer.publish(mine, stamp(newer, 5))
    assert tables.all_rows() == FIRST


def test_what_an_older_sink_staged_below_a_batch_is_refused(tables: TwoTables):
    older = tables.sink(1)
    newer = tables.sink(2)
    tables.stage(older, 5, {1: "zombie"})
    staged = tables.stage(newer, 5, *FIRST)

    with pytest.raises(ForeignCommit, match=f"branch {BRANCH}"):
        newer.publish(staged, stamp(newer, 5))

    for name in tables.names:
        newer.take(name)
    publish(tables, newer, 5, *FIRST)
    assert tables.all_rows() == FIRST


def test_a_lake_is_taken_while_its_older_sink_publishes(server: CatalogServer, tables: TwoTables):
    """The newer sink has one table when the older one's request arrives: neither table moves."""
    older = tables.sink(1)
    staged = tables.stage(older, 5, *FIRST)

    def in_between(request: Request, pass_on: Pass) -> Answer:
        if request.path.endswith(COMMIT):
            server.proxy.rule = lambda _request, pass_on: pass_on()
            tables.newest = 2
            newer = TwoTables(tables.spark, tables.catalog, tables.names[1:], 2)
            newer.sink(2)
        return pass_on()

    server.proxy.rule = in_between
    with pytest.raises(LakeTaken):
        older.publish(staged, stamp(older, 5))
    assert tables.all_rows() == [{}, {}]


def test_a_schema_change_between_stage_and_publish_keeps_all_values(tables: TwoTables):
    """Schemas belong to the table: the safe order is alter, stage, publish; others lose nothing."""
    sink = tables.sink(1)
    orders = tables.names[0]
    name = orders.sql("tailrace")
    first = publish(tables, sink, 5, *FIRST)
    staged = tables.stage(sink, 6, *SECOND)
    for change in (
        "RENAME COLUMN v TO w",
        "ADD COLUMNS (extra STRING)",
        "RENAME COLUMN extra TO v",
    ):
        tables.spark.sql(f"ALTER TABLE {name} {change}")

    sink.publish(staged, stamp(sink, 6))

    found = tables.spark.sql(f"SELECT id, w, v FROM {name}").collect()
    assert {row["id"]: (row["w"], row["v"]) for row in found} == {1: ("A", None), 3: ("c", None)}
    # A version is read with the columns that it had.
    assert tables.rows(orders, first[orders]) == FIRST[0]
    assert tables.rows(orders, staged[orders]) == AFTER_SECOND[0]

    # In the safe order readers see the new column empty until the cut with its values.
    tables.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (late BIGINT)")
    assert {r[0] for r in tables.spark.sql(f"SELECT late FROM {name}").collect()} == {None}


def test_a_column_dropped_between_stage_and_publish_stops_its_table(tables: TwoTables):
    sink = tables.sink(1)
    staged = tables.stage(sink, 5, *FIRST)
    tables.foreign(tables.names[1], "ALTER TABLE {t} DROP COLUMN v")

    found = sink.publish(staged, stamp(sink, 5))

    assert found.changed == {tables.names[1]: "column v was dropped while a batch was staged"}
    assert tables.rows(tables.names[0]) == {}


def test_without_atomic_commits_tables_follow_one_after_the_other(
    server: CatalogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A catalog of files, by option: a crash in between is finished by the next attempt."""
    set_catalog(server.spark, IcebergOptions.load({"warehouse": str(tmp_path), "name": "files"}))
    tables = new_tables(server.spark, IcebergCatalog(server.spark, "files"), "")
    sink = tables.sink(1, Commits.EACH_TABLE)
    staged = tables.stage(sink, 5, *FIRST)
    commit_one, asked = IcebergCatalog.commit_one, []

    def second_fails(catalog: IcebergCatalog, change: Change) -> Committed:
        asked.append(change.table)
        if len(asked) == 2:
            return Committed(Outcome.UNKNOWN, "killed")
        return commit_one(catalog, change)

    monkeypatch.setattr(IcebergCatalog, "commit_one", second_fails)
    with pytest.raises(CatalogUnavailable):
        sink.publish(staged, stamp(sink, 5))
    assert tables.all_rows() == [FIRST[0], {}]

    sink.publish(staged, stamp(sink, 5))

    assert tables.all_rows() == FIRST
    assert asked == [*tables.names, tables.names[1]]


def test_every_snapshot_says_which_cut_it_is(tables: TwoTables):
    sink = tables.sink(1)
    for batch in (5, 6):
        publish(tables, sink, batch, *(FIRST if batch == 5 else SECOND))
    summaries = tables.spark.sql(
        f"SELECT summary FROM {tables.names[0].sql('tailrace')}.snapshots ORDER BY committed_at"
    ).collect()
    found = [json.loads(json.dumps(row["summary"])) for row in summaries]
    assert [s.get("tailrace.lsn") for s in found if "tailrace.lsn" in s] == ["lsn-5", "lsn-6"]
    assert {s["tailrace.epoch"] for s in found} == {"1"}
