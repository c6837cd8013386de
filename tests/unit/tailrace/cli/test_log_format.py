"""JSON lines of the daemons."""

import json
import os
import signal
import subprocess
import sys

import pytest
import structlog
from pydantic import SecretStr

from tailrace.cli.log_format import set_log_format
from tailrace.reading.terminal import escape_fields


def test_a_json_line_has_the_event_and_its_fields_and_no_secret(capsys):
    set_log_format("json", "publisher")

    structlog.get_logger("x").warning(
        "table_stopped", table="dbo.«t»", password=SecretStr("hidden"), rows=3, at=1.5
    )

    found = json.loads(capsys.readouterr().out)
    assert list(found)[:4] == ["timestamp", "level", "program", "event"]
    assert found.pop("timestamp").endswith("Z")
    assert found == {
        "program": "publisher",
        "level": "warning",
        "event": "table_stopped",
        "table": "dbo.«t»",
        "password": "**********",
        "rows": 3,
        "at": 1.5,
    }


def test_text_stays_as_it_is_but_for_what_a_terminal_obeys():
    before = structlog.get_config()
    for _ in range(2):
        set_log_format("text", "sink")
        *processors, render = structlog.get_config()["processors"]
        assert processors == [*before["processors"][:-1], escape_fields]
        assert render is before["processors"][-1]


@pytest.mark.slow("a publisher is started as a process and waits for a login")
def test_a_daemon_logs_as_it_is_told_from_its_first_line_on():
    options = {
        "prefix": "p",
        "kafka.bootstrap": "127.0.0.1:1",
        "registry.url": "http://127.0.0.1:1",
        "publisher.source.host": "127.0.0.1",
        "publisher.source.port": "1",
        "publisher.source.database": "d",
        "publisher.source.user": "u",
        "publisher.source.password": "never-told-1",
        "publisher.source.login_timeout_s": "1",
        "publisher.metrics_port": "0",
    }
    flags = [word for option in options.items() for word in ("--set", "=".join(option))]
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", "publish", *flags],
        env={**os.environ, "TAILRACE_LOG_FORMAT": "json"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (first["event"], first["level"], first["program"]) == (
        "http_served",
        "info",
        "publisher",
    )
    assert (second["event"], second["error"]) == ("retrying", "SourceUnavailable")
    assert process.returncode == 0
    told = [json.loads(line) for line in rest.splitlines()]
    assert "never-told-1" not in json.dumps([first, second, *told])
