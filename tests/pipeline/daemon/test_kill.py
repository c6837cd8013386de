"""kill -9 at every row of a transaction larger than a page, and in the snapshot."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed
from tests.pipeline.source_database import SourceDatabase

pytestmark = pytest.mark.kafka

ROWS = 3


@pytest.mark.slow("a publisher is killed at each row, and started again")
def test_killed_at_every_row_of_a_whole_table_key_update(pipe: Pipe):
    """Page size 1, one row a Kafka transaction: killed when one is committed and the next sent."""
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int)")
    source.enable("t")
    values = ", ".join(f"({number}, 0)" for number in range(ROWS))
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.execute(f"INSERT dbo.t VALUES {values}")
        publisher.until(pipe.is_caught_up, "the rows are out")
    source.execute("UPDATE dbo.t SET id = id + 1, v = id")
    source.scan()
    assert len(source.positions("dbo_t")) == 3 * ROWS  # the inserts; then deletes and inserts
    options = pipe.options(page_rows=1, rows_per_transaction=1, linger_ms=0, heartbeat_s=600)

    live_until_killed(options, "sent")
    for number in range(1, 2 * ROWS):
        # In turn: right behind a commit, and with the next row sent and not committed.
        live_until_killed(options, *(("committed", 1) if number % 2 else ("sent", 2)))
        assert len(pipe.topics.positions(source.name, "t")) == ROWS + number

    with Running(pipe.config(page_rows=1, rows_per_transaction=1)) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")
    pipe.assert_exactly_once("t")
    state = pipe.topics.state(source.name, "t", "id")
    assert {(row["id"], row["v"]) for row in state.values()} == set(
        source.query("SELECT id, v FROM dbo.t")
    )
    records = pipe.topics.progress()
    for before, after in itertools.pairwise(records):
        assert after["after_lsn"] == before["through_lsn"]
        assert after["closed"] or after["through_lsn"] == before["through_lsn"]


@contextmanager
def scanning(source: SourceDatabase) -> Iterator[None]:
    """A capture process that scans again and again."""
    stop = threading.Event()

    def scan() -> None:
        with source.server.connect(source.name) as connection:
            while not stop.wait(0.05):
                source.scan(connection)

    scanner = threading.Thread(target=scan)
    scanner.start()
    try:
        yield
    finally:
        stop.set()
        scanner.join()


@pytest.mark.slow("a publisher is killed and starts again")
@pytest.mark.parametrize(
    "step",
    [
        "snapshot_read",
        *(
            pytest.param(
                step,
                marks=pytest.mark.nightly(
                    "the test before kills at each row, test_chaos at steps by chance"
                ),
            )
            for step in ("page", "committed")
        ),
    ],
)
def test_killed_in_snapshot_and_stream(pipe: Pipe, step: str):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int)")
    values = ", ".join(f"({number}, 0)" for number in range(12))
    source.execute(f"INSERT dbo.t VALUES {values}")
    source.enable("t")
    further = {"snapshot": {"chunk_rows": 5}, "page_rows": 3, "rows_per_transaction": 2}
    live_until_killed(pipe.options(**further), "heartbeat")  # the first checkpoint is written

    for number in (1, 2):
        source.execute(f"UPDATE dbo.t SET v = v + 1 WHERE id % 3 = {number}")
        source.scan()
        with scanning(source):
            live_until_killed(pipe.options(**further), step, number)

    with Running(pipe.config(**further)) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")
    pipe.assert_exactly_once("t")
    reads = [event.key["id"] for event in pipe.topics.snapshot(source.name, "t") if event.key]
    assert len(reads) == len(set(reads)), "a row was read twice"
    state = pipe.topics.state(source.name, "t", "id")
    assert {(row["id"], row["v"]) for row in state.values()} == set(
        source.query("SELECT id, v FROM dbo.t")
    )
