"""A publisher's connections wait neither for a long capture nor longer than a stop."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.daemon.adapters import production
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.errors import SourceBusy, SourceError
from tailrace_publisher.snapshot.reselect import READ_COMMITTED
from tailrace_publisher.source.connection.session_settings import LOCK_TIMEOUT_MS, SESSION_SETTINGS
from tests.pipeline.running import wait_until
from tests.pipeline.source_database import SourceDatabase, source_options

_LIMIT_S = 60.0
_BLOCKED = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id <> 0"
_FOR_EVER = "SET LOCK_TIMEOUT -1"
_READS = "SELECT id FROM dbo.t"


@pytest.fixture
def source(source_server: SourceServer) -> SourceDatabase:
    """A database with a table of one row."""
    source = SourceDatabase(source_server, f"locked_{uuid.uuid4().hex[:8]}")
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.execute("INSERT dbo.t VALUES (1)")
    return source


@pytest.fixture
def locked(source: SourceDatabase) -> Iterator[SourceDatabase]:
    """The same; somebody has changed its row and not committed."""
    writer = source.server.connect(source.name, autocommit=False)
    with closing(writer):
        writer.execute("UPDATE dbo.t SET id = 2")
        yield source
        writer.rollback()


def test_a_lock_is_waited_for_so_long(locked: SourceDatabase, monkeypatch: pytest.MonkeyPatch):
    config = source_options(locked)
    with production_ports().connect(config) as connection:
        assert connection.query("SELECT @@LOCK_TIMEOUT")[0][0] == LOCK_TIMEOUT_MS

    shorter = SESSION_SETTINGS.replace(str(LOCK_TIMEOUT_MS), "100")
    monkeypatch.setattr(production, "SESSION_SETTINGS", shorter)
    with production_ports().connect(config) as connection, pytest.raises(SourceBusy) as caught:
        connection.query(_READS)
    assert caught.value.number == 1222


def test_where_snapshot_isolation_is_allowed_no_lock_is_waited_for(source: SourceDatabase):
    source.execute(f"ALTER DATABASE [{source.name}] SET ALLOW_SNAPSHOT_ISOLATION ON")
    ports, config = production_ports(), source_options(source)
    with closing(source.server.connect(source.name, autocommit=False)) as writer:
        writer.execute("UPDATE dbo.t SET id = 2")
        with ports.connect(config) as connection:
            assert connection.query(_READS)[0][0] == 1
            # A batch with parameters that leaves the level has left it for itself alone.
            aside = f"{READ_COMMITTED}SELECT id FROM dbo.t WITH (READCOMMITTEDLOCK, READPAST)"
            assert connection.query(f"{aside} WHERE id = ?", 1) == []
            assert connection.query(_READS)[0][0] == 1
        if (blocks := ports.connect_blocks(config)) is not None:
            with closing(blocks):
                assert blocks.text("SELECT CAST(id AS nvarchar(9)) FROM dbo.t") == "1"
        writer.rollback()


@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_stop_ends_the_running_statement(locked: SourceDatabase, in_blocks: bool):
    stop = threading.Event()
    ports, config = production_ports(stop), source_options(locked)
    ask: Callable[[], object]
    if in_blocks:
        blocks = ports.connect_blocks(config)
        if blocks is None:
            pytest.skip("numpy is missing")
        blocks.run(_FOR_EVER)
        ask = partial(blocks.run, _READS)
        opened = closing(blocks)
    else:
        connection = ports.connect(config)
        connection.query(_FOR_EVER)
        ask = partial(connection.query, _READS)
        opened = closing(connection)
    with opened, ThreadPoolExecutor(1) as thread:
        asked = thread.submit(ask)
        wait_until(lambda: bool(locked.query(_BLOCKED)[0][0]), "it waits for the lock", _LIMIT_S)
        stop.set()
        error = asked.exception(_LIMIT_S)
    assert isinstance(error, SourceError)
    assert error.sqlstate == "HY008"
    assert error.retryable
