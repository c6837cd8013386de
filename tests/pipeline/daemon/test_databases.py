"""Several databases that one process publishes: what ends one ends no other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tailrace.web.daemons import DaemonAddress, DaemonUnavailable, ask_status
from tailrace_emulator.testing.process import free_port
from tailrace_publisher.daemon import run_databases
from tailrace_publisher.errors import LoginRefused, PublisherError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.topics.topic_names import database_path
from tailrace_service.status import DaemonStatus
from tests.pipeline.conftest import Pipe, Topics
from tests.pipeline.operate.test_endpoint import url_of
from tests.pipeline.running import Running, wait_until
from tests.pipeline.source_database import SourceDatabase

pytestmark = pytest.mark.kafka


class RunningAll(Running):
    """A publisher of several databases in a thread.

    Attributes:
        start: set to have those begin that are stopped.
    """

    def __init__(self, configs: dict[str, PublisherConfig]) -> None:
        super().__init__(next(iter(configs.values())))
        self._configs = configs
        self.start = threading.Event()

    def _run(self) -> None:
        try:
            run_databases(self._configs, self._stop, start=self.start, on_step=self._stepped)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def told_of(self, event: str, database: str) -> list[Any]:
        return [entry for entry in self.told(event) if entry["database"] == database]


@pytest.fixture
def pipes(pipe: Pipe) -> Iterator[tuple[Pipe, Pipe]]:
    """Two databases of one server, of which the second has no CDC yet, under one prefix."""
    other = SourceDatabase(pipe.source.server, f"{pipe.source.name}b", cdc=False)
    for source in (pipe.source, other):
        source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", "INSERT dbo.t VALUES (1)")
    pipe.source.enable("t")
    topics = pipe.topics
    names = [f"{topics.prefix}.{name}" for name in ("good", "bad")]
    own = [Topics(topics.bootstrap, topics.registry_url, prefix) for prefix in names]
    yield Pipe(pipe.source, own[0]), Pipe(other, own[1])
    for topics in own:
        topics.close()


def rows_of(pipe: Pipe) -> Callable[[], int]:
    return lambda: len(pipe.topics.events(pipe.source.name, "t"))


def test_one_that_is_broken_leaves_the_other_alone_and_comes_back(pipes: tuple[Pipe, Pipe]):
    good, bad = pipes
    with RunningAll(
        {"good": good.config(metrics_port=0), "bad": bad.config(metrics_port=0)}
    ) as all_of:
        url = url_of(all_of)
        with httpx.Client(base_url=url, trust_env=False) as client:

            def status(name: str) -> DaemonStatus:
                return ask_status(DaemonAddress(f"{url}{database_path(name)}"))

            # Change data capture is off: told, and tried again.
            all_of.until(lambda: len(all_of.told_of("database_failed", "bad")) > 1, "it is told")
            all_of.until(good.is_caught_up, "the other is published")
            assert "sp_cdc_enable_db" in all_of.told("database_failed")[0]["reason"]
            assert (status("good").state, status("bad").errors[0].error) == (
                "running",
                "PreflightError",
            )
            assert client.get("/health").status_code == 200
            ready = client.get("/ready")
            assert (ready.status_code, "bad is " in ready.text) == (503, True)
            together = client.get("/status").json()["databases"]
            assert together["good"]["state"] == "running"
            with pytest.raises(DaemonUnavailable, match=r"several databases: .* /databases/bad"):
                ask_status(DaemonAddress(url))

            # It is mended at the source: it begins by itself.
            bad.source.execute("EXEC sys.sp_cdc_enable_db")
            bad.source.enable("t")
            all_of.until(bad.is_caught_up, "it is published")
            all_of.until(lambda: client.get("/ready").status_code == 200, "both are told")
            assert all_of.told_of("database_resumed", "bad")
            metrics = client.get("/metrics").text
            assert 'tailrace_up{database="bad"} 1.0' in metrics
            assert 'tailrace_up{database="good"} 1.0' in metrics
            assert metrics.count("# TYPE tailrace_up gauge") == 1
            topic = bad.topic("t")
            assert f'tailrace_rows_total{{database="bad",topic="{topic}"}} 1.0' in metrics

            # It is dropped while it runs: the other goes on.
            bad.source.connection.close()
            drop(bad)
            all_of.until(lambda: status("bad").state in {"retrying", "stopped"}, "it is told")
            good.source.execute("INSERT dbo.t VALUES (2)")
            all_of.until(good.is_caught_up, "the other goes on")
            assert client.get(f"{database_path('good')}/ready").status_code == 200
            assert client.get("/nosuch").status_code == 404
    good.assert_exactly_once("t")
    assert all_of.error is None
    bad.source.server.connect("master").execute(f"CREATE DATABASE [{bad.source.name}]")


def drop(pipe: Pipe) -> None:
    connection = pipe.source.server.connect("master")
    name = pipe.source.name
    connection.execute(f"ALTER DATABASE [{name}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
    connection.execute(f"DROP DATABASE [{name}]")
    connection.close()


def test_one_that_waiting_does_not_cure_is_stopped_until_it_is_asked_for(pipes: tuple[Pipe, Pipe]):
    good, bad = pipes
    master = good.source.server.connect("master")
    login = f"reader_{bad.source.name}"
    password = "Rough-And-Ready-1"
    bad.source.execute("EXEC sys.sp_cdc_enable_db")
    bad.source.enable("t")
    options = bad.options(metrics_port=0)
    options["source"] |= {"user": login, "password": password}
    with RunningAll(
        {"good": good.config(metrics_port=0), "bad": PublisherConfig.load(options)}
    ) as all_of:
        url = url_of(all_of)
        all_of.until(lambda: bool(all_of.told_of("database_stopped", "bad")), "it is told")
        all_of.until(good.is_caught_up, "the other is published")
        stopped = all_of.told_of("database_stopped", "bad")[0]
        assert (stopped["error"], "SIGHUP" in stopped["fix"]) == ("LoginRefused", True)
        with httpx.Client(base_url=url, trust_env=False) as client:
            path = database_path("bad")
            assert client.get(f"{path}/ready").text == "not publishing, stopped\n"
            assert 'tailrace_up{database="bad"} 0.0' in client.get("/metrics").text
            assert client.get("/health").text == "ok, but bad is stopped\n"
            started = client.post(f"{database_path('good')}/start", json={})
            assert (started.status_code, "is not stopped: running" in started.text) == (409, True)
            assert client.post(f"{path}/pause", json={}).status_code == 503

            all_of.start.set()  # as SIGHUP does; nothing is mended yet
            all_of.until(lambda: len(all_of.told("database_stopped")) == 2, "it was tried")

            master.execute(f"CREATE LOGIN [{login}] WITH PASSWORD = '{password}'")
            master.execute(f"ALTER SERVER ROLE sysadmin ADD MEMBER [{login}]")
            assert client.post(f"{path}/start", json={}).status_code == 202
            all_of.until(bad.is_caught_up, "it is published")
            assert client.get(f"{path}/ready").text == "publishing\n"
    assert rows_of(bad)() == rows_of(good)() == 1
    master.close()


def test_where_none_goes_on_the_process_ends_with_the_reason(pipes: tuple[Pipe, Pipe]):
    good, bad = pipes
    refused = bad.options()
    refused["source"]["password"] = "wrong"
    once = good.config(snapshot={"mode": "initial_only"})
    with RunningAll({"bad": PublisherConfig.load(refused), "good": once}) as all_of:
        error = all_of.ended()
    assert isinstance(error, LoginRefused)
    assert [entry["database"] for entry in all_of.told("database_stopped")] == ["bad"]
    assert rows_of(good)() == 1  # nothing more was wanted of it
    with RunningAll({"a": good.config(), "b": replace_prefix(bad, good)}) as all_of:
        error = all_of.ended()
    assert isinstance(error, PublisherError)
    assert "databases a and b have the same prefix" in str(error)


def replace_prefix(pipe: Pipe, other: Pipe) -> PublisherConfig:
    return replace(pipe, topics=other.topics).config()


def test_the_command_publishes_what_it_can_and_ends_when_it_is_told(
    pipes: tuple[Pipe, Pipe], tmp_path: Path
):
    good, _ = pipes
    options = good.options(metrics_port=free_port())
    shared = {name: options.pop(name) for name in ("kafka", "registry")}
    options["source"].pop("database")
    options.pop("prefix")
    file = tmp_path / "tailrace.json"  # which is YAML
    names = {good.source.name: {"prefix": good.topics.prefix}, "nowhere": None}
    prefix = f"{good.topics.prefix}-all"
    file.write_text(
        json.dumps({"prefix": prefix, "publisher": options, "databases": names, **shared})
    )
    command = [sys.executable, "-m", "tailrace", "publish", "--config", str(file)]
    log = tmp_path / "log"
    url = f"http://127.0.0.1:{options['metrics_port']}"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*command, "--log-format", "json"], stdout=out, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            wait_until(lambda: good.is_caught_up(), "one is published")
            process.send_signal(signal.SIGHUP)  # begins what is stopped, and ends nothing
            wait_until(lambda: log.read_text().count('"database_failed"') > 1, "the other waits")
            waits = "not publishing, nowhere is retrying\n"  # but while it tries, it starts
            wait_until(lambda: httpx.get(f"{url}/ready", trust_env=False).text == waits, "it waits")
            assert ": running since" in ask_text(f"{url}{database_path(good.source.name)}")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    of_threads = {
        line.get("database") for line in lines if line["event"] == "capture_instance_found"
    }
    assert of_threads == {good.source.name}
    assert rows_of(good)() == 1


def ask_text(url: str) -> str:
    return httpx.get(f"{url}/status", headers={"Accept": "text/plain"}, trust_env=False).text
