"""The provisioning step of compose.yaml, against the embedded server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tailrace.testing import EmulatedSqlServer
from tests.pipeline.running import wait_until

ROOT = Path(__file__).parents[2]
LOGIN_PASSWORD = "Publisher-1"


@pytest.fixture(scope="module")
def server():
    with EmulatedSqlServer() as started:
        yield started


@pytest.fixture
def provisioning(server, tmp_path):
    """Starts the step; whatever still runs at the end is stopped."""
    started: list[subprocess.Popen[str]] = []

    def start(password: str | None = None, **environ: str) -> subprocess.Popen[str]:
        (tmp_path / "sa").write_text(password or server.password)
        (tmp_path / "login").write_text(LOGIN_PASSWORD)
        command = [sys.executable, "-m", "tailrace_compose.provision", "--port", str(server.port)]
        command += ["--password-file", str(tmp_path / "sa")]
        command += ["--ready-file", str(tmp_path / "ready")]
        own = {"TAILRACE_LOGIN_PASSWORD_FILE": str(tmp_path / "login"), "TAILRACE_DATABASE": "Shop"}
        started.append(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | own | environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_database_login_and_workload_are_made_once_and_go_on_after_a_restart(
    server, provisioning, tmp_path
):
    for _ in range(2):
        process = provisioning(TAILRACE_WORKLOAD_PER_S="50")
        wait_until((tmp_path / "ready").exists, "it is provisioned", 60)
        before = len(server.change_rows("Shop", "dbo_orders"))

        def captured(before: int = before) -> bool:
            server.capture("Shop")
            return len(server.change_rows("Shop", "dbo_orders")) > before

        wait_until(captured, "the workload is captured", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, process.stderr.read()
        (tmp_path / "ready").unlink()

    with closing(server.connect("Shop")) as connection:
        customers = connection.execute("SELECT COUNT(*) FROM dbo.customers").fetchval()
        instances = connection.execute("SELECT COUNT(*) FROM cdc.change_tables").fetchval()
    assert (customers, instances) == (50, 2)
    with closing(server.connect("Shop")) as connection:
        granted = connection.execute(
            "SELECT class_desc, OBJECT_NAME(major_id) FROM sys.database_permissions WHERE"
            " permission_name = N'SELECT' AND grantee_principal_id = DATABASE_PRINCIPAL_ID(?)",
            "tailrace",
        ).fetchall()
    assert {name for kind, name in granted if kind == "OBJECT_OR_COLUMN"} == {"customers", "orders"}
    assert [kind for kind, _ in granted].count("SCHEMA") == 1  # cdc


def test_a_wrong_password_says_what_a_volume_keeps(provisioning):
    process = provisioning(password="Wrong-123")
    assert process.wait(60) == 1
    said = process.stderr.read()
    assert "refuses the password of sa" in said
    assert "Wrong-123" not in said


def test_a_name_that_would_be_sql_is_refused(provisioning):
    process = provisioning(TAILRACE_DATABASE="Shop]; DROP DATABASE x")
    assert process.wait(60) == 1
    assert "letters, digits and underscores only" in process.stderr.read()
