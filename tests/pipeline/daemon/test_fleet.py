"""Publishers that share databases through a consumer group: one is killed, another goes on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx
import pytest

from emulator.tests.forked import forked
from tailrace_publisher.daemon import run_databases
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.topics.topic_names import database_path
from tests.pipeline.conftest import Pipe, Topics
from tests.pipeline.daemon.test_databases import RunningAll
from tests.pipeline.operate.test_endpoint import url_of
from tests.pipeline.running import LIMIT_S, Running, wait_until
from tests.pipeline.source_database import SourceDatabase

pytestmark = pytest.mark.kafka

_CONTINUES_S: Final = 15.0


@pytest.fixture
def pipes(pipe: Pipe) -> Iterator[dict[str, Pipe]]:
    """Two databases of one server, with rows, under one prefix."""
    other = SourceDatabase(pipe.source.server, f"{pipe.source.name}b")
    found = {}
    for name, source in (("one", pipe.source), ("two", other)):
        source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", "INSERT dbo.t VALUES (1)")
        source.enable("t")
        own = Topics(
            pipe.topics.bootstrap, pipe.topics.registry_url, f"{pipe.topics.prefix}.{name}"
        )
        found[name] = Pipe(source, own)
    yield found
    for each in found.values():
        each.topics.close()


def options_of(pipes: Mapping[str, Pipe]) -> dict[str, dict[str, Any]]:
    """The options of each database in a fleet of them."""
    group = "-".join(pipe.topics.prefix for pipe in pipes.values())
    fleet = {"join": True, "group": group}
    return {n: pipe.options(fleet=fleet, metrics_port=0) for n, pipe in pipes.items()}


def _publish(options: dict[str, dict[str, Any]]) -> None:
    configs = {name: PublisherConfig.load(of) for name, of in options.items()}
    run_databases(configs, threading.Event())


@contextmanager
def process_of(options: dict[str, dict[str, Any]]) -> Iterator[Any]:
    """A member as a process of its own; it is killed at the end if the test has not done so."""
    process = forked.Process(target=_publish, args=(options,))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join(LIMIT_S)


@contextmanager
def load(pipe: Pipe) -> Iterator[None]:
    """Rows are written and captured while the block runs."""
    source, stop = pipe.source, threading.Event()
    connection, scanning = (source.server.connect(source.name) for _ in range(2))

    def write() -> None:
        for number in itertools.count(100):
            if stop.is_set():
                return
            connection.execute(f"INSERT dbo.t VALUES ({number})")
            source.scan(scanning)
            stop.wait(0.3)

    thread = threading.Thread(target=write, name="load")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        connection.close()
        scanning.close()


def continues(standby: Running, pipe: Pipe, process: Any) -> None:
    """Kill the process that publishes a database under load: the standby has it in time."""
    with load(pipe):
        process.kill()
        process.join(LIMIT_S)
        began = time.monotonic()
        pipe.source.execute("INSERT dbo.t VALUES (50)")
        pipe.source.scan()
        lsn = pipe.source.max_lsn()
        standby.until(lambda: pipe.topics.through() >= lsn, "it continues elsewhere", _CONTINUES_S)
        assert time.monotonic() - began < _CONTINUES_S
    standby.until(pipe.is_caught_up, "all is published")


@pytest.mark.slow("a publisher is killed, and its session times out")
def test_the_database_of_a_killed_process_continues_in_the_other(pipes: dict[str, Pipe]):
    options = options_of(pipes)
    configs = {name: PublisherConfig.load(of) for name, of in options.items()}
    with RunningAll(configs) as first:
        client = httpx.Client(base_url=url_of(first), trust_env=False)
        for pipe in pipes.values():
            first.until(pipe.is_caught_up, "one has both")
        assert client.get("/ready").text == "publishing\n"
        with process_of(options) as process:
            first.until(lambda: bool(first.told("database_left")), "one database goes over")
            (left,) = first.told("database_left")
            moved = left["database"]
            (other,) = pipes.keys() - {moved}
            for pipe in pipes.values():
                pipe.source.execute("INSERT dbo.t VALUES (2)")
                first.until(pipe.is_caught_up, "both are published")
            ready = client.get("/ready")
            assert (ready.status_code, ready.text) == (
                200,
                f"publishing {other}; elsewhere: {moved}\n",
            )
            states = client.get("/status").json()["databases"]
            assert (states[moved]["state"], states[other]["state"]) == ("elsewhere", "running")
            metrics = client.get("/metrics").text
            assert f'tailrace_up{{database="{other}"}} 1.0' in metrics
            assert f'database="{moved}"' not in metrics
            continues(first, pipes[moved], process)
        assert client.get("/ready").text == "publishing\n"
        assert client.get(f"{database_path(moved)}/status").json()["state"] == "running"
        client.close()
    for pipe in pipes.values():
        pipe.assert_exactly_once("t")


@pytest.mark.slow("a publisher is killed, and its session times out")
def test_a_standby_continues_the_only_database(pipes: dict[str, Pipe]):
    only = {"one": pipes["one"]}
    options, pipe = options_of(only), pipes["one"]
    with process_of(options) as process:
        wait_until(pipe.is_caught_up, "the process publishes")
        with Running(PublisherConfig.load(options["one"])) as standby:
            client = httpx.Client(base_url=url_of(standby), trust_env=False)
            standby.until(lambda: client.get("/ready").text.startswith("standing by"), "it joins")
            assert client.get("/status").json()["state"] == "elsewhere"
            assert client.get("/health").text == "ok\n"
            continues(standby, pipe, process)
            assert client.get("/ready").text == "publishing\n"
            client.close()
    pipe.assert_exactly_once("t")
