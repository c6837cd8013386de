"""The two distributions: what their archives hold, and that what they declare is enough to run.

Both are built as whoever publishes them would (sdist, then a wheel from the sdist). A clean
environment then gets the wheel and exactly the distributions that its metadata names: linked from
this environment, so that nothing is downloaded, and nothing else can be imported.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000
FOLDERS = {"tailrace-emulator": ROOT / "emulator", "tailrace": ROOT}
PACKAGES = {
    "tailrace-emulator": {"tailrace_emulator": "emulator"},
    "tailrace": {
        "tailrace_schemas": "schemas",
        "tailrace_service": "service",
        "tailrace_publisher": "publisher",
        "tailrace_sink": "spark_sink",
        "tailrace_compose": "compose",
        "tailrace": ".",
    },
}

ASKS_FOR_A_LAKE = """
from tailrace.testing import EmulatedSqlServer, TailracePipeline, TestingError
server = EmulatedSqlServer()
TailracePipeline(server, "Shop", lake=False)
try:
    TailracePipeline(server, "Shop")
except TestingError as error:
    print(error)
"""


@dataclass(frozen=True)
class Built:
    """The archives of one distribution."""

    sdist: Path
    wheel: Path

    def names(self) -> set[str]:
        return set(zipfile.ZipFile(self.wheel).namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Built]:
    """Both, built from a copy: a build leaves folders where it runs."""
    clone = tmp_path_factory.mktemp("clone")
    for path in tracked():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, clone / path)
    archives = {}
    for name, folder in FOLDERS.items():
        out = tmp_path_factory.mktemp(name)
        script = f"from setuptools.build_meta import build_sdist; print(build_sdist({str(out)!r}))"
        done = run([sys.executable, "-c", script], cwd=clone / folder.relative_to(ROOT))
        sdist = out / done.splitlines()[-1]
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
        command += ["--no-build-isolation", "--wheel-dir", str(out), str(sdist)]
        run(command, cwd=out)
        (wheel,) = out.glob("*.whl")
        archives[name] = Built(sdist, wheel)
    return archives


def tracked() -> list[str]:
    """The files of the distributions in this checkout, with what was not added yet."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--"]
    folders = [folder for part in PACKAGES.values() for folder in part.values() if folder != "."]
    kept = [*folders, "tailrace", "pyproject.toml", "README.md", "LICENSE"]
    return [line for line in run([*listed, *kept], cwd=ROOT).split() if (ROOT / line).is_file()]


