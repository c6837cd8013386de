"""A part that is away is waited for, and told; nothing is lost and nothing is there twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace.subscribe import Feed, RegistryError, Start, subscribe
from tailrace_compose.local.broker import KafkaBroker
from tailrace_publisher.errors import PublisherReplaced
from tests.pipeline.conftest import Pipe, Topics
from tests.pipeline.proxy import Proxy
from tests.pipeline.running import Running, wait_until
from tests.pipeline.source_database import SourceDatabase
from tests.pipeline.subscribe.subscribers import UNTIL_NOW, changes, following

pytestmark = pytest.mark.kafka


def is_waiting_for(publisher: Running, *errors: str) -> bool:
    return any(entry["error"] in errors for entry in publisher.told("retrying"))


@pytest.mark.slow("a broker is killed and started twice")
def test_kafka_is_down_at_the_start_and_in_mid_stream(
    emulator: EmulatorProcess,
    kafka_broker: KafkaBroker,
    registry: str,
    capfd: pytest.CaptureFixture[str],
):
    source = SourceDatabase(emulator, "outage")
    pipe = Pipe(source, Topics(kafka_broker.bootstrap_servers, registry, "kafkadown"))
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")
    kafka_broker.kill()
    kafka_options = pipe.options()["kafka"] | {
        "start_timeout_s": 3,
        "commit_timeout_s": 3,
        "extra": {"socket.connection.setup.timeout.ms": "2000"},
    }

    with Running(pipe.config(kafka=kafka_options)) as publisher:
        publisher.until(lambda: is_waiting_for(publisher, "KafkaUnavailable"), "it says so")
        kafka_broker.start()
        publisher.until(pipe.is_caught_up, "it has begun")

        with following(pipe) as subscribed:
            kafka_broker.kill()
            source.execute("INSERT dbo.t VALUES (1), (2)", "DELETE dbo.t WHERE id = 1")
            source.scan()
            told = len(publisher.told("retrying"))
            publisher.until(lambda: len(publisher.told("retrying")) > told, "it says so again")
            kafka_broker.start()
            publisher.until(pipe.is_caught_up, "it goes on")
            publisher.until(lambda: len(changes(subscribed)) == 3, "so does a subscriber")
        assert [change.op for change in changes(subscribed)] == ["c", "c", "d"]
        lines = [entry["text"] for entry in publisher.told("kafka_client")]
        assert sum("tailrace-kafkadown-outage" in line for line in lines) >= 1
        assert len(lines) < 20, "each thing is told once"

    assert "|FAIL|" not in capfd.readouterr().err
    pipe.assert_exactly_once("t")


def test_the_registry_is_down_at_the_start_and_when_a_version_is_new(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, n int)", "INSERT dbo.t VALUES (1, 1)")
    source.enable("t")
    proxy, url = Proxy.before(pipe.topics.registry_url)

    try:
        with Running(pipe.config(registry={"url": url})) as publisher:
            publisher.until(lambda: is_waiting_for(publisher, "RegistryUnavailable"), "it says so")
            proxy.open()
            publisher.until(pipe.is_caught_up, "it goes on")
            proxy.close()
            told = len(publisher.told("retrying"))
            source.execute(
                "ALTER TABLE dbo.t ALTER COLUMN n bigint", "INSERT dbo.t VALUES (2, 10000000000)"
            )
            source.scan()
            publisher.until(lambda: len(publisher.told("retrying")) > told, "it says so again")
            proxy.open()
            publisher.until(pipe.is_caught_up, "it goes on again")
        feed = Feed(pipe.topics.bootstrap, url, pipe.topics.prefix)
        with subscribe(feed, [], Start.beginning(), options=UNTIL_NOW) as subscription:
            proxy.close()
            with pytest.raises(RegistryError, match="is not available"):
                list(subscription)
            proxy.open()
            values = [change.after["n"] for change in changes(list(subscription))]
            assert values == [1, 10_000_000_000], "a subscriber misses nothing"
    finally:
        proxy.close()

    assert len(pipe.topics.snapshot(source.name, "t")) == 1
    pipe.assert_exactly_once("t")


def test_the_server_goes_away_and_comes_back(emulator: EmulatorProcess, kafka: str, registry: str):
    source = SourceDatabase(emulator, "restart")
    pipe = Pipe(source, Topics(kafka, registry, "serverdown"))
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.execute("INSERT dbo.t VALUES (1)")
        emulator.kill()
        publisher.until(lambda: is_waiting_for(publisher, "SourceUnavailable"), "it says so")
        emulator.start()
        source.connection = emulator.connect("restart")
        publisher.until(pipe.is_caught_up, "it goes on")

    pipe.assert_exactly_once("t")


def test_a_stopped_capture_job_is_told(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")

    with Running(pipe.config(capture_stall_s=1, heartbeat_s=0.2)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        publisher.until(lambda: bool(publisher.told("capture_job_stalled")), "it says so")
        age = publisher.metrics.registry.get_sample_value("tailrace_capture_scan_age_seconds")
        assert age is not None
        assert age > 1
        source.scan()
        publisher.until(lambda: bool(publisher.told("capture_job_resumed")), "it says so")


def test_the_lag_grows_while_the_capture_job_stands_still(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")

    def lag() -> float:
        value = publisher.metrics.registry.get_sample_value("tailrace_lag_seconds")
        assert value is not None
        return value

    def lag_behind_a_scan() -> float:
        source.scan()
        return lag()

    with Running(pipe.config(heartbeat_s=0.2, poll_interval_ms=50)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        publisher.until(
            lambda: lag_behind_a_scan() < 1, "a quiet database that is scanned is up to date"
        )
        inserted_ms = time.time_ns() // 1_000_000
        source.execute("INSERT dbo.t VALUES (1)")
        publisher.until(lambda: lag() > 1.5, "nothing is captured, and the lag says so")
        through = pipe.topics.progress()[-1]["through_commit_ms"]
        assert through is not None
        assert through <= inserted_ms
        publisher.until(lambda: lag_behind_a_scan() < 1, "it is up to date again")


def test_a_second_publisher_started_by_mistake_leaves_the_first_one_running(
    pipe: Pipe, tmp_path: Path
):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")
    options = pipe.options(heartbeat_s=0.5)
    options["source"]["password"] = str(options["source"]["password"])
    file = tmp_path / "tailrace.json"  # which is YAML
    file.write_text(json.dumps({"publisher": options}))
    command = [sys.executable, "-m", "tailrace", "publish", "--config", str(file)]

    with Running(pipe.config(heartbeat_s=0.5)) as first:
        first.until(pipe.is_caught_up, "the first has begun")
        second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert second.returncode == 1, second.stderr
        named = f"process {os.getpid()} on {socket.gethostname()}"
        assert second.stderr.startswith("AnotherPublisherRuns: ")
        assert named in second.stderr
        assert "--take-over" in second.stderr
        source.execute("INSERT dbo.t VALUES (1)")
        first.until(pipe.is_caught_up, "it goes on")
        assert not first.told("retrying")


def test_of_two_publishers_one_remains_and_nothing_is_published_twice(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")
    first = Running(pipe.config(heartbeat_s=0.2))
    second = Running(pipe.config(heartbeat_s=0.2))

    with first:
        first.until(pipe.is_caught_up, "the first has begun")
        with second:
            for number in range(20):
                source.execute(f"INSERT dbo.t VALUES ({number})")
                source.scan()
            wait_until(lambda: bool(first.error or second.error), "one of them ends")
            remaining = second if first.error else first
            remaining.until(pipe.is_caught_up, "the other goes on")
            ended = first if first.error else second
            assert isinstance(ended.ended(), PublisherReplaced)

    pipe.assert_exactly_once("t")
