"""Marks that mean something: who uses a fixture or lies in a folder has its mark, by itself.

And the other way round: a test without the mark cannot start what the mark stands for, however it
tries. An audit hook sees every process that is started from here and refuses it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import pytest

from tests.suite.groups import of_spark

BY_FIXTURE = {
    "kafka": "kafka",
    "registry": "kafka",
    "kafka_broker": "kafka",
    "schema_registry": "kafka",
    "spark": "spark",
    "container_engine": "containers",
}
BY_FOLDER = {"containers": "containers", "clients": "clients"}
WITH_REASON = ("slow", "nightly")
"""Why a test takes long, and what else holds the guarantee of one that is not in ``make test``."""
SLOW_LIMIT_S = 1200
"""Time limit of a slow test without one of its own; others have that of pyproject.toml."""
_COMMANDS = {"up": "kafka", "demo": "kafka", "sink": "spark"}


class NotMarked(RuntimeError):
    """A test started what it has no mark for."""


class _Current:
    """The test that runs now."""

    item: pytest.Item | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test the marks of its folder and fixtures, and slow ones their limit.

    A test with Spark that holds no guarantee by itself is ``thorough``: ``make test-sink`` runs it.
    """
    for item in items:
        for name in marks_of(item.path.parts, getattr(item, "fixturenames", ())):
            if item.get_closest_marker(name) is None:
                item.add_marker(name)
        has_spark = of_spark(item.nodeid) and item.get_closest_marker("spark")
        if has_spark and item.get_closest_marker("guarantee") is None:
            item.add_marker("thorough")
        is_alone = item.nodeid.startswith("tests/") and not of_spark(item.nodeid)
        if is_alone and "spark" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(
                f"{item.nodeid}: a worker would start a Spark session for this file alone; the"
                " files that use it are in tests/sink and tests/end_to_end"
            )
        for name in WITH_REASON:
            mark = item.get_closest_marker(name)
            if mark is not None and not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: the mark {name} does not give its reason")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Knows which test runs."""
    _Current.item = item
    try:
        return (yield)
    finally:
        _Current.item = None


def marks_of(path: Iterable[str], fixtures: Iterable[str]) -> set[str]:
    """The marks of a test, by the folders it lies in and the fixtures it uses."""
    by_folder = {BY_FOLDER[part] for part in path if part in BY_FOLDER}
    return by_folder | {BY_FIXTURE[name] for name in fixtures if name in BY_FIXTURE}


def mark_of(command: Sequence[str]) -> str | None:
    """The mark that a test needs to start a process; None for what every test may start."""
    words = [str(word) for word in command]
    if any(word.startswith(("kafka.Kafka", "kafka.tools.")) for word in words):
        return "kafka"
    if any(word.endswith("-runner.jar") for word in words):
        return "kafka"
    if any(PurePath(word).name == "spark-submit" for word in words[:1]):
        return "spark"
    for before, word in pairwise(words):
        if before == "tailrace" or PurePath(before).name == "tailrace":
            return _COMMANDS.get(word)
    return None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or _Current.item is None:
        return
    command = arguments[1]
    if isinstance(command, str | bytes):
        return
    mark = mark_of(command)
    if mark is not None and _Current.item.get_closest_marker(mark) is None:
        raise NotMarked(f"{_Current.item.nodeid} starts {command[0]} and has no mark {mark!r}")


sys.addaudithook(_audit)
