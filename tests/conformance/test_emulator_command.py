"""``tailrace emulator``: the server alone, as a person starts it."""

import os
import re
import signal
import subprocess
import sys

import pyodbc

from tailrace_emulator.testing.odbc import driver
from tests.fix_emulator import REPOSITORY

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
