"""What a suite depends on is hashed, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from tests.suite import passed


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree with one file that the sink's tests depend on, and one that they do not."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("spark_sink/tailrace_sink/fold.py", "publisher/daemon.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("one")
    (tmp_path / "tests/sink").mkdir(parents=True)
    monkeypatch.setattr(passed, "ROOT", tmp_path)
    return tmp_path


def outcome(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["passed.py", *arguments])
    return passed.main()


def test_a_suite_that_passed_is_stale_when_a_file_of_its_changes(
    clone: Path, monkeypatch: pytest.MonkeyPatch
):
    assert outcome(monkeypatch, "sink") == 1
    outcome(monkeypatch, "sink", "--note", passed.content("sink"))
    assert outcome(monkeypatch, "sink") == 0
    (clone / "publisher/daemon.py").write_text("two")
    assert outcome(monkeypatch, "sink") == 0
    (clone / "spark_sink/tailrace_sink/fold.py").write_text("two")
    assert outcome(monkeypatch, "sink") == 1


def test_a_new_file_counts_and_one_that_git_ignores_does_not(clone: Path):
    before = passed.content("sink")
    (clone / ".gitignore").write_text("*.pyc\n")
    (clone / "tests/sink/old.pyc").write_text("compiled")
    assert passed.content("sink") == before
    (clone / "tests/sink/test_new.py").write_text("new")
    assert passed.content("sink") != before


@pytest.mark.parametrize("suite", passed.SEEN_BY_TESTS)
def test_what_a_suite_depends_on_is_there(suite: str):
    for name in passed.SEEN_BY_TESTS[suite]:
        assert list(passed.ROOT.glob(name)), name
