"""What goes to one worker in a row: a file, because its fixtures of module scope are shared."""

from __future__ import annotations

from pathlib import PurePosixPath

SPARK = "spark "
"""Begins the names of groups for workers that have the Spark session."""
_OF_SPARK = {"end_to_end", "sink"}


def group_of(nodeid: str) -> str:
    """The group of a test."""
    file = nodeid.partition("::")[0]
    return f"{SPARK}{file}" if of_spark(nodeid) else file


def of_spark(nodeid: str) -> bool:
    """Whether a test goes to a worker that has the Spark session."""
    return folder_of(nodeid.partition("::")[0]) in _OF_SPARK


def folder_of(file: str) -> str:
    """The folder below tests/."""
    parts = PurePosixPath(file).parts
    return parts[parts.index("tests") + 1] if "tests" in parts else ""
