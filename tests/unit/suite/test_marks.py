"""A test has the marks of what it uses, and cannot use what it has no mark for."""

import subprocess
import sys

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from tailrace_compose.local.broker import KafkaBroker
from tailrace_compose.local.registry import SchemaRegistry
from tests.suite.marks import NotMarked, mark_of, marks_of


@pytest.mark.parametrize(
    ("path", "fixtures", "marks"),
    [
        ("tests/unit/test_x.py", ["tmp_path", "emulator"], set()),
        ("tests/pipeline/test_x.py", ["pipeline", "kafka", "registry"], {"kafka"}),
        ("tests/sink/test_x.py", ["lake", "spark", "kafka"], {"spark", "kafka"}),
        ("emulator/tests/clients/test_x.py", ["source"], {"clients"}),
        ("tests/containers/test_x.py", ["images", "container_engine"], {"containers"}),
    ],
)
def test_a_test_has_the_marks_of_its_folder_and_its_fixtures(path, fixtures, marks):
    assert marks_of(path.split("/"), fixtures) == marks


def test_a_test_without_the_mark_cannot_start_a_broker(tmp_path):
    broker = KafkaBroker(tmp_path / "kafka")
    with pytest.raises(NotMarked, match=r"cannot_start_a_broker starts .* no mark 'kafka'"):
        broker.start()
    assert broker.pid is None


def test_a_test_without_the_mark_cannot_start_a_registry(tmp_path):
    registry = SchemaRegistry(tmp_path / "registry")
    with pytest.raises(NotMarked, match="no mark 'kafka'"):
        registry.start()
    assert registry.pid is None


def test_a_test_without_the_mark_cannot_start_spark(monkeypatch):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(NotMarked, match="no mark 'spark'"):
        launch_gateway(SparkConf(loadDefaults=False))


def test_nor_by_the_command_line():
    with pytest.raises(NotMarked, match="no mark 'kafka'"):
        subprocess.run([sys.executable, "-m", "tailrace", "up"], check=False)
    assert mark_of([sys.executable, "-m", "tailrace", "status"]) is None
    assert mark_of(["/work/.venv/bin/tailrace", "sink", "--config", "c.yaml"]) == "spark"


@pytest.mark.kafka
def test_a_test_with_the_mark_may(tmp_path):
    command = [sys.executable, "-c", "print('started')", "kafka.Kafka"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "started\n"