def run(command: list[str], cwd: Path, **environ: str) -> str:
    """What a command prints; it has to succeed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environ
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_holds_every_file_of_its_packages_and_no_other_package(built, name):
    held = built[name].names()
    for package, folder in PACKAGES[name].items():
        place = f"{folder}/{package}/" if folder != "." else f"{package}/"
        wanted = {f"{package}/{f.removeprefix(place)}" for f in tracked() if f.startswith(place)}
        assert f"{package}/py.typed" in wanted
        wanted.discard(f"{package}/README.md")  # the repository's page of the folder
        assert wanted - held == set()
    tops = {entry.split("/")[0] for entry in held if ".dist-info/" not in entry}
    assert tops == set(PACKAGES[name])
    assert any(entry.endswith(".dist-info/licenses/LICENSE") for entry in held)


def test_both_have_the_version_of_the_one_file():
    version = (ROOT / "emulator" / "tailrace_emulator" / "VERSION").read_text().strip()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"tailrace-emulator=={version}" in declared["optional-dependencies"]["publisher"]
    assert {metadata.version(name) for name in FOLDERS} == {version}


def test_a_test_that_needs_a_server_only_installs_little_and_runs(built, tmp_path):
    clean = Clean(tmp_path / "clean", built, "tailrace-emulator[testing]")
    text = (ROOT / "emulator" / "README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    rows = clean.python(f"{example}\nimport tailrace_emulator as e\nprint(e.__file__)", tmp_path)
    assert "'note': 'first'" in rows
    assert str(clean.site) in rows.splitlines()[-1]
    assert "pyspark" not in clean.names
    assert clean.size() < 60 * MEGABYTE


def test_the_command_needs_no_spark_and_says_what_the_sink_needs(built, tmp_path):
    clean = Clean(tmp_path / "clean", built, "tailrace[publisher]")
    assert {"pyspark", "pandas", "pytest"} & clean.names == set()
    clean.python(
        "import tailrace_publisher.daemon, tailrace.audit.audit, tailrace_compose.local.stack"
    )
    (tmp_path / "tailrace.yaml").write_text(
        "prefix: shop\nkafka: {bootstrap: 'localhost:1'}\nregistry: {url: 'http://localhost:1'}\n"
        "sink: {lake: /nowhere}\n"
    )
    script = "import tailrace.cli.root; tailrace.cli.root.main()"
    done = subprocess.run(
        [clean.executable, "-c", script, "sink", "--config", "tailrace.yaml"],
        cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'tailrace[sink]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_subscriber_installs_neither_spark_nor_the_publisher(built, tmp_path):
    clean = Clean(tmp_path / "clean", built, "tailrace[client]")
    heavy = {"pyspark", "pyodbc", "mssql-python-odbc", "pydantic", "click", "tailrace-emulator"}
    assert heavy & clean.names == set()
    assert clean.size() < 40 * MEGABYTE
    shown = clean.python(
        "import tailrace.subscribe as s; print(s.Start.now(), s.__file__)", tmp_path
    )
    assert str(clean.site) in shown
    done = subprocess.run(
        [clean.executable, "-m", "tailrace", "--help"],
        cwd=tmp_path, env={}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "tailrace needs click. Fix: pip install 'tailrace[publisher]'\n",
    )


def test_readmes_example_runs_with_the_extra_for_tests_which_brings_no_spark(built, tmp_path):
    clean = Clean(tmp_path / "clean", built, "tailrace[testing]")
    assert {"pyspark", "pyarrow", "deltalake", "pandas"} & clean.names == set()
    assert clean.size() < 120 * MEGABYTE
    text = (ROOT / "README.md").read_text("utf-8")
    (example,) = re.findall(r"## Test your own code\n\n```python\n(.*?)```", text, re.DOTALL)
    rows, connection_string = clean.python(example, tmp_path).splitlines()
    assert "'note': 'first'" in rows
    assert "DATABASE={Shop}" in connection_string
    refused = clean.python(ASKS_FOR_A_LAKE, tmp_path)
    assert "needs pyspark and deltalake" in refused
    assert "Fix: pip install 'tailrace[testing,sink]'" in refused
    assert "TailracePipeline(..., lake=False)" in refused


class Clean:
    """A virtual environment with wheels of ours and what they declare.

    Attributes:
        site: its site-packages.
        names: the distributions in it, ours included.
        executable: its Python.
    """

    def __init__(self, folder: Path, built: dict[str, Built], wanted: str) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.executable = str(folder / "bin" / "python")
        (self.site,) = (folder / "lib").glob("*/site-packages")
        self.names: set[str] = set()
        for name in closure(wanted, built):
            self.names.add(name)
            if name in built:
                zipfile.ZipFile(built[name].wheel).extractall(self.site)
                continue
            for place in tops(metadata.distribution(name)):
                target = self.site / place.name
                if not target.exists():
                    target.symlink_to(place)

    def python(self, script: str, cwd: Path | None = None) -> str:
        """What a script prints in it."""
        return run([self.executable, "-c", script], cwd or self.site)

    def size(self) -> int:
        """Bytes of all files that an installation writes, as the distributions list them."""
        installed = (metadata.distribution(name).files or () for name in self.names - set(FOLDERS))
        foreign = sum(file.size or 0 for files in installed for file in files)
        ours = [path for path in self.site.rglob("*") if path.is_file()]
        return foreign + sum(path.stat().st_size for path in ours)


def tops(distribution: metadata.Distribution) -> set[Path]:
    """The files and folders directly in site-packages that a distribution brought."""
    site = Path(str(distribution.locate_file("")))
    first = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
    return {site / name for name in first - {"__pycache__"}}


def closure(wanted: str, built: dict[str, Built]) -> set[str]:
    """The names of a requirement and of all that it needs on this machine."""
    found: set[tuple[str, str]] = set()
    ahead = [Requirement(wanted)]
    while ahead:
        requirement = ahead.pop()
        name = requirement.name.lower().replace("_", "-")
        for extra in ("", *requirement.extras):
            if (name, extra) in found:
                continue
            found.add((name, extra))
            declared = requires(built[name]) if name in built else metadata.requires(name)
            for text in declared or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    ahead.append(needed)
    return {name for name, _ in found}


def requires(archive: Built) -> list[str]:
    """What the metadata in a wheel declares."""
    with zipfile.ZipFile(archive.wheel) as wheel:
        (name,) = [entry for entry in wheel.namelist() if entry.endswith(".dist-info/METADATA")]
        text = wheel.read(name).decode()
    return re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)
