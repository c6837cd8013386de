"""A source is changed on a connection alone that proves to hold what was published (ADR 0114)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.upkeep.source_thread import SourceThread, result_of
from tailrace_publisher.errors import HistoryUnproven, SourceBusy
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.catalog.capture_changes import create_instance, drop_instance
from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions
from tailrace_publisher.source.catalog.instances import KnownCatalog, read_catalog
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log import cleanup
from tailrace_publisher.source.log.cleanup import next_low_watermark, remove_below
from tailrace_publisher.source.log.commit_times import commits_from
from tailrace_publisher.source.log.identity import visible_identity
from tailrace_publisher.source.log.proven_source import ProvenSource, PublishedHistory
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.conftest import Pipe

pytestmark = pytest.mark.kafka

_BOUND_S = 60.0
ROWS = 9


@pytest.fixture
def connection(pipe: Pipe) -> Iterator[OdbcConnection]:
    """To a database with a captured table, one transaction for each row."""
    source = pipe.source
    for table in ("other", "t"):  # without any instance there are no commit times either
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY)")
        source.enable(table)
    for number in range(ROWS):
        source.execute(f"INSERT dbo.t VALUES ({number})")
    source.scan()
    with OdbcConnection(pipe.config().source) as opened:
        yield opened


def history_of(connection: OdbcConnection) -> PublishedHistory:
    """Everything that is captured is published."""
    commits = commits_from(connection, Lsn.ZERO, 1_000)
    found = PublishedHistory.of("db", visible_identity(connection), commits[len(commits) - 1])
    assert found is not None
    return found


def instances_of(pipe: Pipe, connection: OdbcConnection) -> dict[str, CaptureInstance]:
    catalog = read_catalog(
        connection, pipe.source.name, {}, KnownCatalog(by_function=False), {}, None
    )
    return {instance.name: instance for instance in catalog.instances}


def clean_up(pipe: Pipe, source: ProvenSource, up_to: Lsn) -> Lsn | None:
    """A bite of the change rows."""
    instance = instances_of(pipe, source.connection)["dbo_t"]
    assert instance.low_watermark is not None
    bite = next_low_watermark(source.connection, instance.name, instance.low_watermark, up_to)
    return None if bite is None else remove_below(source, instance, bite[0])


def test_the_published_history_may_be_changed(pipe: Pipe, connection: OdbcConnection) -> None:
    history = history_of(connection)
    source = ProvenSource(connection, history)

    reached = clean_up(pipe, source, history.commit.commit_lsn)

    assert reached is not None
    left = [position.commit_lsn for position, _ in pipe.source.change_rows("dbo_t")]
    assert len(left) < ROWS
    assert min(left) >= reached

    row = next(row for row in change_tables(connection) if row.instance == "dbo_t")
    older = instances_of(pipe, connection)["dbo_t"]
    assert create_instance(source, row, older, CaptureOptions(capture_instance="dbo_t_r1"))
    pipe.source.scan()
    newer = instances_of(pipe, connection)["dbo_t_r1"]
    assert drop_instance(source, row, older, newer)
    assert not drop_instance(source, row, older, newer), "it is gone"
    assert {row.instance for row in change_tables(connection)} == {"dbo_other", "dbo_t_r1"}


def test_an_instance_of_the_same_name_is_not_the_one_that_was_compared(
    pipe: Pipe, connection: OdbcConnection
) -> None:
    history = history_of(connection)
    instance = instances_of(pipe, connection)["dbo_t"]
    source = ProvenSource(connection, history)
    pipe.source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
    pipe.source.enable("t")

    assert remove_below(source, instance, history.commit.commit_lsn) is None


@pytest.mark.parametrize("rows_max", [1, 3, 8])
def test_a_bite_is_bounded_by_rows(
    pipe: Pipe, connection: OdbcConnection, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    pipe.source.execute("INSERT dbo.t VALUES (100), (101), (102), (103)", "INSERT dbo.t VALUES (9)")
    pipe.source.scan()
    monkeypatch.setattr(cleanup, "ROWS_MAX", rows_max)
    history = history_of(connection)
    source = ProvenSource(connection, history)
    of_time = pipe.source.query(
        "SELECT COUNT(*) FROM cdc.dbo_t_CT AS r JOIN cdc.lsn_time_mapping AS m"
        " ON m.start_lsn = r.[__$start_lsn] GROUP BY m.tran_end_time"
    )
    had, bites = len(pipe.source.change_rows("dbo_t")), []
    reached: Lsn | None = Lsn.ZERO
    while reached is not None:
        reached = clean_up(pipe, source, history.commit.commit_lsn)
        left = len(pipe.source.change_rows("dbo_t"))
        bites.append(had - left)
        had = left

    assert had <= max(of_time)[0], "the rows of the last commit stay, and of those of its time"
    assert max(bites) <= rows_max + max(of_time)[0]


def another_family(history: PublishedHistory) -> PublishedHistory:
    guid = "00000000-0000-4000-8000-000000000001"
    return replace(history, identity=replace(history.identity, family_guid=guid))


def another_fork(history: PublishedHistory) -> PublishedHistory:
    guid = "00000000-0000-4000-8000-000000000002"
    return replace(history, identity=replace(history.identity, recovery_fork_guid=guid))


def another_transaction(history: PublishedHistory) -> PublishedHistory:
    return replace(history, commit=replace(history.commit, tran_id=b"\x01\x02"))


def another_time(history: PublishedHistory) -> PublishedHistory:
    assert history.commit.local_time is not None
    later = history.commit.local_time + timedelta(seconds=1)
    return replace(history, commit=replace(history.commit, local_time=later))


def a_later_commit(history: PublishedHistory) -> PublishedHistory:
    later = history.commit.commit_lsn.increment()
    return replace(history, commit=replace(history.commit, commit_lsn=later))


@pytest.mark.parametrize(
    ("differ", "named"),
    [
        (another_family, "family GUID"),
        (another_fork, "recovery fork"),
        (another_transaction, "is another one in cdc.lsn_time_mapping"),
        (another_time, "is another one in cdc.lsn_time_mapping"),
        (a_later_commit, "is not in cdc.lsn_time_mapping"),
    ],
)
def test_another_history_is_refused_by_name(
    connection: OdbcConnection,
    differ: Callable[[PublishedHistory], PublishedHistory],
    named: str,
) -> None:
    with pytest.raises(HistoryUnproven, match=named) as raised:
        ProvenSource(connection, differ(history_of(connection)))

    assert "Fix: let source.primary.host name the primary" in str(raised.value)
    assert "tailrace accept-database" in str(raised.value)


def test_the_batch_of_a_change_looks_again(pipe: Pipe, connection: OdbcConnection) -> None:
    history = history_of(connection)
    lsn = history.commit.commit_lsn.to_bytes()
    source = ProvenSource(connection, history)
    before = pipe.source.change_rows("dbo_t")
    instance = instances_of(pipe, connection)["dbo_t"]
    mark = before[-2][0].commit_lsn
    pipe.source.connection.execute(
        "UPDATE cdc.lsn_time_mapping SET tran_id = 0x77 WHERE start_lsn = ?", lsn
    )

    with pytest.raises(HistoryUnproven, match="The published commit is gone"):
        remove_below(source, instance, mark)

    assert pipe.source.change_rows("dbo_t") == before


def test_the_end_of_a_session_cancels_a_change(pipe: Pipe, connection: OdbcConnection) -> None:
    history, is_there = history_of(connection), threading.Event()
    config = pipe.config()
    runtime = Runtime(config, production_ports(), Metrics(), threading.Event(), lambda _: None)
    thread = SourceThread(runtime, "cleanup")

    def wait_long(source: ProvenSource) -> None:
        is_there.set()
        source.connection.query_sets("WAITFOR DELAY '00:10:00'")

    running = thread.submit(wait_long, history)
    assert is_there.wait(_BOUND_S)
    closing = threading.Thread(target=thread.close)
    closing.start()
    closing.join(_BOUND_S)

    assert not closing.is_alive()
    assert isinstance(result_of(running, "waiting"), SourceBusy)


def test_a_fault_in_a_thread_is_a_result(pipe: Pipe, connection: OdbcConnection) -> None:
    config, history = pipe.config(), history_of(connection)
    runtime = Runtime(config, production_ports(), Metrics(), threading.Event(), lambda _: None)
    thread = SourceThread(runtime, "cleanup")
    try:
        running = thread.submit(partial(dict.__getitem__, {}), history)
        found = result_of(running, "looking up a source")
    finally:
        thread.close()

    assert "looking up a source: KeyError" in str(found)
