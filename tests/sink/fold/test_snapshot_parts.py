"""A snapshot of more rows than a batch takes: applied as it comes, then what is older goes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.fold.test_write_paths import ways
from tests.sink.intake.test_dead_letters import cut_short
from tests.sink.reading.test_as_of import rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow("each part of a snapshot is a batch of its own"),
]

KEY = column(1, "id", "int", key=1)
SMALL: dict[str, Any] = {"changes_per_batch": 5}
KINDS = {r"dbo\.t": ["mirror", "changelog", "history"]}


def a_table(source: Source, name: str = "t") -> SourceTable:
    return source.table(name, KEY, column(2, "v", "int"))


def filled(source: Source, numbers: Iterable[int]) -> SourceTable:
    """A table with a published row for each number."""
    table = a_table(source)
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in numbers))
    source.publish()
    return table


def chunk(source: Source, table: SourceTable, rows: Iterable[tuple[int, int]]) -> None:
    """Publish a chunk of a snapshot; the table is named."""
    fence = source.snapshot(table, [{"id": number, "v": v} for number, v in rows])
    source.publish(fence, snapshotting=[table])


def check_current(lake: Lake, table: SourceTable) -> None:
    """The current intervals are the source's rows, each once."""
    current = [row for row in lake.raw("t.history") if row["_cdc_is_current"]]
    assert sorted((row["id"], row["v"]) for row in current) == sorted(
        (row["id"], row["v"]) for row in table.rows.values()
    )


@pytest.mark.parametrize(
    ("delete_mode", "local_changes_max"),
    [
        ("hard", 5000),
        pytest.param(
            "hard",
            0,
            marks=pytest.mark.nightly(
                "the same in small batches; test_lost_changes.py ends a snapshot in large ones,"
                " test_passing_count.py has a history of them, and the test after the next parts"
            ),
        ),
        pytest.param(
            "soft",
            5000,
            marks=pytest.mark.nightly(
                "the same with hard deletes; test_cuts.py has a snapshot's missing rows with soft"
                " deletes"
            ),
        ),
    ],
)
def test_a_table_comes_back_in_parts_without_the_rows_that_went_unseen(
    source: Source, lake: Lake, delete_mode: str, local_changes_max: int
):
    options = {
        **SMALL,
        "delete_mode": delete_mode,
        "local_changes_max": local_changes_max,
        "kinds": KINDS,
    }
    table = filled(source, range(30))
    # Nobody follows it: 5 and 29 are deleted, 7 changes.
    for gone in (5, 29):
        del table.rows[(gone,)]
    source.publish(source.commit(), snapshotting=[table])
    chunk(source, table, [(n, n + 100 if n == 7 else n) for n in range(15) if n != 5])
    lake.catch_up(**options)
    assert {row["id"]: row["v"] for row in lake.rows("t")}[7] == 107, "it is applied as it comes"
    assert lake.commits()[-1]["tables"] == {}
    with pytest.raises(CutUnknown):
        read(lake.spark, f"{lake.path}/lake").as_of("latest").read(table.name)

    source.commit(
        lambda t: t.update(table, (2,), v=200),
        lambda t: t.delete(table, (3,)),
        lambda t: t.insert(table, id=50, v=50),
        lambda t: t.insert(table, id=5, v=55),  # an older 5 is still there
    )
    chunk(source, table, [(n, n) for n in range(15, 29)])
    source.commit(lambda t: t.update(table, (20,), v=0))
    source.publish()
    lake.log_only(**options)
    assert rows(read(lake.spark, f"{lake.path}/lake").as_of("latest"), table) == table.rows

    lake.catch_up(**options)
    kept = [row for row in lake.raw("t") if row["_cdc_op"] != "d"]
    assert Counter(row["id"] for row in kept) == Counter(key for (key,) in table.rows)
    assert {(row["id"],): {"id": row["id"], "v": row["v"]} for row in kept} == table.rows
    versions = {f"shop/dbo/t{companion}" for companion in ("", ".changes", ".history")}
    assert lake.commits()[-1]["tables"].keys() == versions
    check_current(lake, table)
    deleted = Counter(row["id"] for row in lake.raw("t.changes") if row["_cdc_op"] == "d")
    assert deleted == {3: 1, 29: 1}
    if delete_mode == "soft":
        gone_rows = {row["id"] for row in lake.raw("t") if row["_cdc_op"] == "d"}
        assert gone_rows == {3, 29}


def test_rows_of_the_very_lsn_of_the_naming_are_told_by_their_keys(source: Source, lake: Lake):
    """On an idle database the snapshot is read where the last change was."""
    options = {**SMALL, "kinds": KINDS}
    table = filled(source, range(12))
    at = Lsn.parse(source.through)
    del table.rows[(4,)]
    source.publish(source.through, snapshotting=[table])
    messages = [
        source.message(table, "r", None, {"id": n, "v": n}, ChangePosition.of_snapshot(at))
        for n in range(12)
        if n != 4
    ]
    source.publish(source.through, messages=messages, snapshotting=[table])
    lake.catch_up(**options)
    source.publish(source.commit())

    lake.catch_up(**options)
    assert lake.cut() == source.cut()
    assert [row["id"] for row in lake.raw("t.changes") if row["_cdc_op"] == "d"] == [4]
    check_current(lake, table)
    # The snapshot's equal rows start no interval; the row that it lacks ends at the cut.
    (ended,) = [row for row in lake.raw("t.history") if not row["_cdc_is_current"]]
    assert (ended["id"], ended["_cdc_valid_to_lsn"]) == (4, source.through)


