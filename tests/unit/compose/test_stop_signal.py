"""Signals set an event and leave a call into the ODBC driver alone."""

import signal
import subprocess
import sys
import time

import pytest

from tailrace.testing import EmulatedSqlServer
from tailrace_compose.stop_signal import StopSignal

ASKS = """
import sys, threading
import pyodbc
from tailrace_compose.stop_signal import StopSignal
with StopSignal() as stop:
    connection = pyodbc.connect(sys.argv[1], timeout=20)
    connection.timeout = 30
    tell = threading.Thread(target=lambda: (stop.wait(20), print("signalled", flush=True)))
    tell.start()
    print("ready", flush=True)
    print(connection.execute("SELECT id FROM dbo.orders").fetchone(), flush=True)
"""
WAITS = """
import sys, time
from tailrace_compose.stop_signal import StopSignal
with StopSignal() as stop:
    print("ready", flush=True)
    stop.wait(60)
    print("stopped", flush=True)
    time.sleep(60)
"""

HANGS_UP = """
import signal, threading
from tailrace_compose.stop_signal import StopSignal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
asked = threading.Event()
with StopSignal(asked) as stop:
    for _ in range(2):
        print("ready", flush=True)
        assert asked.wait(20)
        asked.clear()
    print("asked", stop.is_set(), flush=True)
    assert stop.wait(20)
"""


def test_a_statement_goes_on_when_the_signal_comes():
    with EmulatedSqlServer() as server:
        server.create_database("Shop", "CREATE TABLE dbo.orders (id int PRIMARY KEY)")
        writer = server.connect("Shop")
        writer.execute("BEGIN TRAN; INSERT dbo.orders VALUES (1)")
        command = [sys.executable, "-c", ASKS, server.connection_string("Shop")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            blocked = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id <> 0"
            deadline = time.monotonic() + 20
            while not writer.execute(blocked).fetchval():
                assert time.monotonic() < deadline
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == "signalled\n"
            writer.execute("COMMIT")
            assert process.stdout.readline() == "(1,)\n"
            assert process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_process(number):
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopped\n"
        process.send_signal(number)
        assert process.wait(20) == 128 + number


def test_signals_are_as_before_behind_it():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with StopSignal() as stop:
        assert not stop.is_set()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_hang_up_is_told_apart_from_a_stop():
    with subprocess.Popen(
        [sys.executable, "-c", HANGS_UP], stdout=subprocess.PIPE, text=True
    ) as process:
        for _ in range(2):
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "asked False\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
