from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.tests.unit.storage.conftest import rid_of
from tailrace_emulator.log.lsn import RECORDS_PER_BLOCK, RECORDS_PER_VLF, lsn_of, position_of
from tailrace_emulator.log.records import RowAction, RowChange
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.engine import Database, DataDirectoryInUse, Engine
from tailrace_emulator.storage.model import Column, Table
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import ManualClock
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import INT, nvarchar

POSITIONS = st.integers(0, 2**50)


@given(POSITIONS, POSITIONS)
def test_lsns_keep_the_order_of_positions(left: int, right: int) -> None:
    assert (lsn_of(left) < lsn_of(right)) == (left < right)
    assert position_of(lsn_of(left)) == left
    assert len(lsn_of(left)) == 10


@given(st.binary(min_size=10, max_size=10))
def test_any_lsn_falls_between_two_positions(lsn: bytes) -> None:
    position = position_of(lsn)
    if position >= 2**32 * RECORDS_PER_VLF - RECORDS_PER_VLF * 0x23:
        return
    assert lsn_of(position + 1) > lsn
    assert position < 0 or lsn_of(position) <= lsn


def row_changes(database: Database, after: bytes | None = None) -> list[list[RowChange]]:
    return [
        [change for change in transaction.changes if isinstance(change, RowChange)]
        for transaction in database.log.committed(after, 1000)
    ]


def test_images_and_actions(store: StoreSession, table: Table, database: Database) -> None:
    store.insert(table, [(1, "a", 1)])
    rid = rid_of(store, table, 1)
    store.update(table, [(rid, (1, "b", 1))])
    store.update(table, [(rid, (1, "b", 1))])
    store.delete(table, [rid])
    ((inserted,), (updated,), (deleted,)) = row_changes(database)
    assert (inserted.action, inserted.before, inserted.after) == (
        RowAction.INSERT, None, (1, "a", 1),
    )  # fmt: skip
    assert (updated.action, updated.before, updated.after) == (
        RowAction.UPDATE, (1, "a", 1), (1, "b", 1),
    )  # fmt: skip
    assert (deleted.action, deleted.before, deleted.after) == (
        RowAction.DELETE, (1, "b", 1), None,
    )  # fmt: skip
    assert inserted.object_id == table.object_id
    assert inserted.column_ids == (1, 2, 3)


