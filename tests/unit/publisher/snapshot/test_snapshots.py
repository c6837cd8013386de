"""Chunks beside the stream: begun, compared with what it told, published in order, tried again.

The reading threads are tasks that the test runs when it wants; the clock is a number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from structlog.testing import capture_logs

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.errors import (
    PermissionMissing,
    SourceBusy,
    SourceError,
    SourceUnavailable,
    TableFailed,
)
from tailrace_publisher.options.snapshots import SnapshotConfig, SnapshotIsolation
from tailrace_publisher.snapshot.fence import FenceSource
from tailrace_publisher.snapshot.lanes import Lane
from tailrace_publisher.snapshot.pauses import Pauses
from tailrace_publisher.snapshot.snapshots import Snapshots
from tailrace_publisher.snapshot.table_reader import ChunkLimits
from tailrace_publisher.source.pages.page_size import PageLimit
from tests.unit.publisher.snapshot.beside_stream import (
    MEGABYTE,
    Beside,
    Fences,
    Tasks,
    expected,
    keys_of,
    one_table,
    page,
)
from tests.unit.publisher.snapshot.table_source import (
    START,
    TABLE,
    Row,
    TableSource,
    at,
    encoder_of,
    instance_of,
    pending,
)


def test_a_table_is_published_chunk_by_chunk():
    beside = one_table()
    beside.run()

    assert [len(part.rows) for part in beside.published] == [10, 10, 10, 5]
    assert keys_of(beside.published) == expected(beside, range(35))
    assert beside.published[-1].progress.rows == 35
    assert beside.snapshots.is_idle


def test_the_next_chunks_are_read_while_the_first_waits_for_its_fence():
    beside = one_table()
    beside.turn()
    beside.fences.log_end = at(0x20)
    for _ in range(4):
        beside.threads[0].run()
        assert not beside.turn()

    assert len(beside.opened[0].reads) >= 4, "all chunks are read before any fence is reached"
    beside.pass_fences()
    beside.run(turns=5)
    assert keys_of(beside.published) == expected(beside, range(35))


def test_nothing_is_begun_that_memory_has_no_room_for():
    beside = one_table(size_max=MEGABYTE)  # of one chunk
    beside.fences.log_end = at(0x20)
    beside.turn()
    for _ in range(4):
        beside.threads[0].run()
        beside.turn()
    assert len(beside.opened[0].reads) == 1

    beside.pass_fences()
    beside.run()
    assert keys_of(beside.published) == expected(beside, range(35))


def test_nothing_is_begun_while_the_stream_is_behind():
    beside = one_table()
    beside.turn(begins=False)
    assert not beside.threads[0].waiting
    beside.turn()
    assert beside.threads[0].waiting


def test_a_row_that_the_stream_told_of_since_its_chunk_began_is_left_to_its_events():
    beside = one_table()
    table = beside.tables["t"]
    beside.snapshots.observe(TABLE, page(table, 2))  # before: not kept
    beside.turn()
    beside.snapshots.observe(TABLE, page(table, 3, 12))
    beside.threads[0].run(2)
    beside.fences.log_end = at(0x30)
    beside.turn()
    beside.snapshots.observe(TABLE, page(table, 14))
    beside.pass_fences()
    beside.run()

    kept = [n for n in range(35) if n not in {3, 12, 14}]
    assert keys_of(beside.published) == expected(beside, kept)


def test_a_row_whose_large_value_the_stream_did_not_tell_is_published_with_it():
    beside = one_table()
    table = beside.tables["t"]
    beside.turn()
    lsn = at(0x50).to_bytes()
    update = [(lsn, 1, lsn, operation, b"\x01", 1, 3, 0, None) for operation in (3, 4)]
    beside.snapshots.observe(TABLE, ChangePage(table.schema, update))
    beside.run()

    images, keys = encoder_of(table).encode_images([(1, 3, 0, "x")], START)
    (place,) = (n for n, key in enumerate(keys_of(beside.published)) if key == keys[0])
    assert images[0] in beside.published[0].rows.values[place]
    assert keys_of(beside.published) == expected(beside, range(35))


def test_a_later_chunk_is_not_robbed_of_rows_that_were_told_before_it_began():
    beside = one_table(chunk=PageLimit(10, MEGABYTE), size_max=MEGABYTE)
    table = beside.tables["t"]
    beside.turn()
    beside.snapshots.observe(TABLE, page(table, 25))
    beside.run()

    assert keys_of(beside.published) == expected(beside, range(35))


def test_changes_are_compared_by_the_identity_whatever_the_event_key_is():
    rows: list[Row] = [(0, number, 7, "x") for number in range(20)]
    table = pending(instance_of(("b",), key=("c",)))
    beside = Beside({"t": TableSource(rows)}, {"t": table})
    beside.turn()
    beside.snapshots.observe(TABLE, page(table, 4))
    beside.run()

    assert sum(len(part.rows) for part in beside.published) == 19


def test_a_table_that_cannot_be_cut_is_read_again_when_a_row_changes():
    rows: list[Row] = [(0, number, 0, "x") for number in range(20)]
    table = pending(instance_of(()))
    beside = Beside({"t": TableSource(rows)}, {"t": table})
    beside.turn()
    beside.threads[0].run()
    beside.snapshots.observe(TABLE, page(table, 4))
    assert not beside.turn()
    beside.now = 10.0
    beside.run()

    assert [len(part.rows) for part in beside.published] == [20]
    assert len(beside.opened[0].reads) == 2


def test_more_changes_than_may_be_kept_have_the_chunks_read_again():
    beside = one_table(chunk=PageLimit(10, 2000))
    table = beside.tables["t"]
    beside.turn()
    beside.threads[0].run()
    beside.snapshots.observe(TABLE, page(table, *range(30)))
    with capture_logs() as logs:
        assert not beside.turn()
    assert [log["event"] for log in logs] == ["snapshot_chunk_retried"]
    beside.now = 10.0
    beside.run()

    assert keys_of(beside.published) == expected(beside, range(35))


def test_a_table_with_other_columns_is_read_again():
    beside = one_table()
    beside.turn()
    beside.threads[0].run()
    instance = beside.tables["t"].instance
    columns = (*instance.columns[:3], replace(instance.columns[3], in_source=False))
    beside.tables["t"] = replace(beside.tables["t"], instance=replace(instance, columns=columns))
    with capture_logs() as logs:
        assert not beside.turn()
    assert [log["reason"] for log in logs] == ["DDL"]
    beside.run()

    assert "NULL" in beside.opened[0].reads[-1]
    assert keys_of(beside.published) == expected(beside, range(35))


@pytest.mark.parametrize(
    "error",
    [
        SourceBusy("locked", number=1222),
        SourceUnavailable("gone"),
        SourceError("SNAPSHOT isolation is not allowed", number=3952),
    ],
)
def test_a_table_that_cannot_be_read_now_is_tried_again_and_told_once(error: SourceError):
    beside = one_table()
    source = beside.sources["t"]
    beside.turn()
    beside.threads[0].run(1)  # the first chunk is read
    source.error = error
    with capture_logs() as logs:
        for _ in range(10):
            beside.threads[0].run()
            beside.turn()
            beside.now += 0.3
        assert [log["event"] for log in logs] == ["snapshot_retrying", "snapshot_progress"]
        source.error = None
        beside.now += 1000.0
        beside.run()

    assert [log["event"] for log in logs].count("snapshot_resumed") == 1
    assert keys_of(beside.published) == expected(beside, range(35))
    assert (len(beside.opened) > 1) == (not isinstance(error, SourceBusy)), "a new connection"


def test_a_table_that_is_locked_does_not_hold_up_the_others():
    names = ("t0", "t1", "t2")
    rows: list[Row] = [(0, number, 0, "x") for number in range(15)]
    sources = {name: TableSource(rows) for name in names}
    tables = {}
    for name in names:
        table = pending(instance_of(("b",)))
        instance = replace(table.instance, table=replace(table.instance.table, table=name))
        tables[name] = replace(table, instance=instance)
    beside = Beside(sources, tables, lanes=2)
    sources["t0"].error = SourceBusy("locked", number=1222)
    for _ in range(10):
        beside.turn()
        for thread in beside.threads:
            thread.run()

    assert list(beside.tables) == ["t0"]
    sources["t0"].error = None
    beside.now = 1000.0
    beside.run()
    assert len(keys_of(beside.published)) == 45


def test_what_may_be_ddl_waits_for_the_fence_and_is_then_told():
    beside = one_table()
    beside.sources["t"].error = SourceError("Invalid column name 'note'", number=207)
    beside.fences.log_end = at(0x20)
    beside.turn()
    beside.threads[0].run()
    beside.turn()
    assert not beside.snapshots.has_failed(beside.position)
    beside.pass_fences()
    beside.snapshots.look(beside.position)
    assert beside.snapshots.has_failed(beside.position)

    with pytest.raises(TableFailed, match="Invalid column name"):
        beside.turn()


def test_what_waiting_does_not_cure_is_told_at_once():
    beside = one_table()
    beside.sources["t"].error = PermissionMissing("SELECT is denied", number=229)
    beside.fences.log_end = at(0x20)
    beside.turn()
    beside.threads[0].run()

    with pytest.raises(TableFailed, match="SELECT is denied"):
        beside.turn()


def test_a_table_that_is_asked_for_anew_begins_anew():
    beside = one_table()
    beside.turn()
    beside.threads[0].run(1)
    beside.turn()
    assert len(beside.published) == 1
    beside.tables["t"] = pending(instance_of(("b",)))
    beside.run()

    assert keys_of(beside.published) == expected(beside, [*range(10), *range(35)])


def test_the_fence_is_behind_the_log_of_the_server_that_was_read():
    beside = one_table()
    beside.sources["t"].log_end = at(0x70)  # a replica that is ahead
    beside.turn()
    beside.threads[0].run()
    beside.come_to(at(0x60))
    assert not beside.turn()
    beside.come_to(at(0x70))
    beside.run()

    assert keys_of(beside.published) == expected(beside, range(35))


def test_lanes_read_as_the_options_say_and_rest_when_nothing_is_pending():
    source = TableSource([])
    lane_thread = Tasks()
    options = SnapshotConfig(lock_timeout_s=2.5)
    lane = Lane(lane_thread, source.as_connection, options)
    beside = one_table()
    table = beside.tables["t"]
    snapshots = Snapshots(
        cast(FenceSource, Fences()),
        [lane],
        ChunkLimits(PageLimit(10, MEGABYTE), MEGABYTE),
        MEGABYTE,
        Pauses(30.0, lambda: 0.0),
    )
    snapshots.begin([table], START, encoder_of)
    lane_thread.run()
    assert "SET LOCK_TIMEOUT 2500" in source.statements
    assert "SET TRANSACTION ISOLATION LEVEL SNAPSHOT" in source.statements
    snapshots.rest()
    lane_thread.run()
    assert source.is_closed

    plain = TableSource([])
    options = SnapshotConfig(isolation=SnapshotIsolation.READ_COMMITTED)
    thread = Tasks()
    Snapshots(
        cast(FenceSource, Fences()),
        [Lane(thread, plain.as_connection, options)],
        ChunkLimits(PageLimit(10, MEGABYTE), MEGABYTE),
        MEGABYTE,
        Pauses(30.0, lambda: 0.0),
    ).begin([table], START, encoder_of)
    thread.run()
    assert "SET TRANSACTION ISOLATION LEVEL SNAPSHOT" not in plain.statements
