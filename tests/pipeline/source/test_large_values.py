"""Large values: memory is bounded in bytes, and no row is lost at a page that ends early."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from emulator.tests.forked import forked
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.daemon import run
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import LIMIT_S, wait_until
from tests.pipeline.source_database import SourceDatabase, source_options

MB = 1_000_000
CHARACTERS = 300_000


def allow_large_values(source: SourceDatabase) -> None:
    """Let captured tables take what is larger than 64 kB."""
    source.execute("EXEC sp_configure 'max text repl size', -1", "RECONFIGURE")


def insert(source: SourceDatabase, rows: int, characters: int, *, first: int = 1) -> None:
    """Rows with large values, in one transaction."""
    source.transaction(
        *[
            f"INSERT dbo.t VALUES ({number}, REPLICATE(CAST(N'x' AS nvarchar(max)), {characters}))"
            for number in range(first, first + rows)
        ]
    )


@pytest.fixture
def source(source_server: SourceServer) -> SourceDatabase:
    source = SourceDatabase(source_server, f"large_{uuid.uuid4().hex[:8]}")
    allow_large_values(source)
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(max))")
    source.enable("t")
    return source


@pytest.mark.parametrize("limit", [1, 400_000, 3 * MB, 1000 * MB])
def test_pages_of_large_values_hold_every_row_once(source: SourceDatabase, limit: int):
    insert(source, 20, 100)
    insert(source, 10, CHARACTERS, first=100)
    source.execute("UPDATE dbo.t SET text = LEFT(text, 250000)")
    source.scan()
    with OdbcConnection(source_options(source)) as connection:
        (instance,) = read_catalog(connection, source.name, {}).instances
        assert instance.low_watermark is not None
        schema = TableSchema(
            instance.table, instance.name, instance.low_watermark, current_columns(instance)
        )
        size = RowSize(schema)
        pages = ChangePages(
            connection,
            instance,
            schema,
            LsnRange(ChangePosition.end_of(instance.low_watermark.decrement()), source.max_lsn()),
            PageLimit(2000, limit),
            instance.low_watermark,
            size,
        )
        read: list[Any] = []
        largest = 0
        while (page := pages.read()) is not None:
            read += page.rows
            largest = max(largest, sum(map(size.of, page.rows)))

    expected = source.query(
        "SELECT [__$operation], id, LEN(text) FROM cdc.dbo_t_CT"
        " ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
    )
    assert [(row[3], row[5], len(row[6])) for row in read] == expected
    assert largest <= limit + 2 * (CHARACTERS + 10_000)


def _publish(options: dict[str, Any]) -> None:
    run(PublisherConfig.load(options), threading.Event())


def _peak_bytes(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.mark.slow("60 MB of values are written, captured and published")
@pytest.mark.kafka
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_transaction_of_large_values_takes_no_more_than_the_limit(pipe: Pipe):
    source = pipe.source
    allow_large_values(source)
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(max))")
    source.enable("t")
    process = forked.Process(target=_publish, args=(pipe.options(memory_mb=16),))
    process.start()
    try:
        wait_until(pipe.is_caught_up, "the snapshot is out")
        insert(source, 1, 10)
        wait_until(pipe.is_caught_up, "the first row is out")
        before = _peak_bytes(process.pid)
        insert(source, 200, CHARACTERS, first=2)
        wait_until(pipe.is_caught_up, "the large transaction is out")
        taken = _peak_bytes(process.pid) - before
    finally:
        process.kill()
        process.join(LIMIT_S)

    pipe.assert_exactly_once("t")
    assert taken < 60 * MB, f"{taken / MB:.0f} MB for 60 MB of values, each in several forms"
    assert len(pipe.topics.changes(source.name, "t")) == 201
