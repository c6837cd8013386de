"""--sqlserver-dsn: a server that is known by its connection string alone is judged, and left clean.

An embedded server in a process of its own plays it, made to differ in one thing.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from emulator.tests.fix_sqlserver import require_usable

ROOT = Path(__file__).parents[3]
# Semicolon and brace: a connection string has them in braces, the second one doubled.
PASSWORD = "Given;}1"
BRACED = "{Given;}}1}"
EQUAL = "a user without permissions is refused by name"
DIFFERENT = "a rolled back transaction leaves nothing"


@pytest.fixture
def given(tmp_path):
    """Its services run under an account for which no capture job can be made."""
    server = EmulatorProcess(
        tmp_path / "given", PASSWORD, options=("--service-account", "NETWORK SERVICE")
    )
    server.start()
    yield server
    server.close_connections()
    server.stop()


def judge(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    command += ["emulator/tests/conformance/test_conformance.py"]
    command += ["--sqlserver-dsn", dsn, *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_differences_are_told_and_nothing_is_left_behind(given):
    dsn = given.connection_string(PWD=BRACED)
    wanted = [" and ".join(case.split()) for case in (DIFFERENT, EQUAL)]
    done = judge(dsn, "-k", " or ".join(f"({words})" for words in wanted))
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "documented: 1 passed, 1 failed" in done.stdout
    table = done.stdout[done.stdout.index("where the given server differs") :]
    assert "the given one: Tailrace embedded SQL Server" in table
    told = re.sub(r"\s+", " ", table)
    assert f"documented: capture: {DIFFERENT}, step 2 sql: EXEC sys.sp_cdc_enable_table" in told
    assert "expected: no error got: error 22832: Could not update the metadata" in told
    assert EQUAL not in told

    with given.connect(PWD=BRACED) as connection:
        left = connection.execute("SELECT name FROM sys.databases WHERE database_id > 4").fetchall()
        logins = connection.execute(
            "SELECT name FROM sys.server_principals WHERE name LIKE 'conformance%'"
        ).fetchall()
    assert (left, logins) == ([], [])


def test_a_server_that_cannot_be_used_is_told_once(given):
    with pytest.raises(pytest.UsageError, match="--sqlserver-dsn has no UID, PWD"):
        require_usable("DRIVER={x};SERVER=nowhere.invalid;Trusted_Connection=yes")
    with pytest.raises(pytest.UsageError, match=r"Login failed for user 'sa'(.|\n)*docs/real-sql"):
        require_usable(given.connection_string(PWD="Wrong-1"))
    with given.connect(PWD=BRACED) as connection:
        connection.execute("CREATE LOGIN [weak] WITH PASSWORD = N'Enough-1x'")
    with pytest.raises(pytest.UsageError, match=r"sysadmin ADD MEMBER \[weak\]"):
        require_usable(given.connection_string(UID="weak", PWD="Enough-1x"))
    assert require_usable(given.connection_string(PWD=BRACED)).startswith("Tailrace embedded")