def snapshot_of_an_idle_database(
    source: Source, lake: Lake, table: SourceTable, options: Mapping[str, Any]
) -> None:
    """Take a snapshot in two parts that are in Kafka alone, which loses the first one."""
    at = ChangePosition.of_snapshot(Lsn.parse(source.through))
    source.publish(source.through, snapshotting=[table])
    for first in (0, 10):
        messages = [
            source.message(table, "r", None, {"id": n, "v": n}, at)
            for n in range(first, first + 10)
            if (n,) in table.rows
        ]
        source.publish(source.through, messages=messages, snapshotting=[table])
        lake.catch_up(**options)
        source.topics.delete_records(table.topic, {0: source.topics.end_offset(table.topic)})
    source.publish(source.commit())
    lake.catch_up(**options)


def test_the_end_of_a_snapshot_does_not_need_what_kafka_has_lost_unless_old_rows_may_be_there(
    source: Source, lake: Lake
):
    options = {**SMALL, "bulk_changes": 1}
    table = a_table(source)
    for n in range(20):
        table.rows[(n,)] = {"id": n, "v": n}
    source.publish(source.commit())
    snapshot_of_an_idle_database(source, lake, table, options)
    assert lake.by_key(table) == table.rows
    assert lake.cut() == source.cut()

    del table.rows[(4,)]
    snapshot_of_an_idle_database(source, lake, table, options)
    assert lake.commits()[-1]["tables"] == {}
    assert "new snapshot" in json.loads(lake.commits()[-1]["stopped"])[table.topic]


def test_a_new_table_is_appended_part_by_part_while_keys_do_not_meet(source: Source, lake: Lake):
    options = {**SMALL, "local_changes_max": 0}
    table, mixed = a_table(source), a_table(source, "mixed")
    for first in (0, 10):
        for of in (table, mixed):
            numbers = range(first, first + 10) if of is table else range(first // 10, 20, 2)
            source.snapshot(of, [{"id": n, "v": n} for n in numbers])
        source.publish(str(source.next_lsn()), snapshotting=[table, mixed])
    source.publish(source.commit())
    lake.catch_up(**options)
    assert lake.cut() == source.cut()
    assert (ways(lake, "t"), ways(lake, "mixed")) == (["WRITE"] * 2, ["WRITE", "MERGE"])
    assert lake.commits()[-1]["tables"].keys() == {"shop/dbo/t", "shop/dbo/mixed"}


def test_parts_are_taken_once_whatever_dies(source: Source, lake: Lake):
    options = {**SMALL, "kinds": KINDS}
    table = filled(source, range(20))
    lake.catch_up(**options)
    for gone in (1, 11):
        del table.rows[(gone,)]
    source.publish(source.commit(), snapshotting=[table])

    def dies_at(step: str) -> None:
        def crash(now: str, _path: str) -> None:
            if now == step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lake.catch_up(crash, **options)

    chunk(source, table, [(n, -n) for n in range(10) if n != 1])
    dies_at("merged")
    source.commit(lambda t: t.insert(table, id=100, v=0))
    chunk(source, table, [(n, -n) for n in range(10, 20) if n != 11])
    source.commit(lambda t: t.delete(table, (2,)))
    source.publish()
    dies_at("finished")
    source.commit(lambda t: t.insert(table, id=500, v=0))
    source.publish()
    lake.catch_up(**options)

    assert lake.cut() == source.cut()
    counted = Counter((row["id"], row["_cdc_op"]) for row in lake.raw("t.changes"))
    assert set(counted.values()) == {1}
    assert {key for key, op in counted if op == "d"} == {1, 2, 11}
    check_current(lake, table)
    intervals = [(row["id"], row["_cdc_position"]) for row in lake.raw("t.history")]
    # Of the 18 rows that were read, 0 is as it was.
    assert len(intervals) == len(set(intervals)) == 20 + 17 + 2


def test_a_table_that_has_to_be_made_anew_waits_for_the_whole(source: Source, lake: Lake):
    table = filled(source, range(8))
    source.alter(table, KEY, column(2, "v", "date"))
    table.rows.clear()
    source.publish(source.commit(), snapshotting=[table])
    source.snapshot(table, [{"id": n, "v": 7} for n in range(6)])
    source.publish(str(source.next_lsn()), snapshotting=[table])
    lake.catch_up(**SMALL)
    assert lake.commits()[-1]["stopped"] == "{}"
    assert len(lake.rows("t")) == 8, "nothing of it is applied yet"
    source.snapshot(table, [{"id": n, "v": 7} for n in range(6, 12)])
    source.publish(str(source.next_lsn()), snapshotting=[table])
    source.publish(source.commit())
    lake.catch_up(**SMALL)
    assert len(lake.rows("t")) == 12
    assert lake.commits()[-1]["tables"].keys() == {"shop/dbo/t"}


def test_a_part_that_cannot_be_applied_stops_its_table_until_the_next_snapshot(
    source: Source, lake: Lake
):
    table = filled(source, range(4))
    source.publish(source.commit(), snapshotting=[table])
    chunk(source, table, [(n, n) for n in range(6)])
    fence = source.snapshot(table, [{"id": n, "v": n} for n in range(6, 12)])
    cut_short(source.pending[2])
    source.publish(fence, snapshotting=[table])
    chunk(source, table, [(n, n) for n in range(12, 18)])
    source.publish(source.commit())
    lake.catch_up(**SMALL)
    assert table.topic in lake.commits()[-1]["stopped"], "what is left of it is not the whole"
    assert lake.commits()[-1]["tables"] == {}

    for first in (0, 9):
        chunk(source, table, [(n, -n) for n in range(first, first + 9)])
    source.publish(source.commit())
    lake.catch_up(**SMALL)
    assert lake.commits()[-1]["stopped"] == "{}"
    assert lake.cut() == source.cut()
