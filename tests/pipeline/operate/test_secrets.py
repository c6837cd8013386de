"""Marked secrets, given in every way that there is, are looked for in everything that is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tailrace.cli.root import cli
from tests.fix_certificates import KEY_PASSWORD, Chain
from tests.fix_kafka import SharedBroker
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import wait_until

pytestmark = pytest.mark.kafka

MARK = "Marked"
TOKEN = f"{MARK}-token-of-the-endpoints"
assert MARK in KEY_PASSWORD


class Told:
    """What was told: by the commands, and by processes and the lines that started them."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}

    def add(self, name: str, text: str) -> str:
        self.parts[name] = self.parts.get(name, "") + text
        return text

    def command(self, name: str, *arguments: str) -> str:
        answer = CliRunner().invoke(cli, arguments)
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer
        return self.add(name, answer.output)

    @contextmanager
    def process(self, name: str, *arguments: str) -> Iterator[list[str]]:
        """A command as a process, until the block ends; gives its lines as they come."""
        lines: list[str] = []
        process = subprocess.Popen(
            [sys.executable, "-m", "tailrace", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        reader = threading.Thread(target=lambda out=process.stdout: lines.extend(out))
        reader.start()
        try:
            yield lines
            command_line = Path(f"/proc/{process.pid}/cmdline")
            if command_line.exists():  # on Linux
                assert name in self.add("process list", command_line.read_text())
        finally:
            process.terminate()
            process.wait(30)
            reader.join(30)
            process.stdout.close()
            self.add(name, "".join(lines))


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """Files, each with a secret of its own."""
    found = {}
    for name in ("password", "token", "key"):
        file = tmp_path / name
        text = {"token": TOKEN, "key": KEY_PASSWORD}.get(name, f"{MARK}-{name}-in-a-file-1")
        file.write_text(f"{text}\n")
        found[name] = str(file)
    return found


def options_of(
    pipe: Pipe, broker: SharedBroker, chain: Chain, secrets: dict[str, str]
) -> dict[str, Any]:
    """A configuration with secrets as values, in files, and (by the caller) in the environment."""
    publisher = pipe.options(metrics_port=0, http_token_file=secrets["token"])
    source = publisher["source"] | {"user": f"marked_{pipe.source.name}"}
    del source["password"]
    publisher["source"] = source | {"password_file": secrets["password"]}
    publisher["columns"] = {"hash": [r"dbo\.orders\.note"], "salt": f"{MARK}-salt"}
    publisher["kafka"] = {
        "bootstrap": broker.tls_bootstrap,
        "start_timeout_s": 5,
        "extra": {
            "security.protocol": "SSL",
            "ssl.ca.location": str(chain.root),
            "ssl.certificate.location": str(chain.client.chain),
            "ssl.key.location": str(chain.client_key),
            "sasl.password": f"{MARK}-sasl",
        },
        "extra_files": {"ssl.key.password": secrets["key"]},
    }
    registry = publisher.pop("registry")
    sink = {
        "lake": str(Path(secrets["token"]).with_name("lake")),
        "kafka": {
            "bootstrap": pipe.topics.bootstrap,
            "extra": {"sasl.jaas.config": f'login required password="{MARK}-jaas";'},
        },
        "spark": {"spark.hadoop.fs.s3a.secret.key": f"{MARK}-store"},
    }
    prefix = publisher.pop("prefix")
    # Nobody listens there: what OpenTelemetry says of that is looked at, too.
    tracing = {
        "endpoint": "http://127.0.0.1:1/v1/traces",
        "ratio": 1,
        "headers": {"authorization": f"{MARK}-header"},
        "timeout_s": 0.5,
    }
    return {
        **{"publisher": publisher, "sink": sink, "registry": registry, "prefix": prefix},
        "tracing": tracing,
    }


@pytest.mark.slow("each command and daemon runs once with marked secrets")
def test_no_secret_is_in_anything_that_is_told(
    pipe: Pipe,
    shared_broker: SharedBroker,
    chain: Chain,
    secrets: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    login = f"marked_{pipe.source.name}"
    password = Path(secrets["password"]).read_text().strip()
    pipe.source.execute(
        f"CREATE LOGIN {login} WITH PASSWORD = N'{password}'",
        f"ALTER SERVER ROLE sysadmin ADD MEMBER {login}",
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20))",
        "INSERT dbo.orders VALUES (1, N'a')",
    )
    pipe.source.enable("orders")
    options = options_of(pipe, shared_broker, chain, secrets)
    file = tmp_path / "tailrace.yaml"
    file.write_text(json.dumps(options))
    monkeypatch.setenv("TAILRACE__REGISTRY__USER", "cdc")
    monkeypatch.setenv("TAILRACE__REGISTRY__PASSWORD", f"{MARK}-registry-in-the-environment")
    config, told = ("--config", str(file)), Told()

    with told.process("publish", "publish", *config, "--log-format", "json") as lines:
        wait_until(pipe.is_caught_up, "it publishes: file, key and authorities are right")
        pipe.source.execute("INSERT dbo.orders VALUES (2, N'b')")
        wait_until(pipe.is_caught_up, "a change is out, and its spans are to be sent")
        served = next(json.loads(line) for line in lines if '"http_served"' in line)
        url = str(served["url"])
        asked = httpx.get(f"{url}/status", headers={"Authorization": f"Bearer {TOKEN}"})
        assert asked.status_code == 200, "the token is right"
        for answer in (asked, httpx.get(f"{url}/metrics"), httpx.get(f"{url}/status")):
            told.add("endpoint", answer.text + str(answer.headers))
        page = ("--port", "0", "--token-file", secrets["token"], "--publisher-url", url)
        with told.process("web", "web", *config, *page) as shown:
            wait_until(lambda: bool(shown), "it tells its address")
            with httpx.Client(base_url=shown[0].split()[-1], timeout=60) as client:
                for path in ("/", "/model.json", "/table?name=dbo.orders&key=1", "/static/page.js"):
                    assert client.get(path).status_code == 401
                    seen = client.get(path, auth=("", TOKEN))
                    assert seen.status_code == 200
                    told.add("page", seen.text + str(seen.headers))
        assert "change: " in told.parts["page"] or "source now" in told.parts["page"]
        for arguments in (
            *(["doctor"], ["doctor", "--json"], ["status"], ["lag"], ["lag", "--json"], ["audit"]),
            *(["tail"], ["tail", "--json"], ["explain", "dbo.orders", "1"], ["grants"]),
            *(["schema", "dbo.orders"], ["enable", "dbo.orders"], ["snapshot", "dbo.nosuch"]),
        ):
            assert told.command(arguments[0], *arguments, *config), arguments
    assert '"followed"' in told.parts["endpoint"]
    assert f"login {login}" not in told.parts["doctor"]

    monkeypatch.delenv("TAILRACE__REGISTRY__PASSWORD")
    monkeypatch.delenv("TAILRACE__REGISTRY__USER")
    for name, (change, words) in REFUSED.items():
        wrong = json.loads(json.dumps(options))
        wrong["prefix"] += "x"  # of one that has published some are waited for
        place, key, value = wrong, *change[-2:]
        for part in change[:-2]:
            place = place[part]
        place[key] = value
        file.write_text(json.dumps(wrong))
        for command in ("publish", "doctor"):
            assert words in told.command(name, command, *config), name
    file.write_text(f"publisher: {{source: {{password: '{MARK}-unclosed}}")
    assert "is not YAML" in told.command("not YAML", "status", *config)
    flag = f"publisher.source.odbc=[{MARK}"
    assert "is not YAML" in told.command("not YAML", "status", "--set", flag)

    assert {name for name, text in told.parts.items() if MARK in text} == set()
    assert os.getpid()


REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "wrong password": (
        ("publisher", "source", "password_file", __file__),
        "check source.user and source.password",
    ),
    "certificate of the source": (
        ("publisher", "source", "trust_server_certificate", False),
        "TLS failed",
    ),
    "key of Kafka": (
        ("publisher", "kafka", "extra_files", {"ssl.key.password": __file__}),
        "kafka",
    ),
    "two ways": (("publisher", "source", "password", f"{MARK}-1"), "give exactly one of"),
    "a password that is a list": (
        ("publisher", "registry", {"user": "u", "password": [f"{MARK}-2"]}),
        "registry.password",
    ),
    "a password in the collector's address": (
        ("tracing", "endpoint", f"http://me:{MARK}-6@collector/v1/traces"),
        "put them into headers",
    ),
    "misspelt": (("publisher", "source", "pasword", f"{MARK}-3"), "did you mean password?"),
    "in the url": (
        ("registry", "url", f"http://cdc:{MARK}-4@127.0.0.1:1"),
        "put them into user and password",
    ),
    "a salt that is too short": (("publisher", "columns", "salt", MARK), "salt"),
    "what is taken": (
        ("publisher", "kafka", "extra", {"acks": f"{MARK}-5"}),
        "exactly-once delivery sets it",
    ),
}
