"""Base classes of the sink's errors, and errors of its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

SNAPSHOT_HELPS: Final = "(tailrace snapshot)"
"""Part of the text of every error that a new snapshot of the table fixes."""

EXCLUDED: Final = "excluded by configuration"
"""Reason of a table that the configuration excludes."""


class SinkError(Exception):
    """Base of all errors that the sink raises on purpose."""

    retryable: ClassVar[bool] = False


class ConfigError(SinkError):
    """An unusable configuration.

    Attributes:
        problems: one sentence for each wrong option, with its value, bounds and fix.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("configuration: " + "; ".join(self.problems))


class TableError(SinkError):
    """An error that stops only its table, which leaves the lake's cuts until a new snapshot."""


class TableExcluded(TableError):
    """The configuration excludes a table: the lake lacks its changes from then on."""

    def __init__(self) -> None:
        super().__init__(EXCLUDED)
