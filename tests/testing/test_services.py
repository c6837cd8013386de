"""Broker, registry and Spark of a session's pipelines: begun at once, stopped at any time."""

from pathlib import Path

import pytest

from tailrace.testing.services import Services
from tailrace.testing.spark_host import HostedSink, SparkHost


@pytest.mark.kafka
def test_a_session_that_ends_during_their_start_leaves_no_process(tmp_path):
    services = Services(tmp_path).start()
    services.stop()
    assert processes_over(tmp_path) == []


def test_given_addresses_are_used_and_nothing_is_started(tmp_path):
    lines: list[str] = []
    services = Services(tmp_path, "kafka:9092", "http://registry", lines.append).start()
    assert (services.bootstrap_servers, services.registry_url) == ("kafka:9092", "http://registry")
    services.stop()
    assert list(tmp_path.iterdir()) == []
    assert lines == []


@pytest.mark.spark
def test_a_sink_ends_with_its_killed_spark_and_starts_again_in_a_new_one(tmp_path):
    lines: list[str] = []
    host = SparkHost(tmp_path, lines.append)
    sink = HostedSink(host, tmp_path / "tailrace.yaml")
    try:
        sink.start()  # does not wait for Spark
        assert sink.is_running
        first = host.process.pid
        sink.kill()
        assert not sink.is_running
        assert str(tmp_path / "spark.log") in str(sink.failure("ended"))
        sink.start()
        assert host.process.pid not in (None, first)
    finally:
        host.stop()
    assert not sink.is_running
    assert processes_over(host._folder) == []  # Spark's JVM included
    assert not host._folder.exists()
    assert lines == ["starting Spark, which later pipelines of the session use again"] * 2


def processes_over(folder: Path) -> list[str]:
    """Command lines of running processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if str(folder) in command:
            found.append(command)
    return found
