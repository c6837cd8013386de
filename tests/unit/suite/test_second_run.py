"""A test that failed is run a second time, alone; one that passes then is flaky."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLAKY = """
def test_flaky():
    ran = pathlib.Path(__file__).with_name("ran")
    if not ran.exists():
        ran.touch()
        raise AssertionError("of its neighbours")
"""
BROKEN = """
def test_broken():
    raise AssertionError("of itself")
"""
SKIPPED = """
import pytest
def test_skipped():
    ran = pathlib.Path(__file__).with_name("tried")
    if ran.exists():
        pytest.skip("of what the first run left")
    ran.touch()
    raise AssertionError("of itself")
"""
SOUND = """
def test_sound():
    pass
"""


def run(folder: Path, workers: int, *tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text("import pathlib\n" + "".join(tests))
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "--second-run"]
    command += ["-p", "tests.suite.second_run", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    for name in [name for name in environment if name.startswith("PYTEST_XDIST")]:
        del environment[name]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_run_whose_only_failure_passes_alone_passes_and_lists_it_as_flaky(tmp_path):
    ended = run(tmp_path, 2, FLAKY, SOUND)

    *_, listed, closing = ended.stdout.splitlines()
    assert ended.returncode == pytest.ExitCode.OK, ended.stdout + ended.stderr
    assert "AssertionError: of its neighbours" in ended.stdout
    assert listed == "FLAKY test_it.py::test_flaky: failed, passed alone"
    assert re.search(r"= 1 passed, 1 flaky in ", closing)


def test_a_test_that_fails_twice_fails_the_run_and_both_outcomes_are_printed(tmp_path):
    ended = run(tmp_path, 0, FLAKY, BROKEN, SOUND)

    *_, flaky, broken, closing = ended.stdout.splitlines()
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
    # Its traceback in the first run and in the second, and the first one of the flaky test.
    assert len(re.findall(r"E +AssertionError: of itself", ended.stdout)) == 2
    assert "AssertionError: of its neighbours" in ended.stdout
    assert flaky == "FLAKY test_it.py::test_flaky: failed, passed alone"
    assert broken == "FAILED test_it.py::test_broken: failed twice"
    assert re.search(r"= 1 failed, 1 passed, 1 flaky in ", closing)


def test_a_test_that_failed_and_is_skipped_then_has_not_passed(tmp_path):
    ended = run(tmp_path, 0, SKIPPED, SOUND)

    *_, skipped, closing = ended.stdout.splitlines()
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
    assert skipped == "FAILED test_it.py::test_skipped: failed twice"
    assert re.search(r"= 1 failed, 1 passed in ", closing)
