"""What `make setup` decides: what to install, from where, and what to tell whom."""

import os
import platform
import shutil
import sys

import pytest

from tailrace_compose.local import set_up
from tailrace_compose.local.cache import cache_dir

LOCK = """\
sdk-core==1.0 \\
    --hash=sha256:aa
setuptools==84.2.1 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via tailrace
six==1.17.0 \\
    --hash=sha256:dd
"""


@pytest.fixture
def bare_machine(monkeypatch):
    """A Debian machine without Java and unixODBC, on which nothing may be run."""
    commands: list[list[str]] = []
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(set_up, "loads", lambda library: library != "libodbc.so.2")
    monkeypatch.setattr(set_up, "java_version", lambda: 11)
    monkeypatch.setattr(set_up, "run", lambda command, name, environ=None: commands.append(command))
    return commands


def test_entry_of_a_package_has_all_its_hashes():
    assert set_up.entry_of("setuptools", LOCK).count("--hash") == 2
    assert set_up.entry_of("six", LOCK) == "six==1.17.0 \\\n    --hash=sha256:dd\n"
    with pytest.raises(set_up.SetUpError, match="no entry for wheel"):
        set_up.entry_of("wheel", LOCK)


def test_the_lock_pins_what_builds_source_archives():
    assert "--hash=sha256:" in set_up.entry_of(
        "setuptools", (set_up.CLONE / "requirements.lock").read_text()
    )


def test_user_is_told_the_command_that_root_would_run(bare_machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(set_up.SetUpError) as caught:
        set_up.system_packages()
    assert "sudo apt-get install --yes unixodbc openjdk-17-jre-headless" in str(caught.value)
    assert bare_machine == []


def test_root_gets_what_the_distribution_has(bare_machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        set_up,
        "output_of",
        lambda command: "Candidate: 21.0.9" if "21" in command[-1] else "Candidate: (none)",
    )
    set_up.system_packages()
    assert bare_machine[-1][-2:] == ["unixodbc", "openjdk-21-jre-headless"]


def test_other_systems_are_told_what_is_missing(bare_machine, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(set_up.SetUpError, match=r"unixodbc, a Java 17\+ runtime"):
        set_up.system_packages()


def test_an_old_python_gets_a_sentence(monkeypatch):
    monkeypatch.setattr(set_up, "PYTHON_MIN", (4, 0))
    with pytest.raises(set_up.SetUpError, match=r"Python 4\.0 or newer .* make PYTHON="):
        set_up.require_python()


def test_a_failing_command_shows_its_last_words():
    command = [sys.executable, "-c", "import sys; print('no space left'); sys.exit(4)"]
    with pytest.raises(set_up.SetUpError, match=r"(?s)status 4.*no space left"):
        set_up.run(command, "demo")


@pytest.mark.parametrize(
    ("argument", "further"),
    [
        ("python", set()),
        ("", {"system_packages", "fetch_jars"}),
        ("test", {"system_packages", "fetch_jars", "browser", "compile_tests"}),
    ],
)
def test_each_target_takes_its_steps(monkeypatch, argument, further):
    always = {"require_python", "make_venv", "install_packages", "install_project"}
    taken = set()
    for step in always | {"system_packages", "fetch_jars", "browser", "compile_tests"}:
        monkeypatch.setattr(set_up, step, lambda step=step: taken.add(step))
    assert set_up.main([argument] if argument else []) == 0
    assert taken == always | further


@pytest.mark.parametrize(
    "environ",
    [
        {"TAILRACE_CACHE": "{tmp}/own", "XDG_CACHE_HOME": "{tmp}/xdg"},
        {"XDG_CACHE_HOME": "{tmp}/xdg"},
        {"HOME": "{tmp}/home"},
    ],
)
def test_both_agree_on_the_cache_folder(tmp_path, monkeypatch, environ):
    for name in ("TAILRACE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    assert set_up.cache_folder() == cache_dir()
    assert cache_dir().is_relative_to(tmp_path)