def test_a_key_update_is_a_delete_and_an_insert_with_one_seqval(
    store: StoreSession, table: Table, database: Database
) -> None:
    store.insert(table, [(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    before = database.log.last_commit()
    rids = {n: rid_of(store, table, n) for n in (1, 2, 3)}
    # The second row keeps its key: an update among deferred ones.
    store.update(
        table, [(rids[1], (2, "a", 1)), (rids[2], (1, "b", 2)), (rids[3], (3, "changed", 3))]
    )
    (changes,) = row_changes(database, before)
    deletes = [c for c in changes if c.action is RowAction.DELETE]
    inserts = [c for c in changes if c.action is RowAction.INSERT]
    (update,) = [c for c in changes if c.action is RowAction.UPDATE]
    assert [c.before for c in deletes] == [(1, "a", 1), (2, "b", 2)]
    assert [c.after for c in inserts] == [(2, "a", 1), (1, "b", 2)]
    assert [c.seqval for c in deletes] == [c.seqval for c in inserts]
    assert max(c.command_id for c in deletes) < min(c.command_id for c in inserts)
    # The property that breaks readers which sort or resume by seqval alone.
    assert inserts[0].command_id > deletes[1].command_id
    assert inserts[0].seqval < deletes[1].seqval
    assert update.seqval not in {c.seqval for c in deletes}


def test_pages_of_transactions(store: StoreSession, table: Table, database: Database) -> None:
    lsns = []
    for n in range(5):
        store.begin()
        store.insert(table, [(n, "x", n)])
        lsns.append(store.commit())
    first = [t.commit_lsn for t in database.log.committed(None, 2)]
    assert first == lsns[:2]
    rest = [t.commit_lsn for t in database.log.committed(first[-1], 10)]
    assert rest == lsns[2:]
    assert database.log.truncate(first[-1]) == 2
    assert [t.commit_lsn for t in database.log.committed(None, 10)] == lsns[2:]
    assert database.log.truncate(first[-1]) == 0
    assert database.log.last_commit() == lsns[-1]


def test_truncating_inside_a_write(
    engine: Engine, store: StoreSession, table: Table, database: Database
) -> None:
    store.insert(table, [(1, "a", 1)])
    last = database.log.last_commit()
    assert last is not None

    def failing() -> None:
        with engine.write():
            assert database.log.truncate(last) == 1
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        failing()
    assert database.log.last_commit() == last


def test_allocated_lsns_lie_between_commits(
    engine: Engine, store: StoreSession, table: Table, database: Database
) -> None:
    store.insert(table, [(1, "a", 1)])
    early = database.log.last_commit()
    with engine.write() as connection:
        middle = database.log.allocate_lsn(connection)
        another = database.log.allocate_lsn(connection)
    store.insert(table, [(2, "b", 2)])
    late = database.log.last_commit()
    assert early is not None
    assert late is not None
    assert early < middle < another < late


def test_lsns_grow_over_reopening(tmp_path: Path, clock: ManualClock) -> None:
    seen = []
    for _ in range(3):
        engine = Engine(tmp_path, clock)
        database = engine.database("master")
        # Handed out, and nothing written: lost with the process, and never seen.
        database.log.allocator.take(3 * RECORDS_PER_VLF)
        with engine.write() as connection:
            seen.append(database.log.allocate_lsn(connection))
            seen.append(database.log.allocate_lsn(connection))
        engine.close()
    assert seen == sorted(set(seen))
    assert position_of(seen[2]) % RECORDS_PER_BLOCK == 1, "behind the one of its beginning"


def test_a_large_transaction_spills_and_reads_lazily(
    store: StoreSession, table: Table, database: Database
) -> None:
    count = 20_000
    store.begin()
    store.insert(table, ((n, f"row {n}", n) for n in range(count)))
    ((chunks,),) = fetch(store.connection, "SELECT count(*) FROM temp.journal")
    assert chunks > 70, "the journal stays in memory"
    store.savepoint("s")
    store.insert(table, ((n, "undone", n) for n in range(count, count + 1000)))
    store.rollback_to("s")
    store.insert(table, [(-1, "last", 0)])

    def failing_2() -> None:
        with store.statement():
            store.insert(table, ((n, "undone", n) for n in range(count, count + 1000)))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        failing_2()
    store.commit()
    (transaction,) = database.log.committed(None, 10)
    assert transaction.change_count == count + 1
    previous = transaction.begin_lsn
    numbers: list[object] = []
    for change in transaction.changes:
        assert isinstance(change, RowChange)
        assert change.after is not None
        assert previous < change.seqval < transaction.commit_lsn
        assert change.command_id == len(numbers) + 1
        previous = change.seqval
        numbers.append(change.after[0])
    assert numbers == [*range(count), -1]


def test_databases_have_their_own_logs(
    engine: Engine, store: StoreSession, table: Table, database: Database
) -> None:
    other = engine.create_database("other")
    there = ddl.create_table(store, other, "dbo", "t", [Column(0, "id", INT)])
    there = ddl.set_tracked(store, other, there, tracked=True)
    store.begin()
    store.insert(table, [(1, "a", 1)])
    store.insert(there, [(1,)])
    store.commit()
    assert len(row_changes(database)) == len(row_changes(other)) == 1
    store.insert(there, [(2,)])
    assert len(row_changes(database)) == 1
    assert len(row_changes(other)) == 2


def test_one_process_per_data_directory(engine: Engine, tmp_path: Path, clock: ManualClock) -> None:
    with pytest.raises(DataDirectoryInUse, match="in use by another server"):
        Engine(tmp_path, clock)


WRITER = """
import sys
from pathlib import Path
from tailrace_emulator.values.clock import SystemClock
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.transaction import StoreSession
engine = Engine(Path(sys.argv[1]), SystemClock())
database = engine.database("shop")
table = database.table("dbo", "t")
store = StoreSession(engine)
other = StoreSession(engine)
n = int(sys.argv[2])
while True:
    n += 1
    store.begin()
    store.insert(table, [(2 * n, "x", n), (2 * n + 1, "y", n)])
    other.begin()
    other.insert(table, [(-n, "never committed", n)])
    lsn = store.commit()
    other.rollback()
    print(n, lsn.hex(), flush=True)
"""


def prepare(directory: Path, clock: ManualClock) -> None:
    engine = Engine(directory, clock)
    database = engine.create_database("shop")
    store = StoreSession(engine)
    columns = [Column(0, "id", INT), Column(0, "name", nvarchar(9)), Column(0, "n", INT)]
    table = ddl.create_table(store, database, "dbo", "t", columns)
    ddl.set_tracked(store, database, table, tracked=True)
    store.close()
    engine.close()


def run_until_killed(directory: Path, start: int, commits: int) -> list[tuple[int, bytes]]:
    """Insert until so many commits are acknowledged, then kill -9."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(start)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert process.stdout is not None
    acknowledged = []
    for line in process.stdout:
        if not line.endswith("\n"):
            break  # the kill came while it was being written
        number, lsn = line.split()
        acknowledged.append((int(number), bytes.fromhex(lsn)))
        if len(acknowledged) == commits:
            os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    # The last line may be cut short by the kill only if it was never flushed whole.
    return acknowledged


def test_after_kill_9_exactly_the_acknowledged_commits_are_there(
    tmp_path: Path, clock: ManualClock, connect: Callable[[], StoreSession]
) -> None:
    directory = tmp_path / "killed"
    prepare(directory, clock)
    acknowledged: list[tuple[int, bytes]] = []
    for commits in (1, 40, 7):
        acknowledged += run_until_killed(
            directory, acknowledged[-1][0] + 1 if acknowledged else 0, commits
        )
        engine = Engine(directory, clock)
        database = engine.database("shop")
        transactions = list(database.log.committed(None, 10_000))
        by_lsn = {t.commit_lsn: [c for c in t.changes if isinstance(c, RowChange)]
                  for t in transactions}  # fmt: skip
        table = database.table("dbo", "t")
        assert table is not None
        store = StoreSession(engine)
        present = {
            row[0]
            for row in store.connection.execute(
                f"SELECT c1 FROM {store.reads.source(table)}"
            ).fetchall()
        }
        store.close()
        engine.close()
        logged = [int(str(c.after[0])) for changes in by_lsn.values() for c in changes if c.after]
        assert present == set(logged)
        assert len(logged) == len(set(logged))
        assert min(logged) > 0, "an uncommitted row survived"
        for number, lsn in acknowledged:
            assert [c.after[0] for c in by_lsn[lsn] if c.after] == [2 * number, 2 * number + 1]
        # At most one commit per kill was durable and not acknowledged.
        assert len(by_lsn) - len(acknowledged) <= 3
        lsns = [t.commit_lsn for t in transactions]
        assert lsns == sorted(lsns)
        assert [lsn for _, lsn in acknowledged] == sorted(lsn for _, lsn in acknowledged)
