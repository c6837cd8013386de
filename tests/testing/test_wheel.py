"""What other projects install: a wheel with every file, from which README's example runs."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "emulator", "publisher", "spark_sink", "compose", "tailrace")
MADE_HERE = re.compile(r"/(__pycache__|secrets)/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy: a build leaves folders where it runs."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = folder / "clone"
    clone.mkdir()
    for name in (*PACKAGES, "pyproject.toml", "README.md"):
        (clone / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(clone)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_it_holds_every_file_of_the_packages(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    files = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file())
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    wanted = {name for name in wanted if not MADE_HERE.search(name)}
    assert "compose/monitoring/dashboard.json" in wanted
    assert wanted - held == set()


def test_readmes_example_runs_from_it(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    text = (ROOT / "README.md").read_text("utf-8")
    (example,) = re.findall(r"## In your own tests\n```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "example.py").write_text(f"{example}\nimport tailrace\nprint(tailrace.__file__)\n")
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows, connection_string, package = done.stdout.splitlines()
    assert "'note': 'first'" in rows
    assert "DATABASE={Shop}" in connection_string
    assert package == str(tmp_path / "site" / "tailrace" / "__init__.py")
