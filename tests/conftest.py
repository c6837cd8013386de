"""Loads the fixtures of tests/fix_*.py, one file for each part of the stack; orders the tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from emulator.tests.forked import PRELOADED, forked

TESTS = Path(__file__).parent
pytest_plugins = sorted(f"tests.{path.stem}" for path in TESTS.glob("fix_*.py"))
# There is one fork server in a process, and it has not started yet.
forked.set_forkserver_preload([*PRELOADED, "tailrace_publisher.daemon"])

# Fast to slow.
STAGES = (
    "unit",
    "property",
    "testing",
    "debezium",
    "pipeline",
    "sink",
    "end_to_end",
    "containers",
)
NEEDS_PROCESSES = ("kafka", "spark", "containers", "slow")


@pytest.fixture(autouse=True)
def structlog_as_it_was() -> Iterator[None]:
    """structlog's configuration is the process's, too; commands and the simulation set it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the tests by stage; within a stage the (random) order stays."""
    items.sort(key=stage_of)


def stage_of(item: pytest.Item) -> tuple[bool, int]:
    """Where a test belongs: those without other processes first, then by folder."""
    folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
    stage = STAGES.index(folder) if folder in STAGES else len(STAGES)
    return any(item.get_closest_marker(name) for name in NEEDS_PROCESSES), stage
