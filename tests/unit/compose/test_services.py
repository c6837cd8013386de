"""Broker, registry and embedded server as processes: restart, kill, and what survives."""

import json
import os
import signal
import urllib.request
from contextlib import closing
from pathlib import Path

import pyodbc
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.cli.root import cli
from tailrace_compose.local import kept
from tailrace_compose.local.stack import LocalStack, addresses, running, stop_kept
from tailrace_emulator.testing.errors import LocalStackError
from tests.pipeline.running import wait_until

pytestmark = pytest.mark.kafka
SCHEMA = json.dumps({"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]})


def register(url: str, subject: str) -> int:
    request = urllib.request.Request(  # noqa: S310
        f"{url}/subjects/{subject}/versions",
        data=json.dumps({"schema": SCHEMA}).encode(),
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return int(json.load(answer)["id"])


def kill(pid: int) -> None:
    """Returns when the process is gone: a large one is still seen for a while after SIGKILL."""
    process = kept.kept_process(pid)
    assert process is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not process.is_running, f"process {pid} is gone", 30)


def subjects(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/subjects", timeout=30) as answer:  # noqa: S310
        return list(json.load(answer))


def test_broker_keeps_committed_transactions_over_a_kill_on_the_same_port(kafka_broker):
    address = kafka_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic("kept", 1)])["kept"].result(30)
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": "writer", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("kept", b"value")
    producer.commit_transaction(30)

    kafka_broker.kill()
    assert kafka_broker.start() == address

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["kept"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"value"


def test_topics_are_not_made_by_a_misspelt_name(kafka):
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.list_topics("no-such-topic", timeout=10)
    assert "no-such-topic" not in admin.list_topics(timeout=10).topics


def test_registry_keeps_what_it_answered_over_a_kill(schema_registry):
    url = schema_registry.url
    number = register(url, "kept-value")
    schema_registry.kill()
    assert schema_registry.start() == url
    assert subjects(url) == ["kept-value"]
    assert register(url, "kept-value") == number


@pytest.mark.slow("broker and registry start three times")
def test_stack_lives_on_heals_and_comes_back_at_its_addresses(tmp_path):
    def command(verb, *words):
        done = CliRunner().invoke(cli, [verb, "--data-dir", str(tmp_path), *words])
        assert done.exit_code == 0, done.output
        return done.output

    def pids():
        return {part: pid for part, (pid, _) in kept.read(tmp_path)["processes"].items()}

    try:
        said = command("up")
        first = pids()
        assert f"Kafka broker         started (process {first['broker']})" in said
        assert f"schema registry      started (process {first['registry']})" in said
        assert f"embedded SQL Server  started (process {first['emulator']})" in said
        known = addresses(tmp_path)
        assert subjects(known["registry_url"]) == []
        admin = AdminClient({"bootstrap.servers": known["bootstrap_servers"]})
        assert list(admin.list_topics(timeout=10).brokers) == [1]
        password_file = Path(known["sqlserver"]["password_file"])
        assert password_file.stat().st_mode & 0o077 == 0
        with pytest.raises(LocalStackError, match="tailrace down"):
            LocalStack(tmp_path).start()

        kill(first["emulator"])
        said = command("up")
        second = pids()
        assert f"Kafka broker         ran already (process {first['broker']}), left alone" in said
        assert f"schema registry      ran already (process {first['registry']})" in said
        assert f"SQL Server  had ended, started again (process {second['emulator']})" in said
        assert addresses(tmp_path) == known
        # What was found is known as well as what was started.
        found = LocalStack(tmp_path, keep=True).start()
        assert [report.outcome for report in found.reports] == ["left alone"] * 3
        with closing(pyodbc.connect(found.emulator.connection_string(), timeout=10)) as connection:
            assert connection.execute("SELECT 1").fetchval() == 1

        told = command("sql", "SELECT 'first' AS note\nGO\nSELECT 0x00FF AS x, NULL AS y")
        for text in ("note", "first", "0x00FF", "NULL"):
            assert text in told
        wrong = CliRunner().invoke(cli, ["sql", "--data-dir", str(tmp_path), "SELECT 1/0"])
        assert (wrong.exit_code, "Divide by zero" in wrong.output) == (1, True), wrong.output

        kill(second["registry"])
        said = command("down")
        assert f"Kafka broker         stopped (process {first['broker']})" in said
        assert f"schema registry      was already gone (process {first['registry']} ended" in said
        assert f"embedded SQL Server  stopped (process {second['emulator']})" in said
        assert not running(tmp_path)
        assert command("down").count("was not running") == 3

        with LocalStack(tmp_path) as again:
            assert addresses(tmp_path) == known
            with closing(pyodbc.connect(again.emulator.connection_string())) as connection:
                assert connection.execute("SELECT 1").fetchval() == 1
        assert not running(tmp_path)
    finally:
        stop_kept(tmp_path)
