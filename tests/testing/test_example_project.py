"""The example project in docs/ works as it stands there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_project_passes(tmp_path, kafka, registry):
    project = tmp_path / "example"
    shutil.copytree(ROOT / "docs" / "example-project", project)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project)],
        cwd=project,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
            # Servers that run already; without them the project starts its own.
            "TAILRACE_TEST_BOOTSTRAP_SERVERS": kafka,
            "TAILRACE_TEST_REGISTRY_URL": registry,
        },
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("tailrace-")]
    assert left == []
