"""A command that a part does not answer ends with one sentence: what, where, and the fix."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException

from tailrace.cli.failures import sentence_of
from tailrace.cli.root import cli
from tailrace.reading.kafka_failure import kafka_failure
from tailrace_publisher.errors import DeliveryRejected, KafkaUnavailable
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_service.registry.access import open_registry
from tailrace_service.registry.client import RegistryUnavailable
from tailrace_service.registry.options import RegistryConfig
from tests.small_disk import fill, small_disk

COMMANDS = (
    ["tail"],
    ["audit"],
    ["pause", "--wait", "1"],
    ["seek", "readers"],
    ["schema", "dbo.orders"],
    ["snapshot", "dbo.orders"],
)


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def config(folder: Path, bootstrap: str) -> str:
    file = folder / "tailrace.yaml"
    file.write_text(
        f"""
prefix: shop
kafka: {{bootstrap: "{bootstrap}", start_timeout_s: 1}}
registry: {{url: "http://127.0.0.1:1"}}
publisher: {{source: {{host: 127.0.0.1, port: 1, database: Shop, user: u, password: p}}}}
"""
    )
    return str(file)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_silent_brokers_are_named_with_address_and_fix(command, silent: str, tmp_path: Path):
    name, *arguments = command
    answer = CliRunner().invoke(cli, [name, "--config", config(tmp_path, silent), *arguments])

    assert (answer.exit_code, answer.output.count("\n")) == (1, 1), answer.output
    assert f"Kafka at {silent} does not answer" in answer.output
    assert "Fix: start a broker there, or check kafka.bootstrap" in answer.output
    assert "KafkaError" not in answer.output


def test_brokers_that_refuse_are_not_called_silent():
    kafka = KafkaConfig(bootstrap="k1:9092")
    refused = kafka_failure(kafka, KafkaException(KafkaError(KafkaError._AUTHENTICATION)))
    assert isinstance(refused, DeliveryRejected)
    assert "Kafka at k1:9092" in str(refused)
    assert isinstance(kafka_failure(kafka), KafkaUnavailable)


def test_a_registry_that_is_away_is_named_with_its_option():
    registry = open_registry(RegistryConfig(url="http://127.0.0.1:1"))
    with registry, pytest.raises(RegistryUnavailable) as away:
        registry.versions("shop.Shop.dbo.orders-value")
    said = sentence_of(away.value, None)
    assert said is not None
    assert said.startswith("schema registry http://127.0.0.1:1 is not available: ")
    assert said.endswith("Fix: start it, or check registry.url")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a record of a stack, and no room."""
    with small_disk(tmp_path / "full", "16k") as folder:
        (folder / "stack.json").write_text('{"processes": {"owner": [1, "then"]}}')
        (folder / "stack.lock").touch()
        fill(folder)
        yield folder


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_full_disk_is_one_sentence(command: str, full_disk: Path):
    answer = CliRunner().invoke(cli, [command, "--data-dir", str(full_disk)])
    said = f"The disk is full at {full_disk}/stack.json. Fix: free some space"
    assert (answer.exit_code, said in answer.output) == (1, True), answer.output
    assert not (full_disk / "stack.json.partial").exists()
    assert "then" in (full_disk / "stack.json").read_text()


def test_without_a_terminal_no_password_is_typed_in_the_open(tmp_path: Path):
    command = [sys.executable, "-m", "tailrace", "enable", "dbo.orders", "--login", "sa"]
    command += ["--config", config(tmp_path, "127.0.0.1:1")]
    answer = subprocess.run(
        command,
        input="secret\n",
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    said = "There is no terminal to prompt for the password. Fix: add --password-file\n"
    assert (answer.returncode, answer.stdout + answer.stderr) == (1, said)


def test_a_closed_terminal_leaves_no_trace():
    code = (
        "import click; from tailrace.cli.root import cli, main;"
        "cli.add_command(click.Command('all', callback=lambda: [click.echo(n) for n in"
        " range(99999)])); import sys; sys.argv[1:] = ['all']; main()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 1
