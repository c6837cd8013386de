"""The example project works as it stands there, beside modules of any name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow("the example's tests run as a project of their own, with a Spark of its own")
@pytest.mark.timeout(600)
def test_the_example_project_passes(tmp_path):
    project = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "tested_shop", project)
    name_things_as_ours_were(project)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project)],
        cwd=project,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert "5 passed" in done.stdout, done.stdout + done.stderr
    steps = re.findall(r"^tailrace: (.*) \(\d+\.\d s\)$", done.stdout, re.MULTILINE)
    # One of each for the session, whatever the order of its tests.
    for once in ("Kafka broker started", "schema registry started", "Spark started"):
        assert steps.count(once) == 1, done.stdout
    assert len([step for step in steps if re.fullmatch("lake of .* caught up", step)]) == 4
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("tailrace-")]
    assert left == []
    assert not (project / "spark-warehouse").exists()


def name_things_as_ours_were(project: Path) -> None:
    """Modules and packages of the project with names that were import names of ours once.

    Each fails when it is imported by anyone but the project: everything of ours that runs in its
    folder, child processes included, has to import packages of its own names only.
    """
    for module in ("schemas", "emulator"):
        (project / f"{module}.py").write_text(_NOT_FOR_YOU)
    for package in ("publisher", "spark_sink", "compose", "bench"):
        (project / package).mkdir()
        (project / package / "__init__.py").write_text(_NOT_FOR_YOU)


_NOT_FOR_YOU = 'raise ImportError("this is a module of the project, not one of Tailrace")\n'
