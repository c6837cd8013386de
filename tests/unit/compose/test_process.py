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

from tailrace_compose.local import kept, stack
from tailrace_emulator.testing.errors import ProcessFailed
from tailrace_emulator.testing.process import ChildProcess, free_port

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
        "from tailrace_emulator.testing.process import ChildProcess\n"
        f"log = pathlib.Path({str(tmp_path / 'l')!r})\n"
        f"child = ChildProcess('Sleeper', {SLEEP!r}, log).start()\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    root = Path(__file__).parents[3]
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


@pytest.fixture
def kept_part(tmp_path):
    """Runs a command that `stack.json` names as a part of the stack in `tmp_path`."""
    started: list[ChildProcess] = []

    def start(part, command=SLEEP):
        process = ChildProcess(part, command, tmp_path / f"{part}.log", keep=True).start()
        started.append(process)
        known = kept.read(tmp_path).get("processes", {})
        kept.write(tmp_path, {"processes": {**known, part: kept.kept_process(process.pid)}})
        return process

    yield start
    for process in started:
        process.kill()


def outcomes(reports):
    return {report.name: (report.outcome, report.pid) for report in reports}


def test_each_part_is_found_again_and_stopped_and_said_so(kept_part, tmp_path):
    broker, registry = kept_part("broker"), kept_part("registry")
    pids = broker.pid, registry.pid
    broker.kill()
    assert stack.running(tmp_path)
    assert outcomes(stack.stop_kept(tmp_path)) == {
        "Kafka broker": ("already gone", pids[0]),
        "schema registry": ("stopped", pids[1]),
        "embedded SQL Server": ("not running", None),
    }
    assert registry.exited_within(10) == -signal.SIGTERM
    assert not stack.running(tmp_path)
    again = stack.stop_kept(tmp_path)
    assert {report.outcome for report in again} == {"not running"}


def test_a_part_that_ignores_sigterm_is_killed_and_said_so(kept_part, tmp_path):
    command = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"]
    stubborn = kept_part("emulator", command)
    stubborn.wait_until_ready(lambda: "up" in stubborn.log_tail(), 10)
    pid = stubborn.pid
    reports = stack.stop_kept(tmp_path, limit_s=0.2)
    assert outcomes(reports)["embedded SQL Server"] == ("killed", pid)
    assert stubborn.exited_within(10) == -signal.SIGKILL


def test_a_process_id_that_was_given_to_another_is_left_alone(tmp_path):
    kept.write(tmp_path, {"processes": {"broker": [os.getpid(), "another start time"]}})
    assert not stack.running(tmp_path)
    assert outcomes(stack.stop_kept(tmp_path))["Kafka broker"] == ("already gone", os.getpid())


def test_a_directory_without_a_stack_is_not_made_by_stopping_it(tmp_path):
    reports = stack.stop_kept(tmp_path / "none")
    assert {report.outcome for report in reports} == {"not running"}
    assert not (tmp_path / "none").exists()


def test_what_runs_is_not_started_beside_by_one_that_would_end_it(kept_part, tmp_path):
    broker = kept_part("broker")
    with pytest.raises(stack.StackRunning, match="tailrace down"):
        stack.LocalStack(tmp_path).start()
    assert broker.is_running


def test_a_stack_that_ends_with_its_owner_is_not_taken_over(kept_part, tmp_path):
    broker = kept_part("broker")
    known = kept.read(tmp_path)["processes"]
    owner = kept.kept_process(os.getpid())
    kept.write(tmp_path, {"processes": {**known, "owner": owner}})
    with pytest.raises(stack.StackRunning, match=f"process {os.getpid()} and ends with it"):
        stack.LocalStack(tmp_path, keep=True).start()
    assert broker.is_running


def test_a_part_that_runs_but_does_not_answer_is_named_and_left(kept_part, tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "_FOUND_LIMIT_S", 0.2)
    registry = kept_part("registry")
    port = free_port()
    kept.write(tmp_path, {**kept.read(tmp_path), "ports": {"registry": port}})
    with pytest.raises(ProcessFailed, match=rf"registry runs as process {registry.pid} but has"):
        stack.LocalStack(tmp_path, keep=True).start()
    assert registry.is_running
    assert stack.running(tmp_path)


def test_a_second_command_waits_for_the_first(tmp_path):
    waits = threading.Event()
    order: list[str] = []

    def second():
        with kept.turn(tmp_path, waits.set):
            order.append("second")

    with kept.turn(tmp_path, lambda: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(10)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
