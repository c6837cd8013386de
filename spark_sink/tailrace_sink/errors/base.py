"""What all errors of the sink say of themselves, and those of its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

SNAPSHOT_HELPS: Final = "(tailrace snapshot)"
"""What an error's text says where something of a table is gone, and a new snapshot mends it."""

EXCLUDED: Final = "excluded by configuration"
"""Why a table is out of the cuts that the configuration leaves out."""


class SinkError(Exception):
    """Base of all errors that the sink raises on purpose."""

    retryable: ClassVar[bool] = False


class ConfigError(SinkError):
    """The configuration is not usable; names every wrong option at once.

    Attributes:
        problems: one sentence per wrong option: option, value, bounds and fix.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("configuration: " + "; ".join(self.problems))


class TableError(SinkError):
    """What concerns one table, whatever the others do: it stops alone and leaves the lake's cuts.

    A new snapshot brings it back.
    """


class TableExcluded(TableError):
    """The configuration leaves a table out: what comes meanwhile is missing from it."""

    def __init__(self) -> None:
        super().__init__(EXCLUDED)
