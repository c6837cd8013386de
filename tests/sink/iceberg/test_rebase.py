"""Others compact a table, or change it, between a batch's staging and its publication."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from tailrace_sink.errors import LakeTaken
from tailrace_sink.iceberg.loaded_table import Snapshot
from tailrace_sink.iceberg.names import BRANCH, MAIN, TableId
from tailrace_sink.iceberg.publication import Publisher
from tailrace_sink.ports.writes import Published
from tests.sink.iceberg.conftest import CatalogServer, TwoTables, stamp
from tests.sink.iceberg.test_publication import FIRST, publish
from tests.sink.objects.proxy import Answer, Pass, Request

pytestmark = pytest.mark.spark

SECOND = [{1: "A", 2: "", 3: "c"}, {11: "y"}]
AFTER_SECOND = [{1: "A", 3: "c"}, {10: "x", 11: "y"}]
COMMIT = "/transactions/commit"


def nothing(tables: TwoTables, name: TableId) -> None:
    """A commit without files."""
    tables.loaded(name).java.newFastAppend().commit()


def compaction(tables: TwoTables, name: TableId, where: str = "true") -> None:
    """A rewrite of all files with some rows."""
    rewrite = tables.spark.sql(
        f"CALL other.system.rewrite_data_files(table => '{name}', where => '{where}',"
        " options => map('rewrite-all', 'true'))"
    ).collect()
    assert rewrite[0]["rewritten_data_files_count"] > 0


def manifests(tables: TwoTables, name: TableId) -> None:
    """A rewrite of metadata alone."""
    tables.spark.sql(
        f"CALL other.system.rewrite_manifests(table => '{name}', use_caching => false)"
    )


def until_done(
    tables: TwoTables, sink: Publisher, batch: int, staged: dict[TableId, int]
) -> Published[TableId]:
    found = sink.publish(staged, stamp(sink, batch))
    assert found.is_done, found
    assert tables.heads() == [found.versions[name] for name in tables.names]
    return found


def batches(tables: TwoTables, name: TableId) -> list[int]:
    """The batches in the main branch, oldest first."""
    table = tables.loaded(name)
    stamps = [found.stamp for found in table.history(table.head(MAIN))]
    return [s.batch for s in stamps[::-1] if s is not None and s.batch is not None]


@pytest.mark.parametrize("foreign", [nothing, compaction, manifests])
def test_an_append_follows_whatever_moved_the_same_rows(
    tables: TwoTables, foreign: Callable[[TwoTables, TableId], None]
):
    sink = tables.sink(1)
    publish(tables, sink, 4, {1: "a"}, {10: "x"})
    first = publish(tables, sink, 5, *FIRST)
    texts = ("INSERT INTO {t} VALUES (7L, 'g', 6L)", "INSERT INTO {t} VALUES (8L, 'h', 6L)")
    orders, items = tables.names
    staged = {orders: tables.run(sink, 6, orders, texts[0])}
    staged[orders] = tables.run(sink, 6, orders, texts[1])  # a second snapshot of the batch
    staged[items] = tables.stage_one(sink, 6, items, {11: "y"})
    foreign(tables, orders)

    found = until_done(tables, sink, 6, staged)

    assert found.versions[orders] != staged[orders]
    assert found.versions[items] == staged[items], "it is where it was staged"
    assert tables.all_rows() == [{**FIRST[0], 7: "g", 8: "h"}, {**FIRST[1], 11: "y"}]
    assert batches(tables, orders) == [4, 5, 6, 6]
    head = tables.loaded(orders).snapshot(found.versions[orders])
    assert head is not None
    assert (head.operation, head.stamp) == ("append", stamp(sink, 6))
    assert tables.rows(orders, first[orders]) == FIRST[0]
    ids = tables.spark.sql(f"SELECT _row_id FROM {orders.sql('tailrace')}").collect()
    assert len({row[0] for row in ids}) == len(ids), "row ids are unique"
    # The files of what was staged first are those of the table, whoever removes its snapshot.
    java = tables.loaded(orders).java
    java.expireSnapshots().expireOlderThan(1 << 62).retainLast(1).commit()
    assert tables.loaded(orders).snapshot(staged[orders]) is None
    assert tables.rows(orders) == {**FIRST[0], 7: "g", 8: "h"}
    # The same again, as after a lost answer; and the next batch stands on it.
    assert sink.publish(found.versions, stamp(sink, 6)).is_done
    publish(tables, sink, 7, {1: "seven"})
    assert tables.rows(orders)[1] == "seven"


def test_rows_that_a_compaction_moved_are_staged_again_in_that_table_alone(tables: TwoTables):
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    orders, items = tables.names
    staged = tables.stage(sink, 6, *SECOND)
    compaction(tables, orders)

    found = sink.publish(staged, stamp(sink, 6))

    assert (found.is_done, found.rewritten, found.changed) == (False, [orders], {})
    assert tables.all_rows() == FIRST, "nothing is published"
    assert found.versions[items] == staged[items]
    sink.take(orders)
    staged[orders] = tables.stage_one(sink, 6, orders, SECOND[0])
    until_done(tables, sink, 6, staged)
    assert tables.all_rows() == AFTER_SECOND


def test_vectors_follow_if_their_files_are_as_they_were(tables: TwoTables):
    """Several snapshots of one batch: rows go, more rows of the same file go, a whole file goes."""
    sink = tables.sink(1)
    orders, items = tables.names
    for batch, rows in ((3, {1: "a", 2: "b", 3: "c"}), (4, {20: "t"}), (5, {30: "u", 31: "v"})):
        publish(tables, sink, batch, rows, {batch: "x"})
    tables.stage_one(sink, 6, orders, {1: "A", 4: "d"})
    tables.stage_one(sink, 6, orders, {2: "", 4: "", 30: "U"})
    head = tables.run(sink, 6, orders, "DELETE FROM {t} WHERE id = 20")
    compaction(tables, items)
    manifests(tables, orders)
    nothing(tables, orders)

    found = until_done(tables, sink, 6, {orders: head, items: tables.heads()[1] or 0})

    assert tables.rows(orders) == {1: "A", 3: "c", 30: "U", 31: "v"}
    assert batches(tables, orders) == [3, 4, 5, 6, 6, 6]
    vectors = tables.spark.sql(
        f"SELECT referenced_data_file FROM {orders.sql('tailrace')}.delete_files"
    ).collect()
    assert len(vectors) == len(set(vectors)) > 0, "a data file has one vector"
    assert tables.rows(orders, found.versions[orders]) == tables.rows(orders)


def test_a_compaction_of_other_files_refuses_no_vector(tables: TwoTables):
    sink = tables.sink(1)
    orders, items = tables.names
    for batch, rows in ((3, {1: "a", 2: "b"}), (4, {20: "t"}), (5, {21: "u"})):
        publish(tables, sink, batch, rows, {batch: "x"})
    head = tables.stage_one(sink, 6, orders, {1: "A"})
    compaction(tables, orders, "id >= 20")

    until_done(tables, sink, 6, {orders: head, items: tables.heads()[1] or 0})

    assert tables.rows(orders) == {1: "A", 2: "b", 20: "t", 21: "u"}


def inserts(tables: TwoTables, name: TableId) -> None:
    tables.foreign(name, "INSERT INTO {t} VALUES (99L, 'foreign', 0L)")


def drops(tables: TwoTables, name: TableId) -> None:
    tables.foreign(name, "DROP TABLE {t}")


def recreates(tables: TwoTables, name: TableId) -> None:
    drops(tables, name)
    tables.foreign(name, "CREATE TABLE {t} (id BIGINT, v STRING, pos BIGINT) USING iceberg")
    inserts(tables, name)


def replaces(tables: TwoTables, name: TableId) -> None:
    schema = "(id BIGINT, v STRING, pos BIGINT)"
    tables.foreign(name, f"CREATE OR REPLACE TABLE {{t}} {schema} USING iceberg")
    inserts(tables, name)


def drops_a_column(tables: TwoTables, name: TableId) -> None:
    compaction(tables, name)
    tables.foreign(name, "ALTER TABLE {t} DROP COLUMN v")


def rolls_back(tables: TwoTables, name: TableId) -> None:
    table = tables.loaded(name)
    past = [found.id for found in table.history(table.head(MAIN))]
    table.java.manageSnapshots().rollbackTo(past[1]).commit()


def deletes_after_a_compaction(tables: TwoTables, name: TableId) -> None:
    compaction(tables, name)
    tables.foreign(name, "DELETE FROM {t} WHERE id = 10")
    nothing(tables, name)


@pytest.mark.parametrize(
    ("foreign", "reason"),
    [
        (inserts, "snapshot \\d+: append"),
        (deletes_after_a_compaction, "snapshot \\d+: delete"),
        (drops, "it was dropped while"),
        (recreates, "it was dropped and created again"),
        (replaces, "is not below its newest snapshot"),
        (drops_a_column, "column v was dropped"),
        (rolls_back, "it was rolled back"),
    ],
)
def test_a_table_that_somebody_changed_meanwhile_stops_alone(
    tables: TwoTables, foreign: Callable[[TwoTables, TableId], None], reason: str
):
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    orders, items = tables.names
    staged = tables.stage(sink, 6, *SECOND)
    foreign(tables, items)

    found = sink.publish(staged, stamp(sink, 6))

    assert not found.is_done
    assert list(found.changed) == [items]
    assert re.search(reason, found.changed[items])
    assert tables.rows(orders) == FIRST[0], "nothing is published"
    assert sink.publish({orders: found.versions[orders]}, stamp(sink, 6)).is_done
    assert tables.rows(orders) == AFTER_SECOND[0]


def test_columns_of_others_are_theirs_meanwhile_too(tables: TwoTables):
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    orders = tables.names[0]
    staged = tables.stage(sink, 6, {7: "g"}, SECOND[1])
    tables.foreign(orders, "UPDATE {t} SET pos = pos + 1 WHERE id = 1")
    asked: list[TableId] = []

    def spares(name: TableId, _snapshot: Snapshot) -> bool:
        asked.append(name)
        return True

    assert sink.publish(staged, stamp(sink, 6), spares).is_done
    assert asked == [orders]
    assert tables.rows(orders) == {**FIRST[0], 7: "g"}


@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_after_the_look_is_adopted_at_the_next_one(
    server: CatalogServer, tables: TwoTables, times: int
):
    sink = tables.sink(1)
    publish(tables, sink, 5, *FIRST)
    orders = tables.names[0]
    staged = tables.stage(sink, 6, {7: "g"}, SECOND[1])
    left = [times]

    def in_between(request: Request, pass_on: Pass) -> Answer:
        if request.path.endswith(COMMIT) and left[0] > 0:
            left[0] -= 1
            nothing(tables, orders)
        return pass_on()

    server.proxy.rule = in_between
    for _ in range(times):
        found = sink.publish(staged, stamp(sink, 6))
        assert not found.is_done
        assert not found.changed
        assert not found.rewritten
        assert tables.all_rows() == FIRST
        staged = dict(found.versions)
    until_done(tables, sink, 6, staged)
    assert tables.all_rows() == [{**FIRST[0], 7: "g"}, AFTER_SECOND[1]]


def test_a_sink_that_was_replaced_rebases_nothing(tables: TwoTables):
    older = tables.sink(1)
    publish(tables, older, 5, *FIRST)
    staged = tables.stage(older, 6, {7: "zombie"}, {17: "zombie"})
    newer = tables.sink(2)
    mine = tables.stage(newer, 6, *SECOND)
    nothing(tables, tables.names[0])

    with pytest.raises(LakeTaken):
        older.publish(staged, stamp(older, 6))
    assert tables.loaded(tables.names[0]).head(BRANCH) == mine[tables.names[0]]
    until_done(tables, newer, 6, mine)
    assert tables.all_rows() == AFTER_SECOND


@pytest.mark.slow("random commits of two writers, about a minute")
def test_random_commits_of_two_writers(tables: TwoTables):
    """After each batch the table has the rows of a dictionary, whoever moved them meanwhile."""
    chance, sink = random.Random(7), tables.sink(1)
    orders, expected = tables.names[0], dict[int, str]()
    ways = {"rebased": 0, "staged again": 0}
    for batch in range(5, 17):
        before = dict(expected)
        statements = []
        for _ in range(chance.randint(1, 2)):
            rows = {chance.randrange(12): f"b{batch}" for _ in range(chance.randint(1, 4))}
            if chance.random() < 0.3:
                rows = dict.fromkeys(rows, "")
            if chance.random() < 0.4:
                rows = {100 * batch + key: f"n{batch}" for key in rows}
            statements.append(rows)
        while True:
            for number, rows in enumerate(statements):
                if number and chance.random() < 0.5 and before:
                    chance.choice([nothing, compaction, manifests])(tables, orders)
                staged = tables.stage_one(sink, batch, orders, rows)
            if before and chance.random() < 0.6:
                chance.choice([nothing, compaction, manifests])(tables, orders)
            found = sink.publish({orders: staged}, stamp(sink, batch))
            assert not found.changed
            if found.is_done:
                ways["rebased"] += found.versions[orders] != staged
                break
            assert found.rewritten == [orders]
            ways["staged again"] += 1
            sink.take(orders)
        for rows in statements:
            expected |= rows
        expected = {key: text for key, text in expected.items() if text}
        assert tables.rows(orders) == expected, batch
        assert tables.loaded(orders).head(BRANCH) == found.versions[orders]
    assert all(ways.values()), ways
