"""A scan cycle is written in pieces between which others commit, and seen in one step."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tailrace_emulator.cdc import capture_scan, disable
from tailrace_emulator.cdc.enable_database import disable_database
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.cdc.scan_cycle import PIECE_ROWS
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.model import Column
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.types import INT

PIECES = 6


@pytest.fixture
def busy(orders):
    """A transaction in the log whose change rows need several pieces."""
    orders.create("other", Column(0, "id", INT, False))
    orders.track("other")
    orders.insert("orders", *((n, "n", 1, None) for n in range(PIECE_ROWS * PIECES)))
    return orders


def scan_with(shop, at_piece):
    """Scan; ``at_piece`` is called before each piece is committed with its number from 1."""
    asked = []

    def stopped() -> bool:
        asked.append(1)
        return bool(at_piece(len(asked)))

    return capture_scan.scan(shop.engine, shop.database, stopped=stopped)


@pytest.fixture
def others():
    """Threads that do what other sessions would."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_others_commit_between_pieces_and_see_nothing_before_the_end(busy, others):
    seen = []
    started = []

    def commit_one(number: int) -> None:
        other = StoreSession(busy.engine, 52)
        other.insert(busy.table("other"), [(number,)])
        other.close()

    def at_piece(number: int) -> None:
        # The write path is the scan's here: whoever waits gets it before the next piece.
        seen.append((len(busy.changes("dbo_orders")), len(busy.rows("cdc", "lsn_time_mapping"))))
        started.append(others.submit(commit_one, number))

    (session,) = scan_with(busy, at_piece)

    assert set(seen) == {(0, 0)}
    assert len(seen) > PIECES
    for future in started:
        future.result(30)
    assert session.tran_count == 1
    assert len(busy.changes("dbo_orders")) == PIECE_ROWS * PIECES
    assert busy.changes("dbo_other") == []
    busy.scan()
    assert len(busy.changes("dbo_other")) == len(started)


def test_readers_of_an_older_snapshot_and_query_functions_see_whole_cycles_only(busy):
    seen = []
    scan_with(busy, lambda _: seen.append(busy.changes("dbo_orders")))
    assert all(rows == [] for rows in seen)
    busy.insert("orders", *((n, "m", 1, None) for n in range(10**6, 10**6 + PIECE_ROWS * 2)))
    seen.clear()
    scan_with(busy, lambda _: seen.append(len(busy.changes("dbo_orders"))))
    assert set(seen) == {PIECE_ROWS * PIECES}
    assert len(busy.changes("dbo_orders")) == PIECE_ROWS * (PIECES + 2)


def test_instance_disabled_between_pieces_is_left_out_from_there(busy, others):
    busy.track("orders", capture_instance="second")
    busy.scan()
    busy.insert("orders", *((n, "m", 1, None) for n in range(10**6, 10**6 + PIECE_ROWS * 3)))
    dropped = []

    def drop() -> None:
        disable.disable_table(busy.engine, busy.database, "dbo", "orders", "second")

    def at_piece(number: int) -> None:
        if number == 2:
            dropped.append(others.submit(drop))

    scan_with(busy, at_piece)
    dropped[0].result(30)

    assert busy.database.table("cdc", "second_CT") is None
    assert len(busy.changes("dbo_orders")) == PIECE_ROWS * (PIECES + 3)


def test_what_a_cut_cycle_left_is_gone_after_a_restart_and_captured_once(busy):
    class PowerCut(Exception):
        pass

    def at_piece(number: int) -> None:
        if number == 4:
            raise PowerCut

    with pytest.raises(PowerCut):
        scan_with(busy, at_piece)
    assert busy.changes("dbo_orders") == []
    busy.session.close()
    busy.engine.close()

    busy.engine = Engine(busy.engine.data_dir, busy.clock, ChangeDataCapture())
    busy.database = busy.engine.database("shop")
    busy.session = StoreSession(busy.engine, 51)
    assert busy.changes("dbo_orders") == []
    busy.scan()
    assert [row["id"] for row in busy.changes("dbo_orders")] == list(range(PIECE_ROWS * PIECES))


def test_disabling_the_database_between_pieces_ends_the_scan(busy, others):
    ended = []

    def at_piece(number: int) -> None:
        if number == 2:
            ended.append(others.submit(disable_database, busy.engine, busy.database))

    with pytest.raises(SqlError) as refused:
        scan_with(busy, at_piece)
    assert refused.value.number == 22901
    ended[0].result(30)
