"""``tailrace.testing.EmulatedSqlServer`` as somebody else's tests use it."""

from __future__ import annotations

import datetime
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyodbc
import pytest

from tailrace.testing import EmulatedSqlServer
from tailrace_emulator.testing.errors import NotStarted
from tailrace_emulator.testing.source import native_numbers

ROOT = Path(__file__).parents[2]
ORDERS = "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, note nvarchar(20))"


@pytest.fixture(scope="module")
def server():
    with EmulatedSqlServer() as started:
        yield started


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_changes_are_captured_when_the_test_says_so_though_the_job_runs(server):
    with server.database("Shop", ORDERS, "INSERT INTO dbo.orders VALUES (1, N'before')") as shop:
        server.enable_cdc(shop, "orders")
        server.execute(shop, "UPDATE dbo.orders SET note = N'Å'", "DELETE FROM dbo.orders")
        server.capture(shop)

        rows = [
            (row["__$operation"], row["note"]) for row in server.change_rows(shop, "dbo_orders")
        ]
        assert rows == [(3, "before"), (4, "Å"), (1, "Å")]


def test_the_jobs_scan_as_often_as_the_source_says(server):
    with server.database("Often", ORDERS) as database:
        server.enable_cdc(database, "dbo.orders")
        with closing(server.connect(database)) as connection:
            jobs = connection.execute(
                "SELECT pollinginterval FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()"
                " AND job_type = N'capture'"
            ).fetchall()
        assert [tuple(row) for row in jobs] == [(server.polling_interval_s,)]


def test_a_manual_agent_captures_nothing_by_itself_and_data_outlives_a_kill(tmp_path):
    with EmulatedSqlServer(tmp_path / "data", agent="manual", password="Correct-1}") as server:
        server.create_database("Shop", ORDERS)
        server.enable_cdc("Shop", "orders", net_changes=True)
        server.execute("Shop", "INSERT INTO dbo.orders VALUES (1, NULL)")
        assert server.change_rows("Shop", "dbo_orders") == []
        server.kill()
        server.start()
        server.capture("Shop")
        assert len(server.change_rows("Shop", "dbo_orders")) == 1
        port = server.port

    assert not is_listening(port)
    with EmulatedSqlServer(tmp_path / "data", agent="manual") as again:
        assert len(again.change_rows("Shop", "dbo_orders")) == 1


def test_the_sample_of_the_testing_page_runs_as_it_is_pasted(capsys):
    page = (ROOT / "docs" / "testing.md").read_text("utf-8")
    sample, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    exec(compile(sample, "sample", "exec"), {})  # noqa: S102 - what users paste

    assert "'note': 'first'" in capsys.readouterr().out


def test_what_was_not_started_says_how_to_start_it():
    with pytest.raises(NotStarted, match="with EmulatedSqlServer"):
        EmulatedSqlServer().connection_string()


def test_a_wrong_password_is_refused(server):
    with pytest.raises(pyodbc.Error) as refused:
        pyodbc.connect(server.connection_string(PWD="Wrong-1"), timeout=5)
    assert 18456 in native_numbers(refused.value)


def test_nothing_is_left_behind_after_ctrl_c(tmp_path):
    script = (
        "import signal, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        # As a terminal starts it: what a shell starts in the background ignores Ctrl-C.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tailrace.testing import EmulatedSqlServer\n"
        "with EmulatedSqlServer() as server:\n"
        "    print(server.port, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert is_listening(port)
        child.send_signal(signal.SIGINT)
        child.wait(30)

    assert not is_listening(port)
    assert list(tmp_path.iterdir()) == []


def test_the_fixtures_serve_a_project_of_somebody_else(pytester_project):
    outcome = pytester_project(
        conftest='pytest_plugins = ["tailrace.testing.pytest_plugin"]\n',
        test=(
            "def test_orders(emulated_sql_server, cdc_database):\n"
            "    made = cdc_database('CREATE TABLE dbo.t (id int PRIMARY KEY)', tables=['t'])\n"
            "    emulated_sql_server.execute(made, 'INSERT INTO dbo.t VALUES (7)')\n"
            "    emulated_sql_server.capture(made)\n"
            "    assert emulated_sql_server.change_rows(made, 'dbo_t')[0]['id'] == 7\n"
        ),
    )
    assert "1 passed" in outcome


@pytest.fixture
def pytester_project(tmp_path: Path):
    """Runs pytest over a folder that knows nothing of this one; gives its output."""

    def run(conftest: str, test: str) -> str:
        (tmp_path / "conftest.py").write_text(conftest)
        (tmp_path / "test_it.py").write_text(test)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=False,
        )
        return done.stdout + done.stderr

    return run


def test_a_test_moves_the_clock_and_lets_the_daily_cleanup_run():
    begins = datetime.datetime(2026, 3, 1, 1, 59, tzinfo=datetime.UTC)
    with EmulatedSqlServer(agent="manual", clock=begins) as server:
        server.create_database("Shop", ORDERS)
        server.enable_cdc("Shop", "orders")
        server.execute("Shop", "INSERT INTO dbo.orders VALUES (1, N'old')")
        server.capture("Shop")
        server.execute("master", "EXEC tailrace.advance_clock @days = 4")
        server.execute("Shop", "INSERT INTO dbo.orders VALUES (2, N'new')")
        server.capture("Shop")
        server.execute("master", "EXEC tailrace.run_due_jobs")

        assert [row["id"] for row in server.change_rows("Shop", "dbo_orders")] == [2]
