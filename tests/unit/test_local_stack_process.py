"""Child processes: they are waited for with a bound, and nothing outlives its owner."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from compose.local import stack
from compose.local.errors import ProcessFailed
from compose.local.process import ChildProcess, free_port

SLEEP = ["sleep", "300"]


def wait_for_end(pid: int, limit_s: float = 10) -> bool:
    """Waits for the end of a process that is not our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], limit_s)[0])
    finally:
        os.close(handle)


@pytest.fixture
def sleeper(tmp_path):
    process = ChildProcess("Sleeper", SLEEP, tmp_path / "sleeper.log").start()
    yield process
    process.kill()


def test_stop_ends_it_and_may_be_repeated(sleeper):
    pid = sleeper.pid
    assert sleeper.is_running
    sleeper.stop()
    assert not sleeper.is_running
    assert sleeper.pid is None
    assert wait_for_end(pid)
    sleeper.stop()


def test_starting_twice_is_refused(sleeper):
    with pytest.raises(RuntimeError, match="Sleeper runs already"):
        sleeper.start()


def test_a_process_that_ignores_sigterm_is_killed(tmp_path):
    process = ChildProcess(
        "Stubborn", ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], tmp_path / "l"
    ).start()
    process.wait_until_ready(lambda: "up" in process.log_tail(), 10)
    process.stop(limit_s=0.2)
    assert not process.is_running


def test_an_early_end_shows_the_log(tmp_path):
    process = ChildProcess("Broken", ["sh", "-c", "echo no disk left; exit 3"], tmp_path / "l")
    process.start()
    with pytest.raises(ProcessFailed) as caught:
        process.wait_until_ready(lambda: False, 10)
    assert "Broken ended with status 3 while starting" in str(caught.value)
    assert "no disk left" in str(caught.value)


def test_a_process_that_never_answers_is_killed_after_the_limit(tmp_path):
    process = ChildProcess("Mute", SLEEP, tmp_path / "l").start()
    with pytest.raises(ProcessFailed, match=r"(?s)Mute was not ready .*the log is empty"):
        process.wait_until_ready(lambda: False, 0.2)
    assert not process.is_running


def test_a_child_survives_the_thread_that_started_it(tmp_path):
    process = ChildProcess("Sleeper", SLEEP, tmp_path / "l")
    thread = threading.Thread(target=process.start)
    thread.start()
    thread.join()
    try:
        assert process.exited_within(0.3) is None
    finally:
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_children_die_with_a_parent_that_was_killed(tmp_path):
    script = (
        "import pathlib, signal, sys\n"
        "from compose.local.process import ChildProcess\n"
        f"log = pathlib.Path({str(tmp_path / 'l')!r})\n"
        f"child = ChildProcess('Sleeper', {SLEEP!r}, log).start()\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=root
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert wait_for_end(pid)


def test_output_can_have_a_file_of_its_own(tmp_path):
    output = tmp_path / "out"
    command = ["sh", "-c", "echo ready; echo trouble >&2"]
    process = ChildProcess("Talker", command, tmp_path / "l", output=output).start()
    assert process.exited_within(10) == 0
    process.kill()
    assert output.read_text() == "ready\n"
    assert process.log_tail() == "trouble\n"


def test_free_port_can_be_bound_and_is_not_ephemeral():
    port = free_port()
    assert port < 32768
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))


def test_kept_processes_are_found_again_and_stopped(tmp_path):
    process = ChildProcess("Sleeper", SLEEP, tmp_path / "l", keep=True).start()
    pid = process.pid
    assert pid is not None
    stack._write(tmp_path, {"ports": {}, "processes": {str(pid): stack._identity(pid)}})
    assert stack.running(tmp_path)
    assert stack.stop_kept(tmp_path)
    assert process.exited_within(10) == -signal.SIGTERM
    assert not stack.running(tmp_path)
    assert not stack.stop_kept(tmp_path)


def test_a_process_id_that_was_given_to_another_is_left_alone(tmp_path):
    stack._write(tmp_path, {"ports": {}, "processes": {str(os.getpid()): "another start time"}})
    assert not stack.running(tmp_path)
    assert not stack.stop_kept(tmp_path)
