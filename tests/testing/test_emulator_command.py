"""``tailrace emulator``: the server alone, as a person starts it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyodbc
import pytest

from tailrace_emulator.testing.odbc import driver

REPOSITORY = Path(__file__).parents[2]

PASSWORD = "Command-line-1"
WAIT_S = 30


def test_it_prints_how_to_connect_and_never_the_password(tmp_path):
    command = [sys.executable, "-m", "tailrace", "emulator", "--port", "0", "--agent", "manual"]
    command += ["--data-dir", str(tmp_path), "--admin", "--clock", "2001-02-03T04:05:06"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "TAILRACE_EMULATOR_PASSWORD": PASSWORD, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        listens, how = process.stdout.readline(), process.stdout.readline()
        assert PASSWORD not in listens + how
        address = re.search(r"SERVER=([^;]+);UID=sa", how)
        assert address is not None, how
        parts = how.strip().replace("<yours>", PASSWORD)
        parts = re.sub(r"DRIVER=\{[^}]*\}", lambda _: f"DRIVER={driver()}", parts)
        with pyodbc.connect(parts, timeout=WAIT_S) as connection:
            now = connection.execute("SELECT SYSUTCDATETIME()").fetchval()
        connection.close()
        assert now.isoformat() == "2001-02-03T04:05:06"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        process.stdout.close()


def test_a_short_password_is_refused_by_name(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", "emulator", "--port", "0", "--data-dir", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "TAILRACE_EMULATOR_PASSWORD": "short"},
        timeout=WAIT_S,
    )
    assert done.returncode == 2
    assert "environment variable TAILRACE_EMULATOR_PASSWORD" in done.stderr


def test_the_delay_of_a_start_is_a_span_of_time(capsys):
    from tailrace_emulator.__main__ import main

    for text in ("-1", "nan", "inf", "soon"):
        with pytest.raises(SystemExit):
            main(["--data-dir", "unused", "--agent-start-delay", text])
        assert "is no number of seconds" in capsys.readouterr().err


def test_the_delay_goes_on_to_the_server(tmp_path):
    from tailrace.local.emulator import EmulatorOptions, arguments_of

    options = EmulatorOptions(tmp_path, "127.0.0.1", 0, None, "auto", False, None, 1.5)
    assert arguments_of(options)[-2:] == ["--agent-start-delay", "1.5"]
