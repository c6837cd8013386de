"""What the tests of both distributions share: marks, workers, the embedded or a given server."""

import pyodbc
import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, not about the code.
settings.register_profile(
    "tailrace", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("tailrace")

pytest_plugins = [
    "tests.suite.marks",
    "tests.suite.workers",
    "tests.suite.durations",
    "tests.suite.second_run",
    "emulator.tests.fix_conformance",
    "emulator.tests.fix_emulator",
    "emulator.tests.fix_sqlserver",
]


@pytest.fixture(autouse=True)
def uuids_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of pyodbc belongs to the process, and a publisher in a thread changes it."""
    monkeypatch.setattr(pyodbc, "native_uuid", False)
